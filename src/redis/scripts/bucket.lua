-- Token bucket and leaky bucket. What is missing from a full bucket, its debt, is
-- counted in parts of a unit so small that every tick of the clock pays off a whole
-- number of them: 3 a second is 3 parts a microsecond and 1,000,000 parts a unit.
-- Nothing is rounded, ever.
--
-- arg    tick_us  length of a tick: 1, or that of a step for buckets refilled in steps
--        paid     parts that a tick pays off
--        unit     parts of a unit
--        full     parts of a full bucket
--        queue    1: a leaky bucket, whose debt is the delay of the next one
-- value  debt, the tick at which it was so, and the `full` of that time. Under
--        another amount with the same time to full, the same share is spent. Late debits
--        bring the debt up to twice `full`, and reports (report_bucket.lua) above that.
--
-- A clock that stands before the tick in the value pays nothing until it is there
-- again, but the bucket is never full later than a full time from now, or than its
-- debt takes.
--
-- What a lacks to a multiple of b is -a % b: no call, as of math.ceil, which takes time.

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

-- As much as was charged, less the refill of the time since: had the charge not been
-- made, the bucket might have been full and lost that. Its mark is when it was made, by
-- this clock; 0 if that is not known, and then its age counts, by the clock of a node. Of a
-- queue only the last place can be given back, and its mark tells which that is.
local function refund(debt, tail, now, ask, tick_us, paid, unit, full, queue)
    local cost = math.min(ask.cost, full / unit) * unit
    if queue == 1 then
        return tail == ask.mark and math.min(debt, cost) or 0
    end
    local made = ask.mark > 0 and math.min(ask.mark, now) or now - ask.age
    local ticks = math.floor(now / tick_us) - math.floor(made / tick_us)
    return ticks >= math.ceil(cost / paid) and 0 or math.min(debt, cost - ticks * paid)
end

-- When so many parts of the debt will have been paid off.
local function when(parts, last, paid, tick_us)
    return (last + (parts + -parts % paid) / paid) * tick_us
end

-- How much of a cost a debt grows by, and how many units that leaves out.
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

    if ask.gives_back then
        local back = refund(debt, when(debt, last, paid, tick_us), now, ask, tick_us, paid, unit, full, queue)
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
