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
struct rn_way {
    struct rn_timer timer; /* first: looks how many nodes there are */
    const struct rn_shared *shared;
    struct rn_loop *loop;
    struct rn_async *async;
    struct rn_leased *leased;
    struct rn_redis *redis; /* NULL: there is no way */
};

struct rn_shared {
    const struct rn_daemon_options *options;
    struct ration *limiter;
    char leases_path[4096]; /* what holders have, beside the state file if there is one */
    char fingerprint[17];   /* of the secret: nodes must have the same */
    struct rn_way *ways;    /* by loop; the last one is the control loop's */
    unsigned count;
    pthread_mutex_t lock; /* of which ways there are: threads make and end their own, the
                             control thread reads what all of them count */
};

/* After the limiter is open, before it has rules. False after saying what is wrong. */
bool rn_shared_open(struct rn_shared *shared, const struct rn_daemon_options *options,
                    struct ration *limiter);
/* There will be `workers` loops and the control loop. False: out of memory. */
bool rn_shared_prepare(struct rn_shared *shared, unsigned workers);
void rn_shared_close(struct rn_shared *shared);

/* In the thread of the loop: before it serves, and when it has. */
void rn_shared_begin(struct rn_shared *shared, struct rn_loop *loop);
void rn_shared_end(struct rn_shared *shared, struct rn_loop *loop);

/* shared_metrics.c; `arg` is the rn_shared. */
void rn_shared_put_metrics(void *arg, struct rn_buf *out);

/* Whether all loops reach Redis. */
bool rn_shared_is_up(void *shared);
/* Whether new keys of all limits start full. Of leased ones they do not where the history of a
 * Redis has just begun: at its first use, for a second. */
bool rn_shared_is_whole(struct rn_shared *shared);

#endif
