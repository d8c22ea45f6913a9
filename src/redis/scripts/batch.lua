-- The second half of every script that decides charges: reads the clock, applies each charge
-- to its key in order, and answers. The first half (bucket.lua, window.lua, ...) has the
-- arithmetic of one algorithm, as functions
--
--   read_limit(arg) -> the limit: seven numbers at most
--   apply(key, now, ask, limit) -> allowed, remaining, retry_us, reset_us, delay_us, mark
--   forget(key, now, limit) -> 1 if units were spent, which it clears
--
-- KEYS      one for each charge; the same key may occur several times. Then the reset logs of
--           keys
-- ARGV[1]   the nonce of the call. The reply starts with it, so that a wrong reply is noticed
-- ARGV[2]   a byte for each charge: the number of its argument; ARGV[3] is number 0. Most
--           charges of one limit have the same argument, which is then sent and read once
-- ARGV[3]   and so on, arguments: doubles, least significant byte first. Operation (0 peek,
--           1 take, 2 force, 3 give back, 4 renew, 5 release, 6 reset, 8 give back what is not
--           forgiven, 9 forgive, 11 debit, 12 drain, 13 credit; 7 and 10: see leases.lua), cost; to
--           give back: how long
--           ago the take was, in us, and
--           its mark; from byte 33 on the limit. Of 8 and 9 the last two: when the take was,
--           by this clock, or 0; which of KEYS tells of resets
-- the last  two are only for scripts with leases: see leases.lua
--
-- Reply: one string, the nonce and doubles: the server's time in us, then six for each charge.
-- `allowed` is -1 if the charge could not be applied; retry_us is -1 for never. If that is due to
-- the charge's key alone, the reply is an array: that string, and the error. An error of the
-- server (OOM, NOPERM, READONLY, MISCONF, ...) is the error of the whole call.
-- Of a debit delay_us is what could not be charged, in units: buckets go up to one capacity below
-- empty, windows and logs carry as much into the time in which it fits. Of a drain that is refused
-- it is the number of units that were drained.
--
-- Times are whole microseconds since 1970. Every number stays below 2^53, where
-- doubles are exact; rules that would exceed it are refused when they are loaded.
--
-- For speed, the scripts use few of what costs Redis most: calls of commands, closures (each call
-- creates them again), tables that grow.

local function reset(key, now, _, ...)
    local spent = forget(key, now, ...)
    local _, remaining = apply(key, now, {op = 0, cost = 0}, ...)
    return spent, remaining, 0, 0, 0, 0
end

-- The reset log keeps the time of a reset for `age` us: charges made before it must not be given
-- back as well. Few calls need it, so the function is only made for these.
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

-- A drain: a cost that does not fit is refused, and all whole units that are left are charged.
local function drain(key, now, ask, ...)
    local take = {op = 1, cost = ask.cost, charges = true}
    local allowed, left, retry, reset, delay, mark = apply(key, now, take, ...)
    if allowed == 1 or left == 0 then
        return allowed, left, retry, reset, delay, mark
    end
    take.cost = left
    local _
    _, _, _, _, _, mark = apply(key, now, take, ...)
    _, _, retry, reset = apply(key, now, {op = 0, cost = ask.cost}, ...)
    return 0, 0, retry, reset, left, mark
end

local function read_ask(arg)
    local op, cost, age, mark = struct.unpack('<dddd', arg)
    return {
        op = op, cost = cost, age = age, mark = mark, arg = arg,
        act = op == 6 and reset or (op == 8 or op == 9) and pardon or op == 12 and drain or apply,
        charges = op == 1 or op == 2 or op == 11,
        forces = op == 2 or op == 11,
        debits = op == 11,
        gives_back = op == 3 or op == 8,
        credits = op == 13,
        renews = op == 4,
        releases = op == 3 or op == 5,
    }
end

-- Applies the charges that are not answered yet.
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
        -- Before Redis 7 an error is a text, which starts with its position in the script.
        why = string.gsub(type(failure) == 'table' and failure.err or failure, '^@?user_script:%s*%d+:%s*', '')
        -- An error of one key must not leave the others in doubt. Such an error is of the key's
        -- type, or raised by a script, which has no error code.
        if string.find(why, '^%u+ ') and not string.find(why, '^WRONGTYPE ') then
            return {err = why}
        end
        answers[#answers + 1] = struct.pack('<dddddd', -1, 0, 0, 0, 0, 0)
    end
end
local reply = ARGV[1] .. struct.pack('<d', now) .. table.concat(answers)
return why and {reply, why} or reply
