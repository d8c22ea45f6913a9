-- SPDX-License-Identifier: Apache-2.0
-- A node says that it is there, or that it goes, and learns how many there are and
-- which version the shared changes have. Forgets a few that nobody needs any more.
--
-- KEYS: head (a hash: id, version), nodes, items, values, ends
-- ARGV: the node's name; for how many microseconds it counts as there, 0: it goes;
--       the id of the shared changes if there are none yet

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local ttl = tonumber(ARGV[2])

if ttl > 0 then
  redis.call('ZADD', KEYS[2], string.format('%.0f', now + ttl), ARGV[1])
  redis.call('PEXPIRE', KEYS[2], math.ceil(ttl / 1000))
else
  redis.call('ZREM', KEYS[2], ARGV[1])
end
redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', string.format('%.0f', now))

local over = redis.call('ZRANGEBYSCORE', KEYS[5], '-inf', string.format('%.0f', now),
                        'LIMIT', 0, 50)
for _, name in ipairs(over) do
  redis.call('ZREM', KEYS[5], name)
  redis.call('ZREM', KEYS[3], name)
  redis.call('HDEL', KEYS[4], name)
end

local id = redis.call('HGET', KEYS[1], 'id')
if not id then
  id = ARGV[3]
  redis.call('HSET', KEYS[1], 'id', id)
end
local version = tonumber(redis.call('HGET', KEYS[1], 'version') or 0)
return {id, version, redis.call('ZCARD', KEYS[2])}
