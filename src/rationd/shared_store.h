/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits shared with other nodes: each loop's way to Redis, the secret that the nodes
 * have in common, and what is told of it.
 */
#ifndef RN_RATIOND_SHARED_STORE_H
#define RN_RATIOND_SHARED_STORE_H

#include <pthread.h>

#include "front/front.h"
#include "rationd/options.h"
#include "redis/async/async.h"
#include "redis/leased/leased.h"
#include "redis/redis.h"

/* The store as one loop has it: what is not decided by the first is passed on to the next. */
struct rn_loop_store {
    struct rn_timer timer; /* first: looks how many nodes there are */
    const struct rn_shared_store *shared;
    struct rn_loop *loop;
    struct rn_async *async;
    struct rn_leased *leased;
    struct rn_redis *redis; /* NULL: there is no way */
};

struct rn_shared_store {
    const struct rn_rationd_options *options;
    struct ration *limiter;
    char leases_path[4096];       /* what holders have, beside the state file if there is one */
    char fingerprint[17];         /* of the secret: nodes must have the same */
    struct rn_loop_store *stores; /* by loop; the last one is the control loop's */
    unsigned count;
    pthread_mutex_t lock; /* of which ways there are: threads make and end their own, the
                             control thread reads what all of them count */
};

/* After the limiter is open, before it has rules. False after saying what is wrong. */
bool rn_shared_store_open(struct rn_shared_store *shared, const struct rn_rationd_options *options,
                          struct ration *limiter);
/* There will be `workers` loops and the control loop. False: out of memory. */
bool rn_shared_store_prepare(struct rn_shared_store *shared, unsigned workers);
void rn_shared_store_close(struct rn_shared_store *shared);

/* In the thread of the loop: before it serves, and when it has. */
void rn_shared_store_begin(struct rn_shared_store *shared, struct rn_loop *loop);
void rn_shared_store_end(struct rn_shared_store *shared, struct rn_loop *loop);

/* shared_metrics.c; `arg` is the rn_shared_store. */
void rn_shared_store_put_metrics(void *arg, struct rn_buf *out);

/* Whether all loops reach Redis. */
bool rn_shared_store_is_up(void *shared);
/* Whether new keys of all limits start full. Of leased ones they do not where the history of a
 * Redis has just begun: at its first use, for a second. */
bool rn_shared_store_is_whole(struct rn_shared_store *shared);

#endif
