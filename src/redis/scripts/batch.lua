-- The second half of every script: reads the clock, applies each charge to its key
-- in order, and answers. The first half (bucket.lua, window.lua, ...) is the
-- arithmetic of one algorithm as functions
--
--   read_limit(arg) -> the limit: seven numbers at most
--   apply(key, now, ask, limit) -> allowed, remaining, retry_us, reset_us, delay_us, mark
--   forget(key, now, limit) -> 1 if something was spent, which is no more
--
-- KEYS      one for each charge; the same key may occur several times. Behind them those that tell
--           when a key was reset
-- ARGV[1]   the nonce of the call, at the beginning of the reply: one to another call shows
-- ARGV[2]   a byte for each charge: which argument is its own, that in ARGV[3] being 0.
--           Those of one limit mostly ask for the same, which is then sent and read once
-- ARGV[3]   and so on, arguments: doubles, least significant byte first. Operation (0 peek,
--           1 take, 2 force, 3 give back, 4 renew, 5 release, 6 reset, 8 give back what is not
--           forgiven, 9 forgive, 11 debit; 7 and 10: see leases.lua), cost; to give back: how long
--           ago the take was, in us, and
--           its mark; from byte 33 on the limit. Of 8 and 9 the last two: when the take was,
--           by this clock, or 0; which of KEYS tells of resets
-- the last  two are only for scripts with leases: see leases.lua
--
-- Reply: one string, the nonce and doubles: time of the store in us, six for each charge.
-- `allowed` is -1 if that charge could not be applied; retry_us is -1 for never. If one was not
-- for a reason of its key alone, an array: that string, and the error. What is wrong with the
-- server (OOM, NOPERM, READONLY, MISCONF, ...) is the error of the whole call.
-- Of a debit delay_us is what could not be charged, in units: buckets go up to one capacity below
-- empty, windows and logs carry as much into the time in which it fits.
--
-- Times are whole microseconds since 1970. Every number stays below 2^53, where
-- doubles are exact; rules that would pass it are refused when they are loaded.
--
-- What is kept low here is what Redis takes most time for: calls of its commands, functions
-- that see locals of others (each call makes them all anew), tables that grow.

local function reset(key, now, _, ...)
    local spent = forget(key, now, ...)
    local _, remaining = apply(key, now, {op = 0, cost = 0}, ...)
    return spent, remaining, 0, 0, 0, 0
end

-- A reset is remembered, for `age` us: what was charged before it is not given back as well. Few
-- calls are about that.
local pardon
if #KEYS > #ARGV[2] then
    pardon = function(key, now, ask, ...)
        local made, at = struct.unpack('<dd', ask.arg, #ask.arg - 15)
        if not ask.gives_back then
            redis.call('SET', KEYS[at], string.format('%.0f', now), 'PX', math.ceil(ask.age / 1000))
            return reset(key, now, ask, ...)
        end
        made = math.min(made > 0 and made or now, now - ask.age)
        if made <= tonumber(redis.call('GET', KEYS[at]) or 0) then
            local _, remaining, _, full = apply(key, now, {op = 0, cost = 0}, ...)
            return 0, remaining, 0, full, 0, 0
        end
        return apply(key, now, ask, ...)
    end
end

local function read_ask(arg)
    local op, cost, age, mark = struct.unpack('<dddd', arg)
    return {
        op = op, cost = cost, age = age, mark = mark, arg = arg,
        act = op == 6 and reset or (op == 8 or op == 9) and pardon or apply,
        charges = op == 1 or op == 2 or op == 11,
        forces = op == 2 or op == 11,
        debits = op == 11,
        gives_back = op == 3 or op == 8,
        renews = op == 4,
        releases = op == 3 or op == 5,
    }
end

-- From the first that is not answered on.
local function charge_rest(answers, now)
    local keys, args, which, byte, pack = KEYS, ARGV, ARGV[2], string.byte, struct.pack
    local ask, was, a, b, c, d, e, f, g
    for i = #answers + 1, #which do
        local arg = args[3 + byte(which, i)]
        if arg ~= was then
            ask, was = read_ask(arg), arg
            a, b, c, d, e, f, g = read_limit(arg)
        end
        answers[i] = pack('<dddddd', ask.act(keys[i], now, ask, a, b, c, d, e, f, g))
    end
end

local time, answers = redis.call('TIME'), {}
local now = time[1] * 1000000 + time[2]
local why
while #answers < #ARGV[2] do
    local done, failure = pcall(charge_rest, answers, now)
    if not done then
        -- Before Redis 7 errors are texts, which say first where they come from.
        why = string.gsub(type(failure) == 'table' and failure.err or failure, '^@?user_script:%s*%d+:%s*', '')
        -- What is wrong with one key is no reason to leave the others in doubt. Such errors are
        -- of its type, or of ours, and those have no code.
        if string.find(why, '^%u+ ') and not string.find(why, '^WRONGTYPE ') then
            return {err = why}
        end
        answers[#answers + 1] = struct.pack('<dddddd', -1, 0, 0, 0, 0, 0)
    end
end
local reply = ARGV[1] .. struct.pack('<d', now) .. table.concat(answers)
return why and {reply, why} or reply
