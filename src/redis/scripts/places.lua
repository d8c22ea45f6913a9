-- Concurrency: the places that are taken. A place that is neither renewed nor released comes free
-- at the end of its lease, so a crashed client does not keep it.
--
-- arg    amount, length of the lease in us, the longest lease possible; then the id of the lease,
--        8 bytes
-- value  a sorted set: when each place comes free, by id and number of the place

local function read_limit(arg)
    return struct.unpack('<dddc8', arg, 33)
end

local function member(id, n)
    return id .. struct.pack('<I4', n)
end

-- A lease longer than the longest possible one was written by a clock far ahead.
local function bring_back(key, now, longest)
    local far = redis.call('ZRANGEBYSCORE', key, string.format('(%.0f', now + longest), '+inf')
    for _, m in ipairs(far) do
        redis.call('ZADD', key, string.format('%.0f', now + longest), m)
    end
    return #far > 0
end

local function acquire(key, id, cost, finish)
    local n = 0
    while cost > 0 do
        cost = cost - redis.call('ZADD', key, 'NX', finish, member(id, n))
        n = n + 1
    end
end

local function renew(key, id, finish)
    local n = 0
    while redis.call('ZSCORE', key, member(id, n)) do
        redis.call('ZADD', key, finish, member(id, n))
        n = n + 1
    end
    return n > 0 and 1 or 0
end

local function release(key, id)
    local n = 0
    while redis.call('ZREM', key, member(id, n)) == 1 do
        n = n + 1
    end
    return n > 0 and 1 or 0
end

-- When the place at this rank, by time, comes free.
local function end_at(key, rank)
    return tonumber(redis.call('ZRANGE', key, rank, rank, 'WITHSCORES')[2] or 0)
end

-- An estimate of when places come free. It assumes that the request of median age is half way
-- through and that all take as long: then places come free at even intervals. Never later than the
-- leases end, and never sooner than a second.
local function estimate(key, now, live, needed, lease)
    local age = math.max(lease - (end_at(key, live - math.floor(live / 2) - 1) - now), 0)
    local guess = math.ceil(2 * age * needed / live)
    return math.min(math.max(guess, 1000000), end_at(key, needed - 1) - now)
end

local function apply(key, now, ask, amount, lease, longest, id)
    local finish = string.format('%.0f', now + lease)
    redis.call('ZREMRANGEBYSCORE', key, '-inf', string.format('%.0f', now))
    local write = bring_back(key, now, longest)
    local live = redis.call('ZCARD', key)
    local allowed, retry = 1, 0

    if ask.renews then
        allowed = renew(key, id, finish)
        write = true
    elseif ask.releases then
        allowed = release(key, id)
    else
        if ask.cost > math.max(amount - live, 0) then
            allowed = 0
            retry = ask.cost > amount and -1
                or estimate(key, now, live, live + ask.cost - amount, lease)
        elseif ask.charges and not ask.forces and ask.cost > 0 then
            acquire(key, id, ask.cost, finish)
            write = true
        end
    end
    live = redis.call('ZCARD', key)
    local reset = live > 0 and end_at(key, -1) - now or 0
    if write and live > 0 then
        redis.call('PEXPIRE', key, math.ceil(reset / 1000) + 1000)
    end
    return allowed, math.max(amount - live, 0), retry, reset, 0, 0
end
