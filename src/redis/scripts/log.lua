-- Sliding window log, and the sliding window of sub-windows, which is a log with a coarser
-- clock. A charge at number i = floor(now / grain) counts until number i + span.
--
-- arg    amount
--        grain  us: 1 for a log, the length of a sub-window
--        span   the period in us for a log; the number of sub-windows plus one, so that the
--               oldest one, which the window covers in part, counts in full
-- value  a list, oldest first, of {number, units, sum}: `sum` is the sum of all units up to this
--        entry since the list was last empty. What counts is the last sum less the sum before
--        the first entry that counts. Charges with the same number are one entry.
--
-- To give back: the mark is the number of the entry; 0: not known, and the age of the charge
-- counts.
--
-- Units of a late debit that do not fit get entries in the future: whenever an entry leaves, as
-- many of them count for a span from then on. So entries up to a span ahead stay where they are;
-- entries further ahead, left by a clock that went back, move into the present.

local MOST = 131072 -- entries: of the largest log, twice

local function read_limit(arg)
    return struct.unpack('<ddd', arg, 33)
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

-- The sum before the first entry that counts; nil: none counts.
local function drop_old(key, number, span)
    local first, units, sum = entry(key, 0)
    while first and first + span <= number do
        redis.call('LPOP', key)
        first, units, sum = entry(key, 0)
    end
    return first and sum - units
end

-- Returns the newest entry, and whether entries too far ahead were merged into it.
local function bring_back(key, number, span)
    local newest, units, sum = entry(key, -1)
    local total, moved = sum, 0
    while newest and newest > number and (moved > 0 or newest > number + span) do
        redis.call('RPOP', key)
        moved = moved + units
        newest, units, sum = entry(key, -1)
    end
    if moved == 0 then
        return newest, units, sum, false
    end
    if newest == number then
        moved = units + moved
        redis.call('LSET', key, -1, pack(number, moved, total))
    else
        redis.call('RPUSH', key, pack(number, moved, total))
    end
    return number, moved, total, true
end

-- Adds at a number, or to the newest entry if that lies ahead.
local function add(key, number, cost, newest, units, sum)
    if newest and newest >= number then
        redis.call('LSET', key, -1, pack(newest, units + cost, sum + cost))
        return newest, units + cost, sum + cost
    end
    redis.call('RPUSH', key, pack(number, cost, sum + cost))
    return number, cost, sum + cost
end

-- Puts units into the future. `owed` units were put off before and have the places of the oldest
-- entries. Returns the newest number.
local function put_off(key, over, owed, span, newest, units, sum)
    local index = 0
    while over > 0 and index < MOST do
        for _, value in ipairs(redis.call('LRANGE', key, index, index + 127)) do
            local number, here = struct.unpack('<dd', value)
            local skipped = math.min(here, owed)
            local placed = math.min(here - skipped, over)
            owed, over = owed - skipped, over - placed
            if placed > 0 then
                newest, units, sum = add(key, number + span, placed, newest, units, sum)
            end
        end
        index = index + 128
    end
    return newest
end

-- The time until the entries up to this sum have left: a binary search for the first entry that
-- reaches it.
local function wait(key, goal, grain, span, now)
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

-- Takes units from the newest entries up to the mark; all later sums shrink.
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

-- Takes units from the newest entries, those in the future first. Returns how many units it took,
-- and the number of the newest entry that is left.
local function take_youngest(key, cost)
    local back = 0
    local number, units, sum = entry(key, -1)
    while number and back < cost do
        local part = math.min(units, cost - back)
        if part == units then
            redis.call('RPOP', key)
        else
            redis.call('LSET', key, -1, pack(number, units - part, sum - part))
        end
        back = back + part
        number, units, sum = entry(key, -1)
    end
    return back, number
end

local function apply(key, now, ask, amount, grain, span)
    local number = math.floor(now / grain)
    local before = drop_old(key, number, span)
    local newest, units, sum, write
    if before then
        newest, units, sum, write = bring_back(key, number, span)
    end
    local spent = before and sum - before or 0
    local left = math.max(amount - spent, 0)
    local allowed, retry, lost = 1, 0, 0

    if ask.credits then
        local back
        back, newest = take_youngest(key, ask.cost)
        allowed, spent = back > 0 and 1 or 0, spent - back
    elseif ask.gives_back then
        local mark = ask.mark > 0 and ask.mark or math.floor((now - ask.age) / grain)
        local back = take_out(key, mark, ask.cost)
        allowed, spent = back > 0 and 1 or 0, spent - back
    else
        local cost, over = math.min(ask.cost, left), math.max(ask.cost - left, 0)
        if over > 0 then
            allowed, retry = 0, ask.cost > amount and -1 or wait(key, sum + ask.cost - amount, grain, span, now)
        end
        if cost > 0 and ask.charges and (allowed == 1 or ask.forces) then
            newest, units, sum = add(key, number, cost, newest, units, sum or 0)
            spent, write = spent + cost, true
        end
        if over > 0 and ask.debits then
            local owed = math.max(spent - amount, 0)
            local more = math.max(math.min(over, amount - owed, spent - 2 * owed), 0)
            newest, spent, write = put_off(key, more, owed, span, newest, units, sum), spent + more, true
            lost = over - more
        end
    end
    local reset = newest and spent > 0 and (newest + span) * grain - now or 0
    if write then
        redis.call('PEXPIRE', key, math.ceil((((newest or number) + span) * grain - now) / 1000) + 1000)
    end
    if ask.forces then
        allowed, retry = 1, 0
    end
    return allowed, math.max(amount - spent, 0), retry, reset, lost, number
end
