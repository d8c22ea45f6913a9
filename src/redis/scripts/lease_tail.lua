-- Where the leases of limits are whose value is a string: behind the HEAD bytes of it
-- that the algorithm writes.

local function load_leases(key, now)
    local value = values[key]
    return expire(value and read_leases(value, HEAD + 1) or {}, now, function() end)
end

-- What the algorithm writes has no leases.
local function save_leases(key, leases)
    local value = values[key]
    if value then
        values[key] = write_leases(string.sub(value, 1, HEAD), leases)
        redis.call('SET', key, values[key], 'KEEPTTL')
    end
end
