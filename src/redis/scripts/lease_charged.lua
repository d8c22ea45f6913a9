-- Leases of limits that count charges of a window. The grant of a lease is charged at once, and the
-- lease ends with the window at the latest, so each unit is spent in the window it was charged to.
-- Units that are not given back stay charged.
--
-- value  as of the algorithm without leases; then the leases, where load_leases and save_leases
--        keep them. Between these two calls the algorithm does not see them.

local decide = apply

local function look(key, now, cost, ...)
    return decide(key, now, {op = 0, cost = cost}, ...)
end

-- Charges all that is left, unless that would last too long.
local function spend_all(key, now, ...)
    local _, left = look(key, now, 0, ...)
    local _, _, _, reset, _, mark = decide(key, now, {op = 2, charges = true, forces = true, cost = left}, ...)
    if reset > SOON then
        decide(key, now, {op = 3, gives_back = true, cost = left, age = 0, mark = mark}, ...)
    end
end

local function lease(key, now, ask, ...)
    local leases = load_leases(key, now)
    if was_lost(leases, ask, now) then
        spend_all(key, now, ...)
    end
    local ended, back, kept = settle(leases, ask)
    local _, left, _, reset, _, mark = look(key, now, 0, ...)
    if not ended then
        save_leases(key, leases)
        return 0, left, 0, reset, 0, 0
    end
    if back > 0 then
        decide(key, now, {op = 3, gives_back = true, cost = back, age = 0, mark = mark}, ...)
    end
    local waits
    _, left, waits = look(key, now, ask.least, ...)
    local granted = grant(leases, ask, left)
    if granted > 0 then
        _, left, _, reset, _, mark = decide(key, now, {op = 1, charges = true, cost = granted}, ...)
    end
    local lasts = math.min(ask.age, LONGEST, math.max(ends(mark, ...) - now, 0))
    add_lease(leases, ask, granted, now + lasts)
    save_leases(key, leases)
    return granted, left, granted >= ask.least and 0 or math.max(waits, 0), reset, lasts, kept
end

local function return_units(key, now, ask, ...)
    local leases = load_leases(key, now)
    local _, _, _, _, _, mark = look(key, now, 0, ...)
    local ended, back = settle_killed(leases, ask)
    if not ended then
        back, mark = counts_as_spent(ask, now) and ask.back or 0, ask.mark
    end
    if back > 0 then
        back = back * decide(key, now, {op = 3, gives_back = true, cost = back, age = 0, mark = mark}, ...)
    end
    local _, left, _, reset = look(key, now, 0, ...)
    save_leases(key, leases)
    return back, left, 0, reset, 0, 0
end

local function forget(key, now, ...)
    local leases = load_leases(key, now)
    local spent, out = drop(key), units_out(leases)
    if out > 0 then
        decide(key, now, {op = 2, charges = true, forces = true, cost = out}, ...)
        save_leases(key, leases)
    end
    return spent
end

-- Only the holder can give back leased units: a credit sets them aside meanwhile.
local function credit(key, now, ask, out, ...)
    local _, _, _, _, _, mark = look(key, now, 0, ...)
    decide(key, now, {op = 3, gives_back = true, cost = out, age = 0, mark = mark}, ...)
    local allowed = decide(key, now, ask, ...)
    decide(key, now, {op = 11, charges = true, forces = true, debits = true, cost = out}, ...)
    return allowed, select(2, look(key, now, 0, ...))
end

local function apply(key, now, ask, ...)
    if DOUBT > 0 and redis.call('EXISTS', key) == 0 then
        spend_all(key, now, ...)
    end
    if ask.op == LEASE then
        read_lease(ask)
        return lease(key, now, ask, ...)
    elseif ask.op == RETURN then
        read_lease(ask)
        return return_units(key, now, ask, ...)
    end
    local leases = load_leases(key, now)
    local allowed, remaining, retry, reset, delay, mark
    if ask.credits and #leases > 0 then
        allowed, remaining, retry, reset, delay, mark = credit(key, now, ask, units_out(leases), ...)
    else
        allowed, remaining, retry, reset, delay, mark = decide(key, now, ask, ...)
    end
    if #leases > 0 then
        save_leases(key, leases)
    end
    return allowed, remaining, retry, reset, delay, mark
end
