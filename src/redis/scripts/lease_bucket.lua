-- Token bucket with leases. Debt, ticks and parts are those of bucket.lua. Leased units are part
-- of the debt, and while they are leased, no refill pays them off:
--
--   level + leased <= full, that is, debt >= leased
--
-- So no refill is admitted on top of a lease: every unit admitted in a time t was leased at its
-- start or granted since; grants come from the level at the start and the refill, and together
-- that is a full bucket and the refill of t.
--
-- The order matters. First the leases that have ended release their debt, each at its end, with
-- the refill in between bounded by what was leased then; then the refill up to now; and only then
-- the units that the caller has spent stop being leased.
--
-- arg    as for bucket.lua; `queue` is 0
-- value  debt, the tick it holds for, `full` at that time; leases

local function pay(bucket, tick)
    local ticks = tick - bucket.last
    if ticks > 0 then
        local most = bucket.debt - bucket.out
        bucket.debt = ticks >= math.ceil(most / bucket.paid) and bucket.out or bucket.debt - ticks * bucket.paid
        bucket.last = tick
    end
end

-- As if a holder had all units that are not leased, for so many us.
local function empty(bucket, now, lasts)
    local left = bucket.full - bucket.out
    if lasts > 0 and left > 0 and math.ceil(bucket.full / bucket.paid) * bucket.tick_us <= SOON then
        bucket.debt, bucket.out, bucket.moved = math.max(bucket.debt, bucket.full), bucket.full, true
        table.insert(bucket.leases, {id = SOMEBODY, units = left / bucket.unit, ends = now + lasts, call = 0})
    end
    return bucket
end

local function read_limit(arg)
    return struct.unpack('<dddd', arg, 33)
end

local function load_bucket(key, now, tick_us, paid, unit, full)
    local tick = math.floor(now / tick_us)
    local bucket = {tick_us = tick_us, paid = paid, unit = unit, full = full, last = tick, debt = 0, out = 0, leases = {}}
    local value = values[key]
    if not value then
        return empty(bucket, now, DOUBT)
    end
    local was_full
    bucket.debt, bucket.last, was_full = struct.unpack('<ddd', value)
    if was_full ~= full then -- two parts more than doubles can be off
        bucket.debt = math.ceil(bucket.debt / was_full * full) + 2
    end
    bucket.leases = read_leases(value, 25)
    bucket.out = units_out(bucket.leases) * unit
    bucket.debt = math.max(math.min(bucket.debt, 2 * full), bucket.out)
    local most = tick + math.floor(math.max(full - bucket.debt, 0) / paid)
    local back = bucket.last > math.max(tick, most) -- the clock has gone: see bucket.lua
    bucket.last = back and most or bucket.last
    bucket.leases, bucket.moved = expire(bucket.leases, now, function(lease)
        pay(bucket, math.floor(lease.ends / tick_us))
        bucket.out = bucket.out - lease.units * unit
    end)
    bucket.moved = bucket.moved or back
    pay(bucket, tick)
    return bucket
end

local function until_paid(bucket, parts, now)
    return math.max((bucket.last + math.ceil(parts / bucket.paid)) * bucket.tick_us - now, 0)
end

-- Leased units can be paid off when they are back: at the end of the lease at the latest.
local function wait(bucket, units, now)
    local over = bucket.debt + units * bucket.unit - bucket.full
    if over <= 0 then
        return 0
    end
    local waits = until_paid(bucket, over, now)
    return over > bucket.debt - bucket.out and math.max(waits, last_end(bucket.leases, now) - now) or waits
end

local function save(key, bucket, now)
    if bucket.debt == 0 then
        drop(key)
        return
    end
    local lasts = until_paid(bucket, bucket.debt, now) + last_end(bucket.leases, now) - now
    local head = struct.pack('<ddd', bucket.debt, bucket.last, bucket.full)
    put(key, write_leases(head, bucket.leases), now + lasts)
end

local function left(bucket)
    return math.max(math.floor((bucket.full - bucket.debt) / bucket.unit), 0)
end

local function lease(key, bucket, now, ask)
    if was_lost(bucket.leases, ask, now) then
        empty(bucket, now, LONGEST)
    end
    local ended, back, kept = settle(bucket.leases, ask)
    if not ended then
        return 0, left(bucket), 0, 0, 0, 0
    end
    bucket.out = bucket.out - ended * bucket.unit
    bucket.debt = bucket.debt - back * bucket.unit
    local granted, lasts = grant(bucket.leases, ask, left(bucket)), math.min(ask.age, LONGEST)
    local waits = granted >= ask.least and 0 or wait(bucket, ask.least, now)
    bucket.debt = bucket.debt + granted * bucket.unit
    bucket.out = bucket.out + granted * bucket.unit
    add_lease(bucket.leases, ask, granted, now + lasts)
    save(key, bucket, now)
    return granted, left(bucket), waits, until_paid(bucket, bucket.debt, now), lasts, kept
end

-- As in bucket.lua: less the refill since.
local function refund(bucket, now, ask)
    local cost = math.min(ask.cost, bucket.full / bucket.unit) * bucket.unit
    local made = ask.mark > 0 and math.min(ask.mark, now) or now - ask.age
    local ticks = math.floor(now / bucket.tick_us) - math.floor(made / bucket.tick_us)
    if ticks >= math.ceil(cost / bucket.paid) then
        return 0
    end
    return math.min(bucket.debt - bucket.out, cost - ticks * bucket.paid)
end

-- Of a lease that has ended: less the refill since.
local function return_units(key, bucket, now, ask)
    local ended, back = settle_killed(bucket.leases, ask)
    if ended then
        bucket.out = bucket.out - ended * bucket.unit
        bucket.debt = bucket.debt - back * bucket.unit
    elseif counts_as_spent(ask, now) then
        local parts = refund(bucket, now, {cost = ask.back, mark = ask.ends})
        bucket.debt, back = bucket.debt - parts, math.ceil(parts / bucket.unit)
    end
    save(key, bucket, now)
    return back or 0, left(bucket), 0, until_paid(bucket, bucket.debt, now), 0, 0
end

local function forget(key, now, ...)
    local bucket = load_bucket(key, now, ...)
    local spent = bucket.debt > bucket.out
    bucket.debt = bucket.out
    save(key, bucket, now)
    return spent and 1 or 0
end

local function apply(key, now, ask, ...)
    local bucket = load_bucket(key, now, ...)
    local allowed, retry, charged, lost = 1, 0, 0, 0

    if ask.op == LEASE then
        read_lease(ask)
        return lease(key, bucket, now, ask)
    elseif ask.op == RETURN then
        read_lease(ask)
        return return_units(key, bucket, now, ask)
    elseif ask.gives_back or ask.credits then
        charged = -(ask.credits and math.min(bucket.debt - bucket.out, ask.cost * bucket.unit) or refund(bucket, now, ask))
        allowed = charged < 0 and 1 or 0
    elseif ask.cost * bucket.unit > bucket.full then
        allowed, retry = 0, -1
    else
        retry = wait(bucket, ask.cost, now)
        allowed = ask.cost <= left(bucket) and 1 or 0
    end
    if ask.charges and (allowed == 1 or ask.forces) then
        local most = ask.debits and 2 * bucket.full or bucket.full
        charged = math.max(math.min(ask.cost * bucket.unit, most - bucket.debt), 0)
        lost = ask.debits and math.ceil(ask.cost - charged / bucket.unit) or 0
    end
    if charged ~= 0 or bucket.moved then
        bucket.debt = bucket.debt + charged
        save(key, bucket, now)
    end
    if ask.forces then
        allowed, retry = 1, 0
    end
    return allowed, left(bucket), retry, until_paid(bucket, bucket.debt, now), lost, now
end
