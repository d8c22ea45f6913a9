-- SPDX-License-Identifier: Apache-2.0
-- A node says which factors its signals ask for, and learns what the others ask for. What a node
-- says counts as long as the node does (fleet_poll.lua).
--
-- KEYS: nodes (a sorted set: node, by the time at which it stops counting),
--       factors (a hash: node, what it says)
-- ARGV: the node's name; what it says, empty: nothing any more; for how many microseconds it counts
-- Reply: node, what it says, node, ...: of the other nodes that count

local MOST = 1048576 -- bytes: no node says more
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]

if ARGV[2] == '' then
  redis.call('HDEL', KEYS[2], ARGV[1])
else
  redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
  redis.call('PEXPIRE', KEYS[2], math.ceil(tonumber(ARGV[3]) / 1000))
end

local there = {}
local reply = {}
local nodes = redis.call('ZRANGEBYSCORE', KEYS[1], string.format('(%.0f', now), '+inf')
for _, node in ipairs(nodes) do
  there[node] = true
  local said = node ~= ARGV[1] and redis.call('HGET', KEYS[2], node)
  if said and #said <= MOST then
    reply[#reply + 1] = node
    reply[#reply + 1] = said
  end
end
if redis.call('HLEN', KEYS[2]) > #nodes then
  for _, node in ipairs(redis.call('HKEYS', KEYS[2])) do
    if not there[node] then
      redis.call('HDEL', KEYS[2], node)
    end
  end
end
return reply
