-- For algorithms that read their states when they need them; values.lua is for those that read
-- them at the start.

-- 1 if the key existed.
local function drop(key)
    return redis.call('DEL', key)
end
