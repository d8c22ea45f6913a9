/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the topology from a cluster or from Sentinel, and updates the routes. */
#include <stdlib.h>
#include <string.h>

#include "net/log.h"
#include "redis/cluster/hash_slot.h"
#include "redis/cluster/routes.h"

/* --- a cluster ------------------------------------------------------------------------- */

struct reading {
    struct rn_routes *routes;
    uint8_t fresh[RN_HASH_SLOTS];
};

static void on_range(void *arg, const struct rn_hash_slot_range *range)
{
    struct reading *reading = arg;
    struct rn_shard *shard = rn_routes_find(reading->routes, range->address);

    memset(reading->fresh + range->first, shard ? (int)shard->index : RN_SHARDS,
           (size_t)(range->last - range->first + 1));
    rn_topology_probe_learn(&reading->routes->probe, range->address);
}

static void on_replica(void *arg, const char *address)
{
    rn_topology_probe_learn(&((struct reading *)arg)->routes->probe, address);
}

/* Logs the servers that have more or fewer slots than last logged; then the totals. */
static void log_map(struct rn_routes *routes)
{
    unsigned masters = 0, slots = 0;

    for (unsigned i = 0; i < RN_SHARDS; i++) {
        struct rn_shard *shard = routes->shards[i];

        if (!shard)
            continue;
        if (shard->slots > 0 && shard->slots != shard->told_slots)
            rn_log(RN_LOG_INFO, "redis.slots", RN_LOG_TEXT("server", rn_slice_of(shard->name)),
                   RN_LOG_NUMBER("slots", shard->slots),
                   RN_LOG_NUMBER("before", shard->told_slots));
        rn_shard_note_slots(shard);
        masters += shard->slots > 0;
        slots += shard->slots;
    }
    rn_log(slots == RN_HASH_SLOTS ? RN_LOG_INFO : RN_LOG_WARN, "redis.cluster",
           RN_LOG_NUMBER("masters", masters), RN_LOG_NUMBER("slots", slots));
}

/* False after redirections have moved slots one by one. */
static bool is_logged(const struct rn_routes *routes)
{
    for (unsigned i = 0; i < RN_SHARDS; i++)
        if (routes->shards[i] && routes->shards[i]->slots != routes->shards[i]->told_slots)
            return false;
    return true;
}

/* Slots missing from the map keep their owner, which will redirect if it must.
 *
 * An unchanged map while a server is down may come from a node that has not noticed: the probe
 * then asks the next node. */
static const char *on_map(void *arg, const redisReply *reply, const char *from)
{
    struct rn_routes *routes = arg;
    struct reading reading = {.routes = routes};
    struct rn_hash_slot_visit visit = {.arg = &reading, .range = on_range, .replica = on_replica};

    memcpy(reading.fresh, routes->owner, sizeof reading.fresh);
    rn_topology_probe_forget(&routes->probe);
    if (!rn_hash_slot_read_map(reply, from, &visit))
        return "the reply to CLUSTER SLOTS is malformed";
    rn_redis_count(&routes->totals->refreshes, 1);
    bool changed = rn_routes_set_owners(routes, reading.fresh);
    if (changed || !is_logged(routes))
        log_map(routes);
    if (changed) {
        routes->events->moved(routes->events->arg);
    } else if (!rn_routes_are_up(routes)) {
        return "servers in its slot map are down";
    }
    routes->astray = false;
    return NULL;
}

/* --- Sentinel -------------------------------------------------------------------------- */

static void go_to(struct rn_routes *routes, const char *address)
{
    struct rn_shard *shard = routes->shards[0];

    rn_failover_use(routes->failover, address);
    if (strcmp(shard->name, address) != 0) {
        rn_log(RN_LOG_INFO, "redis.master", RN_LOG_TEXT("server", rn_slice_of(address)));
        rn_routes_set_name(routes, shard, address);
        rn_link_drop(&shard->link, "Sentinel has named another master");
        rn_link_hurry(&shard->link);
    }
    rn_link_go(&shard->link, address);
}

/* The link retries without a wait: the replica will be a master soon. */
bool rn_topology_follow(struct rn_routes *routes)
{
    const char *next = routes->failover ? rn_failover_next(routes->failover) : NULL;

    if (!next)
        return false;
    routes->shards[0]->link.wait_ns = 0;
    if (next[0])
        go_to(routes, next);
    else
        rn_link_fail(&routes->shards[0]->link, "the master is being replaced");
    return true;
}

static void on_offset(void *arg, const redisReply *reply)
{
    struct rn_link *link = arg;

    if (reply && reply->type == REDIS_REPLY_STRING)
        rn_history_note(&link->history, reply->str);
}

void rn_topology_ask_offset(struct rn_routes *routes)
{
    const char *argv[] = {"INFO", "replication"};

    rn_shard_send(routes->shards[0], 2, argv, NULL, on_offset, &routes->shards[0]->link);
}

/* Stops sending to the master, but waits for pending replies. */
static void on_failover(void *arg)
{
    struct rn_link *link = &((struct rn_routes *)arg)->shards[0]->link;

    rn_topology_ask_offset(arg);
    if (link->owed_count > 0)
        rn_link_leave(link, "the master is being replaced");
    else
        rn_link_drop(link, "the master is being replaced");
    rn_link_hurry(link);
}

static const char *on_master(void *arg, const redisReply *reply, const char *from)
{
    struct rn_routes *routes = arg;
    struct rn_shard *shard = routes->shards[0];
    char address[RN_URL_ADDRESS];

    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 ||
        reply->element[0]->type != REDIS_REPLY_STRING ||
        reply->element[1]->type != REDIS_REPLY_STRING ||
        !rn_redirect_address(reply->element[0]->str, (unsigned)atoi(reply->element[1]->str),
                             address)) {
        rn_link_fail(&shard->link, "Sentinel knows no master of this name");
        return "Sentinel knows no master of this name";
    }
    rn_redirect_complete(address, from);
    rn_redis_count(&routes->totals->refreshes, 1);
    routes->astray = false;
    if (!rn_failover_replaces(routes->failover, address) || !rn_topology_follow(routes))
        go_to(routes, address);
    return NULL;
}

static void on_missed(void *arg, const char *why)
{
    struct rn_routes *routes = arg;

    if (!routes->astray)
        rn_log(RN_LOG_WARN, "redis.topology_unknown", RN_LOG_TEXT("reason", rn_slice_of(why)),
               RN_LOG_TEXT("server", rn_slice_of(routes->probe.link.address)));
    routes->astray = true;
    if (routes->url->kind == RN_URL_SENTINEL)
        rn_link_fail(&routes->shards[0]->link, why);
}

/* --- start ------------------------------------------------------------------------------ */

bool rn_topology_start(struct rn_routes *routes)
{
    bool sentinel = routes->url->kind == RN_URL_SENTINEL;
    struct rn_link_options options = {.url = routes->url,
                                      .tls = routes->tls,
                                      .purpose =
                                          sentinel ? RN_LINK_ASK_SENTINEL : RN_LINK_ASK_SERVER};

    routes->question[0] = sentinel ? "SENTINEL" : "CLUSTER";
    routes->question[1] = sentinel ? "GET-MASTER-ADDR-BY-NAME" : "SLOTS";
    routes->question[2] = sentinel ? routes->url->master : NULL;
    routes->probe_events = (struct rn_topology_probe_events){
        .arg = routes, .told = sentinel ? on_master : on_map, .missed = on_missed};
    routes->failover_events = (struct rn_failover_events){.arg = routes, .changed = on_failover};
    if (sentinel)
        routes->failover = rn_failover_new(routes->loop, &options, &routes->failover_events);
    return (routes->failover || !sentinel) &&
           rn_topology_probe_init(&routes->probe, routes->loop, &options, routes->question,
                                  &routes->probe_events);
}
