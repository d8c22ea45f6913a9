-- SPDX-License-Identifier: Apache-2.0
-- Takes changes, except where there is one of the same name that was made later or at the same
-- instant. A version is a time, so it rises even after a failover has lost the last versions, and
-- none is used twice.
--
-- KEYS: head (a hash: id, version), items (names by version), values (by name),
--       ends (names, by the time they may be dropped)
-- ARGV: name, value, name, value, ...
--       A value: 16 digits, when it was made in microseconds; one digit, its kind;
--       16 digits, when it expires, 0: never; what it says
-- Returns how many were taken.

local DAY = 86400 * 1000000
local DELETED, EXPIRED = 30 * DAY, DAY -- how long each is remembered

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local version = tonumber(redis.call('HGET', KEYS[1], 'version') or 0)
local taken = 0

local function made(value)
  return tonumber(string.sub(value, 1, 16))
end

local function ends(value)
  local kind, expires = string.sub(value, 17, 17), tonumber(string.sub(value, 18, 33))
  if kind == '2' or kind == '4' then
    return now + DELETED
  end
  return expires > 0 and math.max(expires, now) + EXPIRED or nil
end

for i = 1, #ARGV, 2 do
  local name, value = ARGV[i], ARGV[i + 1]
  local known = redis.call('HGET', KEYS[3], name)

  if not known or made(known) < made(value) then
    local forget = ends(value)

    version = math.max(version + 1, now)
    redis.call('HSET', KEYS[3], name, value)
    redis.call('ZADD', KEYS[2], string.format('%.0f', version), name)
    if forget then
      redis.call('ZADD', KEYS[4], string.format('%.0f', forget), name)
    elseif known then
      redis.call('ZREM', KEYS[4], name)
    end
    taken = taken + 1
  end
end
if taken > 0 then
  redis.call('HSET', KEYS[1], 'version', string.format('%.0f', version))
end
return taken
