-- Sliding window counter: the previous window weighted by how much of it the sliding
-- window still covers, plus the current one. With W the period, e the time into the
-- current window and n the cost, a charge fits if
--
--   prev * (W - e) + (cur + n) * W <= amount * W
--
-- arg    amount, period in us
-- value  number of the current window since 1970, previous count, current count; a fourth
--        number if units are owed: a late debit that did not fit. They count, and are charged
--        where they first fit, in this window or the next. One value, so that its parts cannot
--        be lost separately.
--
-- To give back: the mark is the number of the window; 0: not known, and the age of the charge
-- counts.
--
-- After the clock went back, all that counted moves into the present window, unfaded: no client
-- waits for longer than two windows.

local function read_limit(arg)
    return struct.unpack('<dd', arg, 33)
end

-- Moves one window on: owed units fill the window that has ended, the rest goes into the next.
local function turn(amount, prev, cur, owed)
    local filled = math.min(owed, math.max(amount - cur, 0))
    return cur + filled, owed - filled
end

local function roll(key, now, amount, period)
    local number = (now - now % period) / period
    local value = values[key]
    if not value then
        return number, 0, 0, 0, false
    end
    local was, prev, cur = struct.unpack('<ddd', value)
    local owed = #value % 32 == 0 and struct.unpack('<d', value, 25) or 0
    if was > number then
        return number, 0, prev + cur, owed, true
    elseif was == number then
        return number, prev, cur, owed, false
    elseif number - was > 3 then
        return number, 0, 0, 0, false
    end
    for _ = was, number - 1 do
        prev, cur = turn(amount, prev, cur, owed)
        owed = 0
    end
    return number, prev, cur, 0, false
end

local function save_counter(key, period, number, prev, cur, owed)
    if owed > 0 then
        put(key, struct.pack('<dddd', number, prev, cur, owed), (number + 3) * period)
    else
        put(key, struct.pack('<ddd', number, prev, cur), (number + 2) * period)
    end
end

-- The units that fit; `rest` is W - e.
local function count_left(amount, period, prev, cur, rest)
    local parts = amount * period - prev * rest - cur * period
    return parts > 0 and (parts - parts % period) / period or 0
end

-- The smallest e with prev * (W - e) <= room * W.
local function fades_at(period, prev, room)
    return prev <= room and 0 or period - math.floor(room * period / prev)
end

local function wait(number, prev, cur, owed, now, amount, period, cost)
    if cost > amount then
        return -1
    end
    while cur + owed > amount - cost do -- three times at most
        prev, cur = turn(amount, prev, cur, owed)
        owed, number = 0, number + 1
    end
    return number * period + fades_at(period, prev, amount - cost - cur - owed) - now
end

local function idle_at(number, prev, cur, owed, now, amount, period)
    while cur > 0 or owed > 0 do
        prev, cur = turn(amount, prev, cur, owed)
        owed, number = 0, number + 1
    end
    return prev > 0 and (number + 1) * period or now
end

local function apply(key, now, ask, amount, period)
    local number, prev, cur, owed, write = roll(key, now, amount, period)
    local rest = (number + 1) * period - now
    local allowed, retry, lost, left = 1, 0, 0, count_left(amount, period, prev, cur + owed, rest)

    if ask.credits then -- what is owed, then this window, then the one before
        local forgiven = math.min(owed, ask.cost)
        local back = math.min(cur, ask.cost - forgiven)
        local faded = math.min(prev, ask.cost - forgiven - back)
        owed, cur, prev = owed - forgiven, cur - back, prev - faded
        allowed = forgiven + back + faded > 0 and 1 or 0
        write = write or allowed == 1
    elseif ask.gives_back then
        local mark = ask.mark > 0 and ask.mark or math.floor((now - ask.age) / period)
        local current = mark == number
        local count = current and cur or mark == number - 1 and prev or 0
        local forgiven = count > 0 and math.min(owed, ask.cost) or 0
        local back = math.min(count, ask.cost - forgiven)
        allowed = back + forgiven > 0 and 1 or 0
        write = write or back + forgiven > 0
        owed = owed - forgiven
        if current then
            cur = cur - back
        else
            prev = prev - back
        end
    else
        if ask.cost > left then
            allowed, retry = 0, wait(number, prev, cur, owed, now, amount, period, ask.cost)
        end
        if ask.charges and ask.cost > 0 and (allowed == 1 or ask.forces) then
            local over = ask.cost > left and ask.cost - left or 0
            local more = ask.debits and math.max(math.min(over, amount - owed), 0) or 0
            cur, owed, write = cur + ask.cost - over, owed + more, true
            lost = over - more
        end
    end
    local idle = idle_at(number, prev, cur, owed, now, amount, period)
    if write then
        save_counter(key, period, number, prev, cur, owed)
    end
    if ask.forces then
        allowed, retry = 1, 0
    end
    return allowed, count_left(amount, period, prev, cur + owed, rest), retry, idle - now, ask.debits and lost or 0, number
end
