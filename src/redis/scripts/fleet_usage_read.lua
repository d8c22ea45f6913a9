-- SPDX-License-Identifier: Apache-2.0
-- Reads keys of usage (fleet_usage.lua), as many as fit an answer.
--
-- KEYS: hashes, or one bitmap
-- ARGV: after how many bytes to stop; 1: the key is a bitmap
-- Reply: Unix time in seconds; then for each key its fields and values, or its bytes; nothing of a
--       key of another type. Fewer than KEYS: the others are left to the next call.

local most = tonumber(ARGV[1])
local size = 0
local reply = {tonumber(redis.call('TIME')[1])}

for _, key in ipairs(KEYS) do
  local content = redis.pcall(ARGV[2] == '1' and 'GET' or 'HGETALL', key)

  if type(content) == 'string' then
    size = size + #content
  elseif not content or content.err then
    content = {}
  end
  for _, text in ipairs(type(content) == 'table' and content or {}) do
    size = size + #text
  end
  reply[#reply + 1] = content
  if size >= most then
    break
  end
end
return reply
