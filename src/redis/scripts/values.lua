-- What the keys of the call hold, for algorithms whose states are strings: read all at
-- once, and kept up to date by whoever writes. False: nothing.

local values, found = {}, redis.call('MGET', unpack(KEYS))
for i = 1, #found do
    values[KEYS[i]] = found[i]
end

-- In one call few keys end in different seconds, and to write a number out takes time.
local seconds = {}

-- It is kept until a time, and one to two seconds longer. GET: Redis looks what is there,
-- and fails if that is no string, which MGET does not tell from nothing.
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

-- 1 if there was something.
local function drop(key)
    values[key] = false
    return redis.call('DEL', key)
end
