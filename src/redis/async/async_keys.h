/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys that a worker decides on its own: a fixed number, found by their hash. Who
 * has not been asked for the longest makes room, if nothing is lost by forgetting it.
 */
#ifndef RN_REDIS_ASYNC_KEYS_H
#define RN_REDIS_ASYNC_KEYS_H

#include "redis/async/local_budget.h"

struct rn_async_key {
    uint64_t key;
    struct rn_local_budget budget;
    uint64_t most; /* that may be held: as of the last decision */

    /* A report of it, ready to be sent. */
    uint8_t name_len, arg_len;
    char name[RN_CODEC_NAME], arg[RN_CODEC_BYTES];
    int64_t written_ns;

    /* Waits to be reported at due_ns. link NULL: does not. */
    struct rn_async_key *next, **link;
    int64_t due_ns;

    /* Private: the chain of its hash; older and newer ones. */
    struct rn_async_key *chained, *older, *newer;
};

struct rn_async_keys {
    struct rn_async_key *all;
    struct rn_async_key **heads; /* a power of two */
    uint64_t head_mask;
    uint32_t capacity, used;
    struct rn_async_key *oldest, *newest;
};

/* False: out of memory. */
bool rn_async_keys_init(struct rn_async_keys *keys, uint32_t capacity);
void rn_async_keys_done(struct rn_async_keys *keys);

/* NULL: there is none. It is the newest now. */
struct rn_async_key *rn_async_keys_find(struct rn_async_keys *keys, uint64_t key);
/* For a key that was not found; all but the key is to be filled. NULL: there is no
 * room, for now. */
struct rn_async_key *rn_async_keys_add(struct rn_async_keys *keys, uint64_t key, int64_t now_ns);

#endif
