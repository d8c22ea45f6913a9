-- Of limits that are decided here and nowhere else: all there is of one is its key.

local function forget(key)
    return redis.call('DEL', key)
end
