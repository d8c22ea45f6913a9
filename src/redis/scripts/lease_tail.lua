-- Where the leases of limits are whose value is a string: behind the HEAD bytes of it
-- that the algorithm writes.

local function load_leases(key, now)
    local value = redis.call('GET', key)
    return expire(value and read_leases(value, HEAD + 1) or {}, now, function() end)
end

-- What the algorithm writes has no leases.
local function save_leases(key, leases)
    local head = redis.call('GETRANGE', key, 0, HEAD - 1)
    if head ~= '' then
        redis.call('SET', key, write_leases(head, leases), 'KEEPTTL')
    end
end
