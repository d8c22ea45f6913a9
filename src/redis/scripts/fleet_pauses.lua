-- SPDX-License-Identifier: Apache-2.0
-- A node says which pauses it has begun, prolonged or lifted, and learns those of the others. For
-- each name the last word is kept: a pause until it is over, a lift for 25 hours, so that it also
-- holds against a pause that began before it and arrives after it.
--
-- KEYS: head (a hash: its field pauses is the last version), pauses (a hash: name, "BEGAN ENDS" in
--       microseconds of this server, ENDS 0: lifted), order (names by version),
--       over (names, by the time at which they may be dropped)
-- ARGV: the version that the node knows; how many to return at most; then what is new, each
--       "NAME AGE REST": 16 digits; microseconds since it was made; until it ends, 0 for a lift
-- Reply: the version that the node knows then; 1 if there is more; how many were new to Redis; how
--       many had no room; then "NAME REST", ..., or "NAME ? VALUE": malformed

local SECOND = 1000000
local LONGEST, LIFTED = 86400 * SECOND, 25 * 3600 * SECOND
local MOST = 65536 -- names
local time = redis.call('TIME')
local now = time[1] * SECOND + time[2]
local version = tonumber(redis.call('HGET', KEYS[1], 'pauses') or 0) or 0
local taken, dropped = 0, 0

if not (version >= 0 and version < 2 ^ 52) then
  version = 0
end

local function read(value)
  local began, ends = string.match(value or '', '^(%d+) (%d+)$')
  return tonumber(began), tonumber(ends)
end

-- What is known after the new word: began, ends. Nil: the same as before.
local function weigh(name, began, rest)
  local since, ends = read(redis.call('HGET', KEYS[2], name))
  local over = now + math.min(rest, LONGEST)

  if since and ends > 0 and ends <= now then
    since = nil
  end
  if rest == 0 then
    -- A lift that was made just now ends all that is there, also if this server's clock was set back.
    if since and ends > 0 and since > began and now - began > 2 * SECOND or
       since and ends == 0 and began - since < SECOND then
      return nil
    end
    return math.max(began, since or 0), 0
  end
  if since and ends == 0 and since >= began then
    return nil
  end
  if since and ends > 0 then
    if over <= ends + SECOND then
      return nil -- the same, sent again: or another node was faster
    end
    return math.max(began, since), over
  end
  return began, over
end

local function drop(name)
  redis.call('HDEL', KEYS[2], name)
  redis.call('ZREM', KEYS[3], name)
  redis.call('ZREM', KEYS[4], name)
end

-- A key of another type fails here, before anything is written.
redis.call('HLEN', KEYS[2])
redis.call('ZCARD', KEYS[3])
for _, name in ipairs(redis.call('ZRANGEBYSCORE', KEYS[4], '-inf', string.format('%.0f', now),
                                 'LIMIT', 0, 50)) do
  drop(name)
end

for i = 3, #ARGV do
  local name, age, rest = string.match(ARGV[i], '^(%x+) (%d+) (%d+)$')
  local began, ends

  if name then
    began, ends = weigh(name, now - tonumber(age), tonumber(rest))
  end
  if began then
    version = math.max(version + 1, now)
    redis.call('HSET', KEYS[2], name, string.format('%.0f %.0f', began, ends))
    redis.call('ZADD', KEYS[3], string.format('%.0f', version), name)
    redis.call('ZADD', KEYS[4], string.format('%.0f', ends > 0 and ends or now + LIFTED), name)
    taken = taken + 1
  end
end

if taken > 0 then
  redis.call('HSET', KEYS[1], 'pauses', string.format('%.0f', version))
  dropped = redis.call('ZCARD', KEYS[4]) - MOST
  if dropped > 0 then -- those that end first
    for _, name in ipairs(redis.call('ZRANGE', KEYS[4], 0, dropped - 1)) do
      drop(name)
    end
  end
  local last = tonumber(redis.call('ZRANGE', KEYS[4], -1, -1, 'WITHSCORES')[2])
  for i = 2, 4 do
    redis.call('PEXPIRE', KEYS[i], string.format('%.0f', math.ceil((last - now) / 1000)))
  end
end

local most = tonumber(ARGV[2])
local reply = {version, 0, taken, math.max(dropped, 0)}
local found = most > 0 and redis.call('ZRANGEBYSCORE', KEYS[3], '(' .. ARGV[1],
                                      string.format('%.0f', version), 'WITHSCORES', 'LIMIT', 0, most) or {}

if most == 0 then
  reply[1], reply[2] = tonumber(ARGV[1]), 1
elseif #found == 2 * most then
  reply[1], reply[2] = tonumber(found[#found]), 1
end
for i = 1, #found, 2 do
  local value = redis.call('HGET', KEYS[2], found[i])
  local began, ends = read(value)

  if not began then
    reply[#reply + 1] = found[i] .. ' ? ' .. (value or '')
  elseif ends == 0 then
    reply[#reply + 1] = found[i] .. ' 0'
  elseif ends > now then
    reply[#reply + 1] = string.format('%s %.0f', found[i], ends - now)
  end
end
return reply
