-- Sliding window log, and the sliding window of sub-windows, which is a log on a
-- coarser clock. A charge at number i, i = floor(now / grain), counts until number
-- i + span.
--
-- arg    amount
--        grain  us: 1 for a log, the length of a sub-window
--        span   the period in us for a log; one more than there are sub-windows, so
--               that the oldest, of which the window covers a part, counts whole
-- value  a list, oldest first, of {number, units, sum}: `sum` is that of the units up
--        to here since the list was last empty, so that what counts is the last sum
--        less the sum before the first. Charges of one number are one entry.
--
-- Entries that the clock has gone back behind are brought into the present.

local function read_limit(arg)
    return struct.unpack('<ddd', arg, 33)
end

local function drop(key)
    return redis.call('DEL', key)
end

local function entry(key, index)
    local value = redis.call('LINDEX', key, index)
    if value then
        return struct.unpack('<ddd', value)
    end
end

local function pack(number, units, sum)
    return struct.pack('<ddd', number, units, sum)
end

local function drop_old(key, number, span)
    local first = entry(key, 0)
    while first and first + span <= number do
        redis.call('LPOP', key)
        first = entry(key, 0)
    end
end

-- True if something lay ahead.
local function bring_back(key, number)
    local newest, units, sum = entry(key, -1)
    local total, moved = sum, 0
    while newest and newest > number do
        redis.call('RPOP', key)
        moved = moved + units
        newest, units, sum = entry(key, -1)
    end
    if moved == 0 then
        return false
    end
    if newest == number then
        redis.call('LSET', key, -1, pack(number, units + moved, total))
    else
        redis.call('RPUSH', key, pack(number, moved, total))
    end
    return true
end

local function count(key)
    local _, units, first = entry(key, 0)
    local _, _, last = entry(key, -1)
    return units and last - first + units or 0
end

local function add(key, number, cost)
    local newest, units, sum = entry(key, -1)
    if newest == number then
        redis.call('LSET', key, -1, pack(number, units + cost, sum + cost))
    else
        redis.call('RPUSH', key, pack(number, cost, (sum or 0) + cost))
    end
end

-- Until the oldest `excess` units have left: the first entry whose sum reaches them,
-- found by halving.
local function wait(key, excess, grain, span, now)
    local _, units, sum = entry(key, 0)
    local goal = sum - units + excess
    local low, high = 0, redis.call('LLEN', key) - 1
    while low < high do
        local middle = math.floor((low + high) / 2)
        local _, _, reached = entry(key, middle)
        if reached >= goal then
            high = middle
        else
            low = middle + 1
        end
    end
    local number = entry(key, low)
    return (number + span) * grain - now
end

-- From the newest entries that are not newer than the mark; all sums behind shrink.
local function take_out(key, mark, cost)
    local index, later = -1, {}
    local number, units, sum = entry(key, index)
    while number and number > mark do
        later[#later + 1] = {number, units, sum}
        index = index - 1
        number, units, sum = entry(key, index)
    end
    local back = number and math.min(units, cost) or 0
    if back == 0 then
        return 0
    end
    redis.call('LSET', key, index, pack(number, units - back, sum - back))
    for i, e in ipairs(later) do
        redis.call('LSET', key, -i, pack(e[1], e[2], e[3] - back))
    end
    return back
end

local function apply(key, now, ask, amount, grain, span)
    local number = math.floor(now / grain)
    drop_old(key, number, span)
    local write = bring_back(key, number)
    local spent = count(key)
    local left = math.max(amount - spent, 0)
    local allowed, retry = 1, 0

    if ask.gives_back then
        local back = take_out(key, ask.mark, ask.cost)
        allowed, spent = back > 0 and 1 or 0, spent - back
    else
        local units = math.min(ask.cost, left)
        if ask.cost > left then
            allowed, retry = 0, ask.cost > amount and -1 or wait(key, spent + ask.cost - amount, grain, span, now)
        end
        if ask.charges and units > 0 and (allowed == 1 or ask.forces) then
            add(key, number, units)
            spent, write = spent + units, true
        end
    end
    local newest = entry(key, -1)
    local reset = newest and spent > 0 and (newest + span) * grain - now or 0
    if write then
        redis.call('PEXPIRE', key, math.ceil((((newest or number) + span) * grain - now) / 1000) + 1000)
    end
    if ask.forces then
        allowed, retry = 1, 0
    end
    return allowed, math.max(amount - spent, 0), retry, reset, 0, number
end
