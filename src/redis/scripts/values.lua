-- The values of the keys of the call, for algorithms whose states are strings: all read at once,
-- and updated by each write. False: the key does not exist.

local values, found = {}, redis.call('MGET', unpack(KEYS))
for i = 1, #found do
    values[KEYS[i]] = found[i]
end

-- Few keys of a call expire in different seconds, and formatting a number takes time.
local seconds = {}

-- Keeps the key until a time, and one to two seconds longer. GET makes Redis check the old value,
-- and fail if it is no string: for MGET that is the same as a missing key.
local function put(key, value, until_us)
    local second = (until_us + -until_us % 1000000) / 1000000 + 1
    local at = seconds[second]
    if not at then
        at = string.format('%d000', second)
        seconds[second] = at
    end
    redis.call('SET', key, value, 'PXAT', at, 'GET')
    values[key] = value
end

-- 1 if the key existed.
local function drop(key)
    values[key] = false
    return redis.call('DEL', key)
end
