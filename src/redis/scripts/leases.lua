-- Leases: units that a node holds and spends on its own until they end. The part that
-- all algorithms share; lease_bucket.lua and the others say what units are made of.
--
-- A lease is 32 bytes at the end of its key's value: the id of the holder, which is
-- another one each time a process starts; units; when it ends, in us; and the number
-- of the holder's call that it is of.
--
-- ask    of operation LEASE besides what batch.lua reads: `cost` is how much is wanted,
--        `age` for how long in us, `mark` what the holder still has of its lease and
--        keeps. At the end of the argument: id, number of the call, units given back,
--        how much would be of use at all, and when the holder's lease ends; 0: it does
--        not know of any.
-- answer granted, left, us until that much is there (0: it is granted), us until all is
--        there, us that the lease lasts, 1 if what was kept counts on (0: it is burnt)
--
-- ask    of operation RETURN, by a process that comes after a holder which was killed, from the
--        holder's records: `mark` is the receipt of what it held. At the end of the argument:
--        the holder's id, the number of the last call that it may have sent, units that it had
--        not spent, units that it had when that call was sent or answered, and when its lease
--        was to end; 0: not known. The second key, if there is one, tells of resets.
-- answer returned, left, 0, us until all is there, 0, 0. At most one such call may run for each record.
--
-- What a holder neither keeps nor gives back is spent. A call that comes after a later
-- one, by another connection, changes nothing: what it says has been overtaken.
--
-- A store may have lost keys while leases of them go on. For the time of a lease after its
-- history has begun (history.lua), or for as long as a node tells that was led to another
-- store, a key that is missing starts with nothing left, as if somebody held all of it. And so
-- does one of which somebody holds a lease that is not there. Limits that would be whole
-- again only after SOON start afresh all the same: who comes in that second, known or not,
-- would be refused for too long.
--
-- The last of KEYS, and of ARGV the last but one: the history's, and an id. While a slot is on
-- its way to another server there is no such key, and the id is empty. The last of ARGV: us
-- of doubt for whatever reason besides, or 0.

local LEASE, RETURN = 7, 10
local LONGEST = 1000000 -- us that a lease may last
local HOLDERS = 256     -- of one key; others are strict
local SOON = 60000000   -- us
local SOMEBODY = string.rep('\0', 8)
local SINCE -- when the history began, in us; nothing: not known

-- Takes the history out of KEYS, so that all that is left is charges.
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

-- Those that go on, and whether one of them was cut short: a lease that outlasts the
-- longest one was written by a clock far ahead. `gone` hears of each of the others, in
-- the order in which they ended.
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

-- The caller has a lease that is not here: the key was lost, and has begun anew.
local function was_lost(leases, ask, now)
    for _, lease in ipairs(leases) do
        if lease.id == ask.id then
            return false
        end
    end
    return ask.ends > now
end

-- Takes the caller's lease out: units of it that are out no more, units given back,
-- whether the rest counts on. Nothing at all: the call was overtaken.
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

-- Takes out the lease of a holder that was killed: its units, and those of them that were not
-- spent. A call whose reply the holder did not live to see may have granted some. Nothing at
-- all: there is no such lease any more.
local function settle_killed(leases, ask)
    for i, lease in ipairs(leases) do
        if lease.id == ask.id then
            table.remove(leases, i)
            local spent = lease.call == ask.call and ask.least - ask.back or lease.units - ask.back
            return lease.units, math.min(math.max(lease.units - spent, 0), lease.units)
        end
    end
end

-- Whether units of a lease that has ended count as spent here, so that they can be returned: not
-- if the key was lost or reset since.
local function counts_as_spent(ask, now)
    local reset = KEYS[2] and tonumber(redis.call('GET', KEYS[2]) or 0) or 0
    return SINCE and SINCE <= ask.ends - LONGEST and ask.ends <= now and reset < ask.ends
end

-- Not more than half of what is left, so that there is something for others, unless
-- less than that is of no use.
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
