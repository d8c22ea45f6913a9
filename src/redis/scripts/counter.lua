-- Sliding window counter: the previous window weighted by how much of it the sliding
-- window still covers, plus the current one. With W the period, e the time into the
-- current window and n the cost, a charge fits if
--
--   prev * (W - e) + (cur + n) * W <= amount * W
--
-- arg    amount, period in us
-- value  number of the current window since 1970, previous count, current count. Both
--        in one value, so that there are no two keys that could part.
--
-- To give back: the mark is the number of the window; 0 if it is not known, and then the age
-- of the charge tells.
--
-- When the clock went back, all that counted is brought into the present window, where
-- none of it has faded: nobody waits for longer than two windows.

local function read_limit(arg)
    return struct.unpack('<dd', arg, 33)
end

local function roll(key, now, period)
    local number = (now - now % period) / period
    local value = values[key]
    if not value then
        return number, 0, 0, false
    end
    local was, prev, cur = struct.unpack('<ddd', value)
    if was > number then
        return number, 0, prev + cur, true
    elseif was == number then
        return number, prev, cur, false
    end
    return number, was == number - 1 and cur or 0, 0, false
end

local function save_counter(key, period, number, prev, cur)
    put(key, struct.pack('<ddd', number, prev, cur), (number + 2) * period)
end

-- What fits, `rest` being W - e.
local function count_left(amount, period, prev, cur, rest)
    local parts = amount * period - prev * rest - cur * period
    return parts > 0 and (parts - parts % period) / period or 0
end

-- The smallest e with prev * (W - e) <= room * W.
local function fades_at(period, prev, room)
    return prev <= room and 0 or period - math.floor(room * period / prev)
end

local function wait(number, prev, cur, now, amount, period, cost)
    local start = number * period
    if cost > amount then
        return -1
    elseif cur + cost <= amount then
        return start + fades_at(period, prev, amount - cost - cur) - now
    end
    return start + period + fades_at(period, cur, amount - cost) - now
end

local function apply(key, now, ask, amount, period)
    local number, prev, cur, write = roll(key, now, period)
    local rest = (number + 1) * period - now
    local allowed, retry, left = 1, 0, count_left(amount, period, prev, cur, rest)

    if ask.gives_back then
        local mark = ask.mark > 0 and ask.mark or math.floor((now - ask.age) / period)
        local current = mark == number
        local count = current and cur or mark == number - 1 and prev or 0
        local back = math.min(count, ask.cost)
        allowed = back > 0 and 1 or 0
        write = write or back > 0
        if current then
            cur = cur - back
        else
            prev = prev - back
        end
    else
        if ask.cost > left then
            allowed, retry = 0, wait(number, prev, cur, now, amount, period, ask.cost)
        end
        if ask.charges and ask.cost > 0 and (allowed == 1 or ask.forces) then
            cur, write = cur + math.min(ask.cost, left), true
        end
    end
    local idle = cur > 0 and (number + 2) * period or prev > 0 and (number + 1) * period or now
    if write then
        save_counter(key, period, number, prev, cur)
    end
    if ask.forces then
        allowed, retry = 1, 0
    end
    return allowed, count_left(amount, period, prev, cur, rest), retry, idle - now, 0, number
end
