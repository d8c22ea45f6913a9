/* SPDX-License-Identifier: Apache-2.0 */
/* The answer to CLUSTER SLOTS: which server holds which slots. Pure. */
#ifndef RN_REDIS_HASH_SLOT_MAP_H
#define RN_REDIS_HASH_SLOT_MAP_H

#include <hiredis/hiredis.h>

#include "redis/cluster/redirect.h"

struct rn_hash_slot_map_range {
    uint16_t first, last;
    char address[RN_URL_ADDRESS]; /* of the master */
};

struct rn_hash_slot_map_visit {
    void *arg;
    void (*range)(void *arg, const struct rn_hash_slot_map_range *range);
    void (*replica)(void *arg, const char *address);
};

/* Calls for each, in the order of the reply; `near` is who has answered: servers without
 * a host of their own have his. False: it is no such answer, and what was visited so far
 * is worth nothing. */
bool rn_hash_slot_map_read(const redisReply *reply, const char *near,
                           const struct rn_hash_slot_map_visit *visit);

#endif
