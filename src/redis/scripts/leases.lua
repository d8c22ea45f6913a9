-- Leases: units that a worker, the holder, spends on its own until the lease ends. This is the
-- part that all algorithms share; lease_bucket.lua and the others have the rest.
--
-- A lease is 32 bytes at the end of its key's value: the id of the holder, a new one for each start
-- of a process; units; its end, in us; and the number of the holder's call that granted it.
--
-- ask    of operation LEASE, besides what batch.lua reads: `cost` units are wanted for `age` us;
--        `mark` units of the current lease are kept. At the end of the argument: id, number of
--        the call, units given back, the smallest grant that is of use, and the end of the
--        holder's lease; 0: it knows of none.
-- answer granted, left, us until `least` units are there (0: granted), us until all units are
--        there, us that the lease lasts, 1 if the kept units stay valid (0: they are lost)
--
-- ask    of operation RETURN, sent for a holder that was killed, from its records: `mark` is the
--        receipt of its units. At the end of the argument: the holder's id, the number of the last
--        call it may have sent, its unspent units, the units it had when that call was sent or
--        answered, and the end of its lease; 0: not known. The second key, if any, is the reset
--        log.
-- answer returned, left, 0, us until all units are there, 0, 0. It must run at most once for each
--        record.
--
-- Units that a holder neither keeps nor gives back are spent. A call that arrives after a later
-- one, over another connection, changes nothing.
--
-- A server may have lost keys while their leases go on. So for the time of a lease after its
-- history began (history.lua), or for as long as a node asks that was redirected to another server,
-- a missing key starts with nothing left, as if a holder had all of it. So does a key whose caller
-- holds a lease that is not there. Limits that need longer than SOON to refill start full all the
-- same: clients that come in that second would be refused for too long.
--
-- The last of KEYS is the history, and the last but one of ARGV an id. While a slot migrates there
-- is no such key, and the id is empty. The last of ARGV: for how many us a node reckons with lost
-- states, or 0.

local LEASE, RETURN = 7, 10
local LONGEST = 1000000 -- us that a lease may last
local HOLDERS = 256     -- of one key; others are strict
local SOON = 60000000   -- us
local SOMEBODY = string.rep('\0', 8)
local SINCE -- when the history began, in us; nothing: not known

-- Takes the history out of KEYS, so that only keys of charges are left.
local function read_doubt(id, doubt)
    if id ~= '' then
        local time = redis.call('TIME')
        local now = time[1] * 1000000 + time[2]
        local age = age_of_history(table.remove(KEYS), id, now)
        doubt, SINCE = math.max(doubt, LONGEST - age), now - age
    end
    return math.min(doubt, LONGEST)
end

local DOUBT = read_doubt(ARGV[#ARGV - 1], tonumber(ARGV[#ARGV]))

local function read_leases(value, from)
    local leases = {}
    for at = from, #value, 32 do
        local lease = {}
        lease.id, lease.units, lease.ends, lease.call = struct.unpack('<c8ddd', value, at)
        leases[#leases + 1] = lease
    end
    return leases
end

local function write_leases(head, leases)
    local parts = {head}
    for _, lease in ipairs(leases) do
        parts[#parts + 1] = struct.pack('<c8ddd', lease.id, lease.units, lease.ends, lease.call)
    end
    return table.concat(parts)
end

local function units_out(leases)
    local units = 0
    for _, lease in ipairs(leases) do
        units = units + lease.units
    end
    return units
end

local function last_end(leases, now)
    local last = now
    for _, lease in ipairs(leases) do
        last = math.max(last, lease.ends)
    end
    return last
end

-- Returns the leases that go on, and whether one was cut short: a lease longer than the longest
-- was written by a clock far ahead. Calls `gone` for the others, in the order of their ends.
local function expire(leases, now, gone)
    local live, over, cut = {}, {}, false
    for _, lease in ipairs(leases) do
        if lease.ends > now + LONGEST then
            lease.ends, cut = now + LONGEST, true
        end
        local list = lease.ends > now and live or over
        list[#list + 1] = lease
    end
    table.sort(over, function(a, b) return a.ends < b.ends end)
    for _, lease in ipairs(over) do
        gone(lease)
    end
    return live, cut
end

local function read_lease(ask)
    ask.id, ask.call, ask.back, ask.least, ask.ends = struct.unpack('<c8dddd', ask.arg, #ask.arg - 39)
end

-- Whether the caller has a lease that is not here: the key was lost.
local function was_lost(leases, ask, now)
    for _, lease in ipairs(leases) do
        if lease.id == ask.id then
            return false
        end
    end
    return ask.ends > now
end

-- Removes the caller's lease. Returns its units that are not kept, those of them given back, and
-- whether the kept units stay valid. nil: a later call has overtaken this one.
local function settle(leases, ask)
    for i, lease in ipairs(leases) do
        if lease.id == ask.id then
            if lease.call >= ask.call then
                return nil
            end
            table.remove(leases, i)
            if ask.mark > lease.units then
                ask.mark = 0
                return lease.units, 0, 0
            end
            local ended = lease.units - ask.mark
            return ended, math.min(ask.back, ended), 1
        end
    end
    ask.mark = 0
    return 0, 0, 0
end

-- Removes the lease of a killed holder. Returns its units, and those of them that were not spent:
-- the holder may not have lived to see the reply that granted them. nil: the lease is gone.
local function settle_killed(leases, ask)
    for i, lease in ipairs(leases) do
        if lease.id == ask.id then
            table.remove(leases, i)
            local spent = lease.call == ask.call and ask.least - ask.back or lease.units - ask.back
            return lease.units, math.min(math.max(lease.units - spent, 0), lease.units)
        end
    end
end

-- Whether the units of an ended lease count as spent here, so that they can be returned: not if
-- the key was lost or reset since.
local function counts_as_spent(ask, now)
    local reset = KEYS[2] and tonumber(redis.call('GET', KEYS[2]) or 0) or 0
    return SINCE and SINCE <= ask.ends - LONGEST and ask.ends <= now and reset < ask.ends
end

-- Grants at most half of what is left, to leave some for others, unless that is of no use.
local function grant(leases, ask, left)
    if #leases >= HOLDERS then
        return 0
    end
    local share = math.max(math.floor(left / 2), math.min(ask.least, left))
    return math.max(math.min(ask.cost, share), 0)
end

local function add_lease(leases, ask, granted, ends)
    if ask.mark + granted > 0 then
        leases[#leases + 1] = {id = ask.id, units = ask.mark + granted, ends = ends, call = ask.call}
    end
end
