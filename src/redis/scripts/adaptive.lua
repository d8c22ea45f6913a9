-- Adaptive concurrency: places as in places.lua, but their number is learnt from how long they are
-- held. src/core/adaptive_places.c has the same arithmetic and says why; both agree in every bit.
--
-- arg    fewest and most places, length of the lease in us, the longest lease possible; then the id
--        of the lease, 8 bytes
-- value  a sorted set. By id and number of the place: when it comes free. By id: when it was
--        acquired, negative. With the score +inf: what was learnt

local PART = 1024
local LATENCY_MAX = 137438953471
local MEMORY = 600000000
local SHOWN_MAX = 67108863
local SAMPLES_MAX = 20000
local PROBE_EVERY = 384
local MEASURING, FOLLOWING, DRAINING = 0, 1, 2

local function read_limit(arg)
    return struct.unpack('<ddddc8', arg, 33)
end

local function clamp(value, low, high)
    return math.max(low, math.min(value, high))
end

local function member(id, n)
    return id .. struct.pack('<I4', n)
end

local function acquired_member(id)
    return id .. 'acquired'
end

local function number(n)
    return string.format('%.0f', n)
end

local function headroom(l)
    return math.floor(math.floor(math.sqrt(l.learnt * PART)) / 3)
end

local function in_force(l)
    local parts = l.learnt
    if l.phase ~= FOLLOWING then
        parts = math.floor(parts / 2) - headroom(l)
    end
    return clamp(math.floor(parts / PART), l.least, l.most)
end

-- What was learnt, each number within its range; nothing of a state that is forgotten by now.
local function read_learner(key, now, least, most)
    local text = redis.call('ZREVRANGEBYSCORE', key, '+inf', '+inf')[1]
    local l = {least = least, most = most, text = text, learnt = 0, best = 0, recent = 0, sum = 0,
        samples = 0, windows = 0, streak = 0, phase = MEASURING, at_probe = 0, began = 0}
    if text then
        local idle, last, changed
        idle, l.learnt, l.best, l.recent, l.sum, l.samples, last, l.at_probe, changed, l.began =
            struct.unpack('<dddddddddd', text)
        l.windows, l.streak, l.phase = math.floor(last / 64), math.floor(last / 4) % 16, last % 4
        if l.phase ~= FOLLOWING and l.best ~= 0 and changed <= now and now - changed > 8 * l.recent then
            l.phase, l.sum, l.samples, l.windows = FOLLOWING, 0, 0, 0
        end
        if idle <= now then
            redis.call('DEL', key)
            return read_learner(key, now, least, most)
        end
    end
    l.learnt = clamp(l.learnt, least * PART, most * PART)
    l.at_probe = clamp(l.at_probe, least * PART, most * PART)
    return l
end

local function write_learner(key, l, now, idle)
    local text = struct.pack('<dddddddddd', idle, l.learnt, l.best, l.recent, l.sum, l.samples,
        (l.windows * 16 + l.streak) * 4 + l.phase, l.at_probe, now, l.began)
    if text ~= l.text then
        if l.text then
            redis.call('ZREM', key, l.text)
        end
        redis.call('ZADD', key, '+inf', text)
        l.text = text
    end
end

local function follow(l, mean)
    local gradient = clamp(math.floor(l.best * PART * 21 / (mean * 20)), PART / 2, PART)
    if gradient < PART then
        l.streak = 0
    end
    local room = math.min(headroom(l) * 2 ^ l.streak, math.floor(l.learnt / 2))
    local target = math.floor(l.learnt * gradient / PART) + room
    if gradient == PART then
        l.streak = math.min(l.streak + 1, 15)
    end
    if target < l.learnt then
        target = math.floor((l.learnt + target) / 2)
    end
    l.learnt = clamp(target, l.least * PART, l.most * PART)
    l.windows = l.windows + 1
    local odd = l.learnt * 2 < l.at_probe or mean * 2 < l.best
        or (gradient < PART and l.learnt == l.least * PART)
    if l.windows >= PROBE_EVERY or (odd and l.windows >= 4) then
        l.phase = DRAINING
    end
end

local function end_window(l)
    local mean = clamp(math.floor(l.sum / l.samples), 1, LATENCY_MAX)
    l.sum, l.samples, l.recent = 0, 0, mean
    if l.phase == FOLLOWING then
        follow(l, mean)
    elseif l.phase == DRAINING then
        l.phase = MEASURING
    else
        l.windows = l.best == 0 and PROBE_EVERY - 24 or 0
        local near = l.best * 2 <= mean * 3 and mean * 2 <= l.best * 3
        l.best = near and math.floor((l.best + mean) / 2) or math.max(mean, math.floor(l.best / 2))
        l.phase, l.at_probe = FOLLOWING, l.learnt
    end
end

local function needed(l)
    local least = l.phase == DRAINING and 16 or l.phase == MEASURING and l.best ~= 0 and 128 or 64
    local generations = l.phase == DRAINING and 1 or 2
    return clamp(math.floor(generations * l.learnt / PART), least, SAMPLES_MAX)
end

local function learn(l, live, now, held)
    if held < 0 or 2 * live < in_force(l) then
        return
    end
    local usual = math.max(l.recent, l.best)
    local most = usual == 0 and LATENCY_MAX or math.min(4 * usual, LATENCY_MAX)
    if l.samples == 0 then
        l.began = now
    end
    if l.samples < SAMPLES_MAX then
        l.sum = l.sum + math.min(held, most)
        l.samples = l.samples + 1
    end
    if l.samples >= needed(l) and (l.began > now or now - l.began >= 2 * l.best) then
        end_window(l)
    end
end

-- Drops the places that have ended, and when they were acquired.
local function drop_ended(key, now)
    for _, m in ipairs(redis.call('ZRANGEBYSCORE', key, '(0', number(now))) do
        redis.call('ZREM', key, m, acquired_member(string.sub(m, 1, 8)))
    end
end

-- A lease longer than the longest possible one was written by a clock far ahead.
local function bring_back(key, now, longest)
    local far = redis.call('ZRANGEBYSCORE', key, '(' .. number(now + longest), '(+inf')
    for _, m in ipairs(far) do
        redis.call('ZADD', key, number(now + longest), m)
    end
    return #far > 0
end

-- When the first or the last place comes free.
local function first_end(key)
    return tonumber(redis.call('ZRANGEBYSCORE', key, '(0', '(+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2] or 0)
end

local function last_end(key)
    return tonumber(redis.call('ZREVRANGEBYSCORE', key, '(+inf', '(0', 'WITHSCORES', 'LIMIT', 0, 1)[2] or 0)
end

local function acquire(key, now, id, cost, finish)
    for n = 0, cost - 1 do
        redis.call('ZADD', key, finish, member(id, n))
    end
    redis.call('ZADD', key, number(-now), acquired_member(id))
end

local function renew(key, id, finish)
    local n = 0
    while redis.call('ZSCORE', key, member(id, n)) do
        redis.call('ZADD', key, finish, member(id, n))
        n = n + 1
    end
    return n > 0 and 1 or 0
end

-- Returns when the places were acquired, or nil.
local function release(key, id)
    local at = redis.call('ZSCORE', key, acquired_member(id))
    local n = 0
    while redis.call('ZREM', key, member(id, n)) == 1 do
        n = n + 1
    end
    redis.call('ZREM', key, acquired_member(id))
    return n > 0 and -tonumber(at or 0) or nil
end

-- An estimate of when places come free: at even distances, after the latency of late. Never sooner
-- than a second, nor later than the leases end.
local function estimate(key, now, l, live, places, cost)
    local needed = live + cost - places
    local guess = math.max(math.floor(l.recent * needed / math.max(live, 1)), 1000000)
    if live == 0 or cost > places then
        return guess
    end
    return math.min(guess, (needed == 1 and first_end(key) or last_end(key)) - now)
end

local function apply(key, now, ask, least, most, lease, longest, id)
    local l = read_learner(key, now, least, most)
    drop_ended(key, now)
    local write = bring_back(key, now, longest)
    local live = redis.call('ZCOUNT', key, '(0', '(+inf')
    local places, allowed, retry = in_force(l), 1, 0

    if ask.renews then
        allowed = renew(key, id, number(now + lease))
        write = write or allowed == 1
    elseif ask.releases then
        local at = release(key, id)
        allowed = at and 1 or 0
        write = write or allowed == 1
        if at and not ask.gives_back then
            learn(l, live, now, now - at)
        end
    elseif ask.cost > math.max(places - live, 0) then
        allowed = 0
        retry = ask.cost > most and -1 or estimate(key, now, l, live, places, ask.cost)
    elseif ask.charges and not ask.forces and ask.cost > 0 then
        acquire(key, now, id, ask.cost, number(now + lease))
        write = true
    end
    live = redis.call('ZCOUNT', key, '(0', '(+inf')
    places = in_force(l)
    local reset = live > 0 and last_end(key) - now or 0
    if write then
        write_learner(key, l, now, now + math.max(reset, MEMORY))
        redis.call('PEXPIRE', key, math.ceil(math.max(reset, MEMORY) / 1000) + 1000)
    end
    return allowed, math.max(places - live, 0), retry, reset, places,
        math.min(l.best, SHOWN_MAX) * (SHOWN_MAX + 1) + math.min(l.recent, SHOWN_MAX)
end
