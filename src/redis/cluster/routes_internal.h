/* SPDX-License-Identifier: Apache-2.0 */
/* Between routes.c, which keeps the routes, and news.c, which hears what they are. */
#ifndef RN_REDIS_ROUTES_INTERNAL_H
#define RN_REDIS_ROUTES_INTERNAL_H

#include "redis/cluster/routes.h"

/* Begins to ask, and goes on when rn_topology_probe_ask is called. False: out of memory. */
bool rn_topology_start(struct rn_routes *routes);

/* Has the link of a master that is being replaced go to who takes over. False: no master is. */
bool rn_topology_follow(struct rn_routes *routes);

/* Asks the master how far its history has come: who replaces it may have less of it. */
void rn_topology_ask_offset(struct rn_routes *routes);

/* Takes these owners over, by index of the shard. Returns whether anything has changed. */
bool rn_routes_set_owners(struct rn_routes *routes, const uint8_t fresh[RN_HASH_SLOTS]);
/* What the shard is called, for other threads, too. */
void rn_routes_set_name(struct rn_routes *routes, struct rn_shard *shard, const char *address);

#endif
