-- SPDX-License-Identifier: Apache-2.0
-- Reads keys of usage (fleet_usage.lua), as many as fit an answer.
--
-- KEYS: hashes and bitmaps
-- ARGV: after how many bytes to stop
-- Reply: Unix time in seconds; then for each key its fields and values, or its bytes. Fewer than
--       KEYS: the others are left to the next call.

local most = tonumber(ARGV[1])
local size = 0
local reply = {tonumber(redis.call('TIME')[1])}

for _, key in ipairs(KEYS) do
  local kind = redis.call('TYPE', key).ok
  local content = {}

  if kind == 'hash' then
    content = redis.call('HGETALL', key)
    for _, text in ipairs(content) do
      size = size + #text
    end
  elseif kind == 'string' then
    content = redis.call('GET', key)
    size = size + #content
  end
  reply[#reply + 1] = content
  if size >= most then
    break
  end
end
return reply
