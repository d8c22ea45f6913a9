/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which Redis holds which slot, and the connections to them. One Redis holds all; with
 * Sentinel, whoever is master; in a cluster, as its nodes say. Found out at the start, and
 * again when a server is lost or answers that it is not the right one.
 */
#ifndef RN_REDIS_ROUTES_H
#define RN_REDIS_ROUTES_H

#include <pthread.h>

#include "redis/cluster/failover.h"
#include "redis/cluster/hash_slot.h"
#include "redis/cluster/shard.h"
#include "redis/cluster/topology_probe.h"

#define RN_SHARDS 128 /* at most; masters beyond are not asked */

struct rn_routes_events {
    void *arg;
    /* As those of a shard, and after the routes have changed if they have. */
    void (*up)(void *arg, struct rn_shard *shard);
    void (*down)(void *arg, struct rn_shard *shard);
    void (*later)(void *arg, struct rn_shard *shard);
    void (*moved)(void *arg); /* slots have other owners */
};

struct rn_routes {
    struct rn_loop *loop;
    const struct rn_url *url;
    struct rn_tls *tls;
    struct rn_redis_counts *totals;
    const struct rn_routes_events *events;
    struct rn_link_options shard_options;
    struct rn_shard_events shard_events;
    struct rn_topology_probe_events probe_events;
    struct rn_topology_probe probe; /* zeroed: there is nobody to ask */
    struct rn_failover *failover;   /* NULL: there is no Sentinel */
    struct rn_failover_events failover_events;
    const char *question[4];
    bool astray; /* the last who was asked has not answered */
    struct rn_timer timer;
    pthread_mutex_t lock; /* of which shards there are, and their names */
    struct rn_shard *shards[RN_SHARDS];
    uint8_t owner[RN_HASH_SLOTS]; /* RN_SHARDS: nobody */
};

/* Begins to connect. `url` and `events` are borrowed until the end. */
int rn_routes_init(struct rn_routes *routes, struct rn_loop *loop, const struct rn_url *url,
                   const struct rn_routes_events *events, struct rn_redis_counts *totals,
                   struct ration_error *error);
/* Owed replies are answered with NULL; no event follows. */
void rn_routes_done(struct rn_routes *routes);

/* NULL: nobody is known to hold it. It may not be up. */
static inline struct rn_shard *rn_routes_owner(const struct rn_routes *routes, uint16_t slot)
{
    return routes->owner[slot] < RN_SHARDS ? routes->shards[routes->owner[slot]] : NULL;
}
/* The server with this address, if need be a new one that begins to connect. NULL: there
 * are too many, or no memory. */
struct rn_shard *rn_routes_find(struct rn_routes *routes, const char *address);
/* A server has said that this one holds the slot. */
void rn_routes_patch(struct rn_routes *routes, uint16_t slot, const char *address);
/* Something is wrong with them: they are found out anew, in a while. */
void rn_routes_refresh(struct rn_routes *routes);

/* Every slot has an owner that can be asked. */
bool rn_routes_are_up(const struct rn_routes *routes);

/* A server, as other threads see it. */
struct rn_routes_shard {
    char address[RN_URL_ADDRESS];
    bool up, open;
    unsigned slots;
    uint64_t trips, connects, opened, late, turned_away, clock_steps;
    int64_t skew_us;
};
/* Any thread. Returns how many there are, of which up to `max` are in `out`. */
size_t rn_routes_list(struct rn_routes *routes, struct rn_routes_shard *out, size_t max);

#endif
