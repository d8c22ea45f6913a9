-- SPDX-License-Identifier: Apache-2.0
-- A node publishes the usage of clients: the totals of its state file, which replace what the same
-- file said before. So a call may come twice, or late: the totals with the highest stamp stay. A
-- group is a rule and a period; its clients are in 4096 buckets, so that readers can go step by step.
--
-- KEYS: usage (a hash: group, "NUMBER GONE START END KEEP PERIOD ZONE RULE"; its field next counts
--       groups), files (a hash: state file, "SEEN PENDING GONE HOST"), then for each group a bitmap
--       of its buckets, then buckets (hashes: file, row and client,
--       "STAMP ADMITTED REFUSED CORRECTED").
--       Times are Unix times in seconds; what is GONE at that time is dropped.
-- ARGV: the id of the state file, 16 digits; the host; how many entries are not published yet, or
--       left: the node stops, and has published all; the number of groups; for each its name and "START END KEEP PERIOD ZONE RULE"; then entries, each
--       "GROUP KEY BUCKET STAMP ADMITTED REFUSED CORRECTED CLIENT": the number of the group and of
--       the bucket in this call, the number of the bucket in its group, ..., the row and the client
-- Reply: how many entries have changed

local DAY = 86400
local now = tonumber(redis.call('TIME')[1])
local said = redis.call('HGET', KEYS[2], ARGV[1])
local groups = tonumber(ARGV[4])
local gone, latest = {}, now + DAY
local changed, made = 0, false

for i = 1, groups do
  local name, text = ARGV[3 + 2 * i], ARGV[4 + 2 * i]
  local from, to, keep = string.match(text, '^(%d+) (%d+) (%d+) ')
  local known = redis.call('HGET', KEYS[1], name)
  local number, ends, same = string.match(known or '', '^(%d+) (%d+) (.*)$')

  -- If this server's clock is ahead of the calendar, nothing goes within a day all the same.
  gone[i] = math.max(to + (to - from) * keep, now) + DAY
  latest = math.max(latest, gone[i])
  if same ~= text or tonumber(ends) < gone[i] - DAY / 2 then
    made = made or not number
    if not number then
      number = string.format('%.0f', (tonumber(redis.call('HGET', KEYS[1], 'next')) or 0) + 1)
      redis.call('HSET', KEYS[1], 'next', number)
    end
    redis.call('HSET', KEYS[1], name, string.format('%s %.0f %s', number, gone[i], text))
  end
end

for i = 5 + 2 * groups, #ARGV do
  local group, key, bucket, stamp, totals, client =
    string.match(ARGV[i], '^(%d+) (%d+) (%d+) (%d+) (%-?%d+ %d+ %-?%d+) (.*)$')
  local into, field = KEYS[2 + groups + key], ARGV[1] .. client
  local before = string.match(redis.call('HGET', into, field) or '', '^(%d+) ')

  if not before or tonumber(before) < tonumber(stamp) then
    local left = string.format('%.0f', (gone[tonumber(group)] - now) * 1000)

    changed = changed + 1
    if redis.call('HSET', into, field, stamp .. ' ' .. totals) == 1 then
      redis.call('SETBIT', KEYS[2 + group], bucket, 1)
    end
    redis.call('PEXPIRE', into, left)
    redis.call('PEXPIRE', KEYS[2 + group], left)
  end
end

local ends = tonumber(string.match(said or '', '^%d+ %d+ (%d+) ')) or 0
if ARGV[3] == 'left' then
  redis.call('HDEL', KEYS[2], ARGV[1])
else
  redis.call('HSET', KEYS[2], ARGV[1],
             string.format('%.0f %s %.0f %s', now, ARGV[3], math.max(latest, ends), ARGV[2]))
end

if made or not said then
  for key, place in pairs({[KEYS[1]] = '^%d+ (%d+) ', [KEYS[2]] = '^%d+ %d+ (%d+) '}) do
    local all = redis.call('HGETALL', key)
    for i = 1, #all, 2 do
      local over = tonumber(string.match(all[i + 1], place))
      if all[i] ~= 'next' and (not over or over <= now) then
        redis.call('HDEL', key, all[i])
      end
    end
  end
end
return changed
