-- SPDX-License-Identifier: Apache-2.0
-- A node says which automatic bans it has begun or lifted, and learns those of the others. For each
-- name, a rule and a client, the last word is kept: a ban until it is over, a lift for 30 days, so
-- that it also holds against a ban that began before it and arrives after it.
--
-- KEYS: head (a hash: its field bans is the last version), bans (a hash: name, "LEVEL BEGAN ENDS"
--       in microseconds of this server, level 0: lifted), order (names by version),
--       over (names, by the time at which they may be dropped)
-- ARGV: the version that the node knows; how many to return at most; then what is new, each
--       "NAME LEVEL AGE REST": 32 digits; 0 for a lift; microseconds since it began; until it ends
-- Reply: the version that the node knows then; 1 if there is more; how many were new to Redis; how
--       many had no room; then "NAME LEVEL REST", ..., or "NAME ? VALUE": malformed

local SECOND = 1000000
local FIELD, LONGEST = 'bans', 366 * 86400 * SECOND
local LIFTED = 30 * 86400 * SECOND
local time = redis.call('TIME')
local now = time[1] * SECOND + time[2]
local version = tonumber(redis.call('HGET', KEYS[1], FIELD) or 0) or 0

if not (version >= 0 and version < 2 ^ 52) then
  version = 0
end

local function read(value)
  local level, began, ends = string.match(value or '', '^(%d%d?) (%d+) (%d+)$')
  return tonumber(level), tonumber(began), tonumber(ends)
end

-- What is known after the new word: level, began, ends. Nil: the same as before.
local function weigh(name, level, began, rest)
  local known, since, ends = read(redis.call('HGET', KEYS[2], name))

  if known and known > 0 and ends <= now then
    known = nil
  end
  if level == 0 then
    -- A lift that was made just now ends all that is there, also if this server's clock was set back.
    if known and since > began and now - began > 2 * SECOND or
       known == 0 and began - since < SECOND then
      return nil
    end
    return 0, math.max(began, since or 0), now + LIFTED
  end
  local over = now + math.min(rest, LONGEST)

  if known == 0 and since >= began then
    return nil
  end
  if known and known > 0 then
    if level <= known and over <= ends + SECOND then
      return nil -- the same, sent again: or another node was faster
    end
    return math.max(level, known), math.max(began, since), math.max(over, ends)
  end
  return level, began, over
end

local function read_word(text)
  local name, word, age, rest = string.match(text, '^(%x+) (%d%d?) (%d+) (%d+)$')
  if not name then
    return nil
  end
  local level, began, ends = weigh(name, tonumber(word), now - tonumber(age), tonumber(rest))
  if not level then
    return name
  end
  return name, string.format('%d %.0f %.0f', level, began, ends), ends
end

local function write_entry(name, entry)
  local level, _, ends = read(entry)
  if not level then
    return false
  end
  if level == 0 then
    return name .. ' 0 0'
  end
  return ends > now and string.format('%s %d %.0f', name, level, ends - now) or nil
end
