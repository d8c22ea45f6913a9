-- Charges the units that a holder (one worker of one node) has admitted on its own. Each number is
-- charged once: a report that comes again, or after a later one over another connection, charges
-- nothing and gets the same kind of reply.
--
-- KEYS[1]   the number of the holder's last report to this slot
-- KEYS[i]   one for each state
-- ARGV[1]   the number of the report: one more than the last
-- ARGV[2i-2], ARGV[2i-1]  of KEYS[i]: the kind of state and the units, as in "b17", or "b0" to
--           read the state only; and the argument of a charge of that key
--
-- Reply: number, the server's time in us, and four whole numbers for each key: 1, or 0 if the key
-- holds something else; then the three numbers of its state.
--
-- The number is written last: a script that is cut short is charged twice rather than not at all.

local REMEMBERED_MS = 600000 -- who comes again later than that is charged twice

local kinds = {b = report_bucket, w = report_window, c = report_counter}
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local number = tonumber(ARGV[1])
local again = number <= tonumber(values[KEYS[1]] or 0)
local reply = {ARGV[1], now}
for i = 2, #KEYS do
    local kind, units = string.match(ARGV[2 * i - 2], '^(%a)(%d+)$')
    local ok, a, b, c = pcall(kinds[kind], KEYS[i], now, again and 0 or tonumber(units), ARGV[2 * i - 1])
    local n = #reply
    reply[n + 1], reply[n + 2] = ok and 1 or 0, ok and a or 0
    reply[n + 3], reply[n + 4] = ok and b or 0, ok and c or 0
end
if not again then
    redis.call('SET', KEYS[1], ARGV[1], 'PX', REMEMBERED_MS)
end
return reply
