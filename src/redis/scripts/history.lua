-- The history: since when a server has kept its data. A flush, a restart or a failover ends it:
-- leases granted before may go on although no key here knows of them. So one key says when the
-- history began; it has no time to live, and is lost if the other keys are lost. A call that finds
-- it missing, or with another id than the server's (of INFO replication), starts a new history.
--
-- value  when it began, in us since 1970, and the ids that belong to it, the latest first: a node
--        that knows an earlier id only is not a sign of a new history. Without an id an operator
--        has vouched for the history: it takes the first id that comes.

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
