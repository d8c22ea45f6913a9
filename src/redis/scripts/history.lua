-- Since when a store has what was written to it. Its history is broken when it was emptied,
-- started again or has taken over from another one: leases that were granted before may go
-- on although nothing here knows of them. So one key says since when that is not so; it has
-- no time to live, and goes with all others if they go. Who finds it missing, or of another
-- id than the server has (of INFO replication), begins it anew.
--
-- value  when it began, in us since 1970, and the ids that are known to be of it, the latest
--        first: who has not heard of the latest one yet brings nothing new. Without an
--        id somebody vouches for it: it takes the first one that comes.

local IDS = 4

local function age_of_history(key, id, now)
    local since, ids = string.match(redis.call('GET', key) or '', '^(%d+)(.*)$')
    since, ids = tonumber(since), ids or ''
    local goes_on = since and since <= now
    if goes_on and string.find(ids, id, 1, true) then
        return now - since
    end
    if not goes_on or ids ~= '' then
        since = now
    end
    local known = string.find(ids, id, 1, true) and ids or ' ' .. id .. ids
    redis.call('SET', key, string.format('%.0f', since) .. string.sub(known, 1, IDS * (1 + #id)))
    return now - since
end
