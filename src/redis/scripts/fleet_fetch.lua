-- SPDX-License-Identifier: Apache-2.0
-- Returns the changes after a version, in the order of versions.
--
-- KEYS: head (a hash: id, version), items (names by version), values (by name)
-- ARGV: the version; how many at most; after how many bytes to stop
-- Returns the last version in this reply; 1 if there are later ones; then name, value, name,
-- value, ...

local most, bytes = tonumber(ARGV[2]), tonumber(ARGV[3])
local found = redis.call('ZRANGEBYSCORE', KEYS[2], '(' .. ARGV[1], '+inf', 'WITHSCORES',
                         'LIMIT', 0, most)
local version = tonumber(redis.call('HGET', KEYS[1], 'version') or 0)
local reply = {version, 0}
local size = 0

for i = 1, #found, 2 do
  local value = redis.call('HGET', KEYS[3], found[i])

  if value then
    reply[#reply + 1] = found[i]
    reply[#reply + 1] = value
    size = size + #value
  end
  if i + 1 == 2 * most or (size >= bytes and i + 1 < #found) then
    reply[1], reply[2] = tonumber(found[i + 1]), 1
    break
  end
end
return reply
