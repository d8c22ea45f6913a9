/* SPDX-License-Identifier: Apache-2.0 */
/* The hash slots of a Redis Cluster: the slot of a key, and the reply to CLUSTER SLOTS. Pure. */
#ifndef RN_REDIS_HASH_SLOT_H
#define RN_REDIS_HASH_SLOT_H

#include <hiredis/hiredis.h>

#include "base/slice.h"
#include "redis/cluster/redirect.h"

#define RN_HASH_SLOTS 16384

/* As the cluster specification says: CRC16 of the key, or of the text in its first braces, modulo
 * 16384. */
uint16_t rn_hash_slot_of(struct rn_slice name);

struct rn_hash_slot_range {
    uint16_t first, last;
    char address[RN_URL_ADDRESS]; /* of the master */
};

struct rn_hash_slot_visit {
    void *arg;
    void (*range)(void *arg, const struct rn_hash_slot_range *range);
    void (*replica)(void *arg, const char *address);
};

/* Visits the ranges and replicas in a reply to CLUSTER SLOTS, in order. `near` is the address of
 * the server that replied: servers listed without a host get its host. False: the reply is
 * malformed; the caller must discard what was visited. */
bool rn_hash_slot_read_map(const redisReply *reply, const char *near,
                           const struct rn_hash_slot_visit *visit);

#endif
