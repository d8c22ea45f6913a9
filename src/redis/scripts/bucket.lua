-- Token bucket and leaky bucket. The debt, what a bucket lacks to be full, is counted in
-- parts of a unit so small that each tick of the clock pays off a whole number of them: 3 a
-- second is 3 parts a microsecond and 1,000,000 parts a unit. Nothing is ever rounded.
--
-- arg    tick_us  length of a tick: 1, or that of a step for buckets refilled in steps
--        paid     parts that a tick pays off
--        unit     parts of a unit
--        full     parts of a full bucket
--        queue    1: a leaky bucket, whose debt is the delay of the next request
-- value  debt, the tick it holds for, and `full` at that time. If the amount changes and the
--        time to refill does not, the same share stays spent. Late debits raise the debt up to
--        twice `full`, and reports (report_bucket.lua) above that.
--
-- While the clock is behind the tick in the value, nothing is paid off. But the bucket is never
-- full later than after a full refill from now, or after its debt is paid.
--
-- -a % b is what a lacks to a multiple of b: faster than a call of math.ceil.

local function read_limit(arg)
    return struct.unpack('<ddddd', arg, 33)
end

local function load_bucket(key, tick, paid, full)
    local value = values[key]
    if not value then
        return 0, tick, false
    end
    local debt, last, was_full = struct.unpack('<ddd', value)
    if was_full ~= full then -- two parts more than doubles can be off
        debt = math.ceil(debt / was_full * full) + 2
    end
    if tick >= last then
        debt = debt - (tick - last) * paid
        return debt > 0 and debt or 0, tick, false
    end
    local most = tick + math.max(math.floor((full - debt) / paid), 0)
    return debt, math.min(last, most), last > most
end

-- Gives back the charge less the refill since: without the charge, the bucket might have been
-- full and lost that refill. The mark is the time of the charge by this clock; 0: not known, and
-- its age by the node's clock counts. Of a queue only the last place can be given back; its mark
-- says which one that is.
local function refund(debt, tail, now, ask, tick_us, paid, unit, full, queue)
    local cost = math.min(ask.cost, full / unit) * unit
    if queue == 1 then
        return tail == ask.mark and math.min(debt, cost) or 0
    end
    local made = ask.mark > 0 and math.min(ask.mark, now) or now - ask.age
    local ticks = math.floor(now / tick_us) - math.floor(made / tick_us)
    return ticks >= math.ceil(cost / paid) and 0 or math.min(debt, cost - ticks * paid)
end

-- The time at which so many parts of the debt are paid off.
local function when(parts, last, paid, tick_us)
    return (last + (parts + -parts % paid) / paid) * tick_us
end

-- How much the debt grows by a cost, and how many units cannot be charged.
local function room_for(ask, debt, unit, full)
    local cost = ask.cost * unit
    local room = math.max((ask.debits and math.min(2 * full, 2 ^ 53 - 1) or full) - debt, 0)
    if cost <= room then
        return cost, 0
    end
    return room, ask.debits and math.ceil((cost - room) / unit) or 0
end

local function apply(key, now, ask, tick_us, paid, unit, full, queue)
    local debt, last, write = load_bucket(key, (now - now % tick_us) / tick_us, paid, full)
    local allowed, retry, delay = 1, 0, 0

    if ask.gives_back or ask.credits then
        local back = ask.credits and math.min(debt, ask.cost * unit) or
                     refund(debt, when(debt, last, paid, tick_us), now, ask, tick_us, paid, unit, full, queue)
        allowed = back > 0 and 1 or 0
        debt = debt - back
        write = write or back > 0
    else
        local cost = ask.cost * unit
        local over = debt + cost - full
        if cost > full then
            allowed, retry, cost = 0, -1, full
        elseif over > 0 and cost > 0 then
            allowed, retry = 0, when(over, last, paid, tick_us) - now
        elseif queue == 1 and debt > 0 then
            delay = when(debt, last, paid, tick_us) - now
        end
        if ask.forces then
            allowed, retry = 1, 0
            cost, delay = room_for(ask, debt, unit, full)
            debt, write = debt + cost, write or cost > 0
        elseif ask.charges and cost > 0 and allowed == 1 then
            debt, write = debt + cost, true
        end
    end
    local tail = debt > 0 and when(debt, last, paid, tick_us) or now
    if write and debt > 0 then
        put(key, struct.pack('<ddd', debt, last, full), tail)
    elseif write then
        drop(key)
    end
    local left = full > debt and full - debt or 0
    local mark = queue == 1 and when(debt, last, paid, tick_us) or now
    return allowed, (left - left % unit) / unit, retry, tail - now, delay, mark
end
