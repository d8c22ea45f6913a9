-- Keeps leases of limits whose value is a string: after the bytes that the algorithm writes. These
-- are HEAD bytes, or 8 more if units are owed; a lease has 32.
local function head_of(value)
    return (#value - HEAD) % 32 == 0 and HEAD or HEAD + 8
end

local function load_leases(key, now)
    local value = values[key]
    return expire(value and read_leases(value, head_of(value) + 1) or {}, now, function() end)
end

-- The algorithm itself writes no leases.
local function save_leases(key, leases)
    local value = values[key]
    if value then
        values[key] = write_leases(string.sub(value, 1, head_of(value)), leases)
        redis.call('SET', key, values[key], 'KEEPTTL')
    end
end
