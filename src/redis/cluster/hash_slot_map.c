/* SPDX-License-Identifier: Apache-2.0 */
#include "redis/cluster/hash_slot_map.h"

#include <string.h>

#include "redis/cluster/hash_slot.h"

static bool is_array(const redisReply *reply, size_t least)
{
    return reply->type == REDIS_REPLY_ARRAY && reply->elements >= least;
}

static bool is_number(const redisReply *reply, long long least, long long most)
{
    return reply->type == REDIS_REPLY_INTEGER && reply->integer >= least && reply->integer <= most;
}

/* A host, a port, and more. The host is null or "" if the server does not know its own. */
static bool read_server(const redisReply *server, const char *near, char out[RN_URL_ADDRESS])
{
    if (!is_array(server, 2) || !is_number(server->element[1], 1, 65535))
        return false;
    const redisReply *host = server->element[0];
    bool is_named = host->type == REDIS_REPLY_STRING && strcmp(host->str, "?") != 0;

    if (host->type != REDIS_REPLY_STRING && host->type != REDIS_REPLY_NIL)
        return false;
    if (!rn_redirect_address(is_named ? host->str : "", (unsigned)server->element[1]->integer, out))
        return false;
    rn_redirect_complete(out, near);
    return true;
}

static bool read_range(const redisReply *entry, const char *near,
                       const struct rn_hash_slot_map_visit *visit)
{
    struct rn_hash_slot_map_range range;
    char replica[RN_URL_ADDRESS];

    if (!is_array(entry, 3) || !is_number(entry->element[0], 0, RN_HASH_SLOTS - 1) ||
        !is_number(entry->element[1], entry->element[0]->integer, RN_HASH_SLOTS - 1) ||
        !read_server(entry->element[2], near, range.address))
        return false;
    range.first = (uint16_t)entry->element[0]->integer;
    range.last = (uint16_t)entry->element[1]->integer;
    visit->range(visit->arg, &range);
    for (size_t i = 3; i < entry->elements; i++) {
        if (!read_server(entry->element[i], near, replica))
            return false;
        visit->replica(visit->arg, replica);
    }
    return true;
}

bool rn_hash_slot_map_read(const redisReply *reply, const char *near,
                           const struct rn_hash_slot_map_visit *visit)
{
    if (!is_array(reply, 1))
        return false;
    for (size_t i = 0; i < reply->elements; i++)
        if (!read_range(reply->element[i], near, visit))
            return false;
    return true;
}
