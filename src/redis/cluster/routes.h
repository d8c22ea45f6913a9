/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which server owns which hash slot, and the connections to these servers. A single Redis owns
 * all slots; with Sentinel, the current master does; in a cluster, its nodes say. rationd asks at
 * the start, and again when a server is lost or redirects a call.
 */
#ifndef RN_REDIS_ROUTES_H
#define RN_REDIS_ROUTES_H

#include <pthread.h>

#include "redis/cluster/failover.h"
#include "redis/cluster/hash_slot.h"
#include "redis/cluster/shard.h"
#include "redis/cluster/topology_probe.h"

#define RN_SHARDS 128 /* servers at most; further masters are not used */

struct rn_routes_events {
    void *arg;
    /* As the events of a shard; if the routes have changed as well, after that. */
    void (*up)(void *arg, struct rn_shard *shard);
    void (*down)(void *arg, struct rn_shard *shard);
    void (*later)(void *arg, struct rn_shard *shard);
    void (*moved)(void *arg); /* slots have new owners */
};

struct rn_routes {
    struct rn_loop *loop;
    const struct rn_url *url;
    struct rn_tls *tls;
    struct rn_redis_counts *totals;
    const struct rn_routes_events *events;
    int64_t silence_ns; /* for links to servers */
    struct rn_link_options shard_options;
    struct rn_shard_events shard_events;
    struct rn_topology_probe_events probe_events;
    struct rn_topology_probe probe; /* zeroed for a single Redis */
    struct rn_failover *failover;   /* NULL: no Sentinel */
    struct rn_failover_events failover_events;
    const char *question[4];
    bool astray; /* the last topology request has failed */
    struct rn_timer timer;
    pthread_mutex_t lock; /* guards `shards` and their names */
    struct rn_shard *shards[RN_SHARDS];
    uint8_t owner[RN_HASH_SLOTS]; /* index in shards; RN_SHARDS: none */
};

/* Starts to connect. `url` and `events` are borrowed until the end. `silence_ns`: as in
 * rn_link_options. */
int rn_routes_init(struct rn_routes *routes, struct rn_loop *loop, const struct rn_url *url,
                   int64_t silence_ns, const struct rn_routes_events *events,
                   struct rn_redis_counts *totals, struct ration_error *error);
/* Answers pending commands with NULL; no event follows. */
void rn_routes_done(struct rn_routes *routes);

/* The server that owns the slot; it may be down. NULL: not known. */
static inline struct rn_shard *rn_routes_owner(const struct rn_routes *routes, uint16_t slot)
{
    return routes->owner[slot] < RN_SHARDS ? routes->shards[routes->owner[slot]] : NULL;
}
/* The server with this address. A new one starts to connect. NULL: too many servers, or out of
 * memory. */
struct rn_shard *rn_routes_find(struct rn_routes *routes, const char *address);
/* A server has said that the server at `address` owns the slot. */
void rn_routes_patch(struct rn_routes *routes, uint16_t slot, const char *address);
/* The routes are wrong: asks for the topology again, soon. */
void rn_routes_refresh(struct rn_routes *routes);

/* Whether every slot has an owner that is up. */
bool rn_routes_are_up(const struct rn_routes *routes);

/* A server, as other threads see it. */
struct rn_routes_shard {
    char address[RN_URL_ADDRESS];
    bool up, open;
    unsigned slots;
    uint64_t trips, connects, opened, late, turned_away, clock_steps;
    int64_t skew_us;
};
/* Any thread. Returns the number of servers; `out` gets up to `max` of them. */
size_t rn_routes_list(struct rn_routes *routes, struct rn_routes_shard *out, size_t max);

/* --- between routes.c, which keeps the routes, and topology.c, which asks for them --------- */

/* Starts the probe of the topology, and the listeners to Sentinels. False: out of memory. */
bool rn_topology_start(struct rn_routes *routes);

/* During a failover, sends the link to the new master. False: there is no failover. */
bool rn_topology_follow(struct rn_routes *routes);

/* Asks the master for its replication offset: a replica that replaces it may have less. */
void rn_topology_ask_offset(struct rn_routes *routes);

/* Sets the owner of every slot, by index of the shard. Returns whether one has changed. */
bool rn_routes_set_owners(struct rn_routes *routes, const uint8_t fresh[RN_HASH_SLOTS]);
/* Sets the name of the shard, which other threads read. */
void rn_routes_set_name(struct rn_routes *routes, struct rn_shard *shard, const char *address);

#endif
