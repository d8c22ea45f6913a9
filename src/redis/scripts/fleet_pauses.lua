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
local FIELD, LONGEST = 'pauses', 25 * 3600 * SECOND -- of a lift
local PAUSE = 86400 * SECOND
local time = redis.call('TIME')
local now = time[1] * SECOND + time[2]
local version = tonumber(redis.call('HGET', KEYS[1], FIELD) or 0) or 0

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
  local over = now + math.min(rest, PAUSE)

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

local function read_word(text)
  local name, age, rest = string.match(text, '^(%x+) (%d+) (%d+)$')
  if not name then
    return nil
  end
  local began, ends = weigh(name, now - tonumber(age), tonumber(rest))
  if not began then
    return name
  end
  return name, string.format('%.0f %.0f', began, ends), ends > 0 and ends or now + LONGEST
end

local function write_entry(name, entry)
  local began, ends = read(entry)
  if not began then
    return false
  end
  if ends == 0 then
    return name .. ' 0'
  end
  return ends > now and string.format('%s %.0f', name, ends - now) or nil
end
