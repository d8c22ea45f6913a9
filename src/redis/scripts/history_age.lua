-- How old the history of a store is, for those who have nothing to charge yet: it begins
-- with the first who asks, at the latest.
--
-- KEYS[1]  the history's
-- ARGV     number of the call, id of the server
-- Reply: number, time of the store in us, age in us

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
return {ARGV[1], now, age_of_history(KEYS[1], ARGV[2], now)}
