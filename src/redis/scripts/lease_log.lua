-- Sliding log with leases: log.lua charges. Leased units count, and are logged when they are known
-- to be spent: at the holder's next call, or at the end of the lease. That is never before they
-- were spent, so all units spent in a period are leased at its end or in the log:
--
--   logged in the last period + leased <= amount
--
-- Leases that have ended are logged in the order of their ends. No entry of the log is newer: any
-- later call would have logged them first.

local decide = apply

local function log_spent(key, at, units, ...)
    if units > 0 then
        decide(key, at, {op = 11, charges = true, forces = true, debits = true, cost = units}, ...)
    end
end

-- As if a holder had so many units for so many us.
local function hold(leases, now, units, lasts, period)
    if units > 0 and lasts > 0 and lasts + period <= SOON then
        table.insert(leases, {id = SOMEBODY, units = units, ends = now + lasts, call = 0})
    end
    return leases
end

local function load_log(key, now, amount, grain, period)
    if DOUBT > 0 and redis.call('EXISTS', key) == 0 then
        return hold({}, now, amount, DOUBT, period)
    end
    return load_leases(key, now, function(lease)
        log_spent(key, lease.ends, lease.units, amount, grain, period)
    end)
end

-- Us until the leased units stop counting, if all of them are spent.
local function save_log(key, leases, now, period)
    if #leases == 0 then
        return 0
    end
    local lasts = last_end(leases, now) - now + period
    save_leases(key, leases)
    redis.call('PEXPIRE', key, math.ceil(lasts / 1000) + 1000)
    return lasts
end

-- Leased units may be back at the end of the lease; if they are spent, not before a period has
-- passed. Until then it makes no sense to ask again.
local function wait_for_leases(retry, leases, now, cost, amount)
    return retry == -1 and cost <= amount and last_end(leases, now) - now or retry
end

local function lease(key, now, ask, amount, grain, period)
    local leases = load_log(key, now, amount, grain, period)
    if was_lost(leases, ask, now) then
        local _, left = decide(key, now, {op = 0, cost = 0}, amount - units_out(leases), grain, period)
        hold(leases, now, left, LONGEST, period)
    end
    local ended, back, kept = settle(leases, ask)
    if ended then
        log_spent(key, now, ended - back, amount, grain, period)
    end
    local out = units_out(leases) + (ended and ask.mark or 0)
    local _, left, waits, reset = decide(key, now, {op = 0, cost = ask.least}, amount - out, grain, period)
    if not ended then
        return 0, left, 0, math.max(reset, save_log(key, leases, now, period)), 0, 0
    end
    local granted, lasts = grant(leases, ask, left), math.min(ask.age, LONGEST)
    add_lease(leases, ask, granted, now + lasts)
    reset = math.max(reset, save_log(key, leases, now, period))
    waits = granted < ask.least and wait_for_leases(waits, leases, now, ask.least, amount) or 0
    return granted, left - granted, math.max(waits, 0), reset, lasts, kept
end

local function return_units(key, now, ask, amount, grain, period)
    local leases = load_log(key, now, amount, grain, period)
    local ended, back = settle_killed(leases, ask)
    if ended then
        log_spent(key, now, ended - back, amount, grain, period)
    elseif counts_as_spent(ask, now) and ask.back > 0 then
        back = ask.back * decide(key, now, {op = 3, gives_back = true, cost = ask.back, mark = ask.ends}, amount, grain, period)
    end
    local _, left, _, reset = decide(key, now, {op = 0, cost = 0}, amount - units_out(leases), grain, period)
    return back or 0, left, 0, math.max(reset, save_log(key, leases, now, period)), 0, 0
end

local function forget(key, now, amount, grain, period)
    local leases = load_log(key, now, amount, grain, period)
    local spent = drop(key)
    save_log(key, leases, now, period)
    return spent
end

local function apply(key, now, ask, amount, grain, period)
    if ask.op == LEASE then
        read_lease(ask)
        return lease(key, now, ask, amount, grain, period)
    elseif ask.op == RETURN then
        read_lease(ask)
        return return_units(key, now, ask, amount, grain, period)
    end
    local leases = load_log(key, now, amount, grain, period)
    local left = amount - units_out(leases)
    local allowed, remaining, retry, reset, delay, mark = decide(key, now, ask, left, grain, period)
    reset = math.max(reset, save_log(key, leases, now, period))
    return allowed, remaining, wait_for_leases(retry, leases, now, ask.cost, amount), reset, delay, mark
end
