/* SPDX-License-Identifier: Apache-2.0 */
/* Between routes.c, which keeps the routes, and news.c, which hears what they are. */
#ifndef RN_REDIS_ROUTES_INTERNAL_H
#define RN_REDIS_ROUTES_INTERNAL_H

#include "redis/cluster/routes.h"

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
