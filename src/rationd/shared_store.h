/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits shared with other nodes: the store of each loop, the secret that all nodes share, and
 * metrics.
 */
#ifndef RN_RATIOND_SHARED_STORE_H
#define RN_RATIOND_SHARED_STORE_H

#include <pthread.h>

#include "front/front.h"
#include "rationd/options.h"
#include "redis/async/async.h"
#include "redis/leased/leased.h"
#include "redis/redis.h"
#include "redis/strict/refusal_cache.h"

/* The stores of one loop. A charge goes to async, then leased, then redis; the first that handles
 * it decides. */
struct rn_loop_store {
    struct rn_timer timer; /* first member; polls the number of nodes */
    const struct rn_shared_store *shared;
    struct rn_loop *loop;
    struct rn_async *async;
    struct rn_leased *leased;
    struct rn_redis *redis; /* NULL: not open */
};

struct rn_shared_store {
    const struct rn_rationd_options *options;
    struct ration *limiter;
    char leases_path[4096];       /* leases held by this node, beside the state file */
    char fingerprint[17];         /* of the secret; must be equal on all nodes */
    struct rn_loop_store *stores; /* one for each loop; the last one belongs to the control loop */
    unsigned count;
    struct rn_returns returns; /* on all loops */
    pthread_mutex_t lock; /* guards `stores`: threads open and close their own, the control thread
                             reads all counters */
};

/* Call after the limiter is open, before it has rules. False after an error message. */
bool rn_shared_store_open(struct rn_shared_store *shared, const struct rn_rationd_options *options,
                          struct ration *limiter);
/* Allocates stores for `workers` loops and the control loop. False: out of memory. */
bool rn_shared_store_prepare(struct rn_shared_store *shared, unsigned workers);
void rn_shared_store_close(struct rn_shared_store *shared);

/* Open and close the store of a loop, in its thread: before it serves and after. */
void rn_shared_store_begin(struct rn_shared_store *shared, struct rn_loop *loop);
void rn_shared_store_end(struct rn_shared_store *shared, struct rn_loop *loop);

/* shared_store_metrics.c; `arg` is the rn_shared_store. */
void rn_shared_store_put_metrics(void *arg, struct rn_buf *out);

/* Whether all loops reach Redis. */
bool rn_shared_store_is_up(void *shared);
/* Whether new keys of all limits start full. Keys of leased limits do not for one second after the
 * first use of a Redis. */
bool rn_shared_store_is_whole(struct rn_shared_store *shared);

#endif
