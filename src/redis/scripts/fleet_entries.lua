-- SPDX-License-Identifier: Apache-2.0
-- What fleet_bans.lua and fleet_pauses.lua, which stand before this part, have in common: of each name
-- Redis keeps the last word, an entry. They define
--   FIELD        of head, with the last version
--   LONGEST      how long an entry is kept, at most
--   read_word    (text) of a node: the name, its entry and until when that is kept; no entry: the word
--                is older than what is known, or the same
--   write_entry  (name, entry) for the reply; nil: it is over; false: it is malformed
--
-- Whatever others have written there, entries reach the nodes: one without a place in the order gets
-- one as soon as a node says the same again.

local MOST = 65536 -- names

local function order_has(name)
  local at = redis.call('ZSCORE', KEYS[3], name)
  return at and tonumber(at) <= version
end

local function drop(name)
  redis.call('HDEL', KEYS[2], name)
  redis.call('ZREM', KEYS[3], name)
  redis.call('ZREM', KEYS[4], name)
end

local function take(name, entry, ends)
  version = math.max(version + 1, now)
  redis.call('HSET', KEYS[2], name, entry)
  redis.call('ZADD', KEYS[3], string.format('%.0f', version), name)
  redis.call('ZADD', KEYS[4], string.format('%.0f', ends), name)
end

-- A key of another type fails here, before anything is written.
redis.call('HLEN', KEYS[2])
redis.call('ZCARD', KEYS[3])
for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[4], '-inf', string.format('%.0f', now),
                                 'LIMIT', 0, 50)) do
  drop(name)
end

local taken, dropped, again = 0, 0, false
for i = 3, #ARGV do
  local name, entry, ends = read_word(ARGV[i])

  if entry then
    take(name, entry, ends)
    taken = taken + 1
  elseif name and not order_has(name) then
    local over = tonumber(redis.call('ZSCORE', KEYS[4], name) or 0)
    take(name, redis.call('HGET', KEYS[2], name), over > now and math.min(over, now + LONGEST) or now + LONGEST)
    again = true
  end
end

if taken > 0 or again then
  redis.call('HSET', KEYS[1], FIELD, string.format('%.0f', version))
  dropped = redis.call('ZCARD', KEYS[4]) - MOST
  if dropped > 0 then -- those that end first
    for _, name in ipairs(redis.call('ZRANGE', KEYS[4], 0, dropped - 1)) do
      drop(name)
    end
  end
  local last = tonumber(redis.call('ZRANGE', KEYS[4], -1, -1, 'WITHSCORES')[2])
  for i = 2, 4 do
    redis.call('PEXPIRE', KEYS[i],
               string.format('%.0f', math.ceil((math.min(last, now + LONGEST) - now) / 1000)))
  end
end

local most = tonumber(ARGV[2])
local reply = {version, 0, taken, math.max(dropped, 0)}
local found = most > 0 and redis.call('ZRANGEBYSCORE', KEYS[3], '(' .. ARGV[1],
                                      string.format('%.0f', version), 'WITHSCORES', 'LIMIT', 0, most) or {}

if most == 0 then
  reply[1], reply[2] = tonumber(ARGV[1]), 1
elseif #found == 2 * most then
  reply[1], reply[2] = math.ceil(tonumber(found[#found])), 1
end
for i = 1, #found, 2 do
  local entry = redis.call('HGET', KEYS[2], found[i]) or ''
  local text = write_entry(found[i], entry)

  if text == false then
    text = string.sub(found[i], 1, 40) .. ' ? ' .. string.sub(entry, 1, 40)
  end
  reply[#reply + 1] = text
end
return reply
