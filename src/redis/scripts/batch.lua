-- The second half of every script: reads the clock, applies each charge to its key
-- in order, and answers. The first half (bucket.lua, window.lua, ...) is the
-- arithmetic of one algorithm as a function
--
--   apply(key, now, ask, arg) -> allowed, remaining, retry_us, reset_us, delay_us, mark
--
-- and forget(key, now, arg), which resets and returns 1 if something was spent.
--
-- KEYS      one for each charge; the same key may occur several times
-- ARGV[1]   the nonce of the call, returned as it is: a reply to another call shows
-- ARGV[i+1] the charge on KEYS[i]: doubles, least significant byte first.
--           operation, cost; to give back: how long ago the take was, in us, and
--           its mark; what follows from byte 33 on is the algorithm's
-- ARGV[n+2] of n charges, only for scripts with leases: see leases.lua
--
-- Reply: nonce, time of the store in us, and six whole numbers for each charge.
-- `allowed` is -1 if that charge could not be applied; retry_us is -1 for never.
--
-- Times are whole microseconds since 1970. Every number stays below 2^53, where
-- doubles are exact; rules that would pass it are refused when they are loaded.

local PEEK, TAKE, FORCE, GIVE_BACK, RENEW, RELEASE, RESET = 0, 1, 2, 3, 4, 5, 6

local ask = {} -- one for all charges: tables take time

local function charge(key, now, arg)
    ask.op, ask.cost, ask.age, ask.mark = struct.unpack('<dddd', arg)
    ask.charges = ask.op == TAKE or ask.op == FORCE
    ask.forces = ask.op == FORCE
    ask.gives_back = ask.op == GIVE_BACK
    ask.renews = ask.op == RENEW
    ask.releases = ask.op == RELEASE or ask.op == GIVE_BACK
    if ask.op ~= RESET then
        return apply(key, now, ask, arg)
    end
    local spent = forget(key, now, arg)
    ask.op, ask.cost = PEEK, 0
    local _, remaining = apply(key, now, ask, arg)
    return spent, remaining, 0, 0, 0, 0
end

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local reply, n = {ARGV[1], now}, 2
for i = 1, #KEYS do
    -- What is wrong with one key is no reason to leave the others in doubt.
    local ok, allowed, remaining, retry, reset, delay, mark = pcall(charge, KEYS[i], now, ARGV[i + 1])
    if ok then
        reply[n + 1], reply[n + 2], reply[n + 3] = allowed, remaining, retry
        reply[n + 4], reply[n + 5], reply[n + 6] = reset, delay, mark
    else
        reply[n + 1], reply[n + 2], reply[n + 3] = -1, 0, 0
        reply[n + 4], reply[n + 5], reply[n + 6] = 0, 0, 0
    end
    n = n + 6
end
return reply
