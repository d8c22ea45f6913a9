-- For algorithms that read their states as they need them; values.lua has another for those that
-- have read them before.

-- 1 if there was something.
local function drop(key)
    return redis.call('DEL', key)
end
