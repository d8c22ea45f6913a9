-- Sub-windows with leases: log.lua says what is charged, lease_charged.lua how a lease
-- is. It ends with the current sub-window. Of a log on the finest clock there would be
-- nothing left to lease.
--
-- The leases are one more element at the end of the list, of an odd length, which is
-- there only while nothing is being decided.

local function load_leases(key, now)
    local value = redis.call('LINDEX', key, -1)
    if not value or #value % 2 == 0 then
        return {}
    end
    redis.call('RPOP', key)
    return expire(read_leases(value, 2), now, function() end)
end

local function save_leases(key, leases)
    if #leases > 0 then
        redis.call('RPUSH', key, write_leases('L', leases))
    end
end

local function ends(number, arg)
    local _, grain = struct.unpack('<dd', arg, 33)
    return (number + 1) * grain
end
