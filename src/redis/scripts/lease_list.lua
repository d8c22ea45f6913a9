-- Keeps leases of limits whose value is a list: in one more element at its end, of an odd length,
-- which is taken out while a charge is decided.

local function load_leases(key, now, gone)
    local value = redis.call('LINDEX', key, -1)
    if not value or #value % 2 == 0 then
        return {}
    end
    redis.call('RPOP', key)
    return expire(read_leases(value, 2), now, gone or function() end)
end

local function save_leases(key, leases)
    if #leases > 0 then
        redis.call('RPUSH', key, write_leases('L', leases))
    end
end
