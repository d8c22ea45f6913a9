-- SPDX-License-Identifier: Apache-2.0
-- A node announces itself, or that it stops, and learns the number of nodes and the version of the
-- shared changes. Also drops a few changes that are not needed any more.
--
-- Nodes also get the keys that sign tickets: up to five, newest first, 32 digits each, separated by
-- blanks. The first node brings its own; each week a new one is put in front. If Redis has lost
-- them, a node that knows them brings them back.
--
-- KEYS: head (a hash: id, version, tickets, when they turned, and pauses), nodes, items, values, ends
-- ARGV: the node's name; for how many microseconds it counts, 0: it stops; the id of the shared
--       changes if there are none yet; the ticket keys that the node knows, newest first; a new
--       one, used if it is time
-- Reply: id, version, number of nodes, ticket keys, 1 if the newest key is so new that other nodes
--       may not have it yet: then sign with the one before; the version of the pauses

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

local WEEK, SETTLED, KEPT = 7 * 86400 * 1000000, 10 * 1000000, 5
local tickets = redis.call('HGET', KEYS[1], 'tickets')
local turned = tonumber(redis.call('HGET', KEYS[1], 'turned') or 0) or 0
if turned ~= turned then turned = 0 end -- nan
local before = tickets
if not tickets then
  tickets = ARGV[4]
elseif math.abs(now - turned) >= WEEK then
  tickets = string.sub(ARGV[5] .. ' ' .. tickets, 1, KEPT * 33 - 1)
end
if tickets ~= before then
  turned = now
  redis.call('HSET', KEYS[1], 'tickets', tickets, 'turned', string.format('%.0f', now))
end
local fresh = #tickets > 32 and math.abs(now - turned) < SETTLED and 1 or 0
local pauses = tonumber(redis.call('HGET', KEYS[1], 'pauses') or 0) or 0
if not (pauses >= 0 and pauses < 2 ^ 52) then pauses = 0 end
return {id, version, redis.call('ZCARD', KEYS[2]), tickets, fresh, pauses}
