-- Returns the age of a server's history, and starts it if there is none.
--
-- KEYS[1]  the history
-- ARGV     number of the call, id of the server
-- Reply: number, the server's time in us, age in us

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
return {ARGV[1], now, age_of_history(KEYS[1], ARGV[2], now)}
