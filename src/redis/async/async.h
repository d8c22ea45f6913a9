/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The async backend: decides charges here and reports them to Redis afterwards, so that no decision
 * waits for Redis. Each loop has its own, used by its thread only, in front of the backend that
 * decides the rest.
 *
 * It decides charges flagged RN_CHARGE_ASYNC of token buckets, fixed windows and sliding counters,
 * from what Redis last said about the key and what was admitted here since
 * (redis/async/local_budget.h has the bound on what all workers together admit, and its proof).
 * It passes on all other charges, and those it cannot decide: not enough is known of the key, or as
 * many units are unreported as may be. So while Redis is down, these get RATION_ESTORE from the
 * next backend. Resets go there as well, and refunds of units that were reported.
 */
#ifndef RN_REDIS_ASYNC_H
#define RN_REDIS_ASYNC_H

#include "redis/async/reports.h"

#define RN_ASYNC_PERMILLE 50
#define RN_ASYNC_KEYS 16384

struct rn_async_options {
    unsigned nodes, workers; /* each worker of each node is a holder; 0 means 1 */
    unsigned permille;       /* of a limit that all holders may hold; 0: RN_ASYNC_PERMILLE */
    uint32_t keys;           /* decided here, at most; 0: RN_ASYNC_KEYS */
    bool by_tag;             /* Redis is a cluster: a call has keys of one hash tag only */
};

struct rn_async;

/* `redis` takes the reports, `next` decides what is not decided here; both are borrowed.
 * RATION_ENOMEM. */
int rn_async_new(struct rn_loop *loop, struct rn_redis *redis, struct rn_backend *next,
                 const struct rn_async_options *options, struct rn_async **out,
                 struct ration_error *error);
/* A clean stop: sends all unreported units, and from then on passes everything on. Then free the
 * backends behind, which ends the jobs under way, and then this one. */
void rn_async_stop(struct rn_async *async);
/* Whether replies to reports are still to come. */
bool rn_async_is_busy(const struct rn_async *async);
/* NULL is fine. */
void rn_async_free(struct rn_async *async);

struct rn_backend *rn_async_backend(struct rn_async *async);
/* Sets the number of nodes, this one included. In the loop's thread. */
void rn_async_set_nodes(struct rn_async *async, unsigned nodes);
const struct rn_async_counts *rn_async_counts(const struct rn_async *async);

#endif
