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

local function roll(key, now, period)
    local number = math.floor(now / period)
    local value = redis.call('GET', key)
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

local function save_counter(key, now, period, number, prev, cur)
    redis.call('SET', key, struct.pack('<ddd', number, prev, cur), 'PX',
        math.ceil(((number + 2) * period - now) / 1000) + 1000)
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

local function apply(key, now, ask, arg)
    local amount, period = struct.unpack('<dd', arg, 33)
    local number, prev, cur, write = roll(key, now, period)
    local rest = math.min((number + 1) * period - now, period) -- W - e
    local function left()
        return math.max(math.floor((amount * period - prev * rest - cur * period) / period), 0)
    end
    local allowed, retry, free = 1, 0, left()

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
        if ask.cost > free then
            allowed, retry = 0, wait(number, prev, cur, now, amount, period, ask.cost)
        end
        if ask.charges and ask.cost > 0 and (allowed == 1 or ask.forces) then
            cur, write = cur + math.min(ask.cost, free), true
        end
    end
    local idle = cur > 0 and (number + 2) * period or prev > 0 and (number + 1) * period or now
    if write then
        save_counter(key, now, period, number, prev, cur)
    end
    if ask.forces then
        allowed, retry = 1, 0
    end
    return allowed, left(), retry, idle - now, 0, number
end
