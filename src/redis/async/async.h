/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store contract, decided here and reported to Redis afterwards: no decision waits
 * for a trip. One for each loop, of its thread, in front of the store that decides the
 * rest.
 *
 * Charges flagged RN_CHARGE_ASYNC of token buckets, fixed windows and sliding counters
 * are decided from what Redis last told of the key and what was admitted here since
 * (redis/async/local_budget.h, with the bound on what all workers together admit, and its proof).
 * All others are passed on, and so is what cannot be decided here: a key of which not
 * enough is known, or of which as much is unreported as may be; so if Redis is silent,
 * that has RATION_ESTORE from the store behind. Resets go there, too, and refunds of what
 * has been reported.
 */
#ifndef RN_REDIS_ASYNC_H
#define RN_REDIS_ASYNC_H

#include "redis/async/reports.h"

#define RN_ASYNC_PERMILLE 50
#define RN_ASYNC_KEYS 16384

struct rn_async_options {
    unsigned nodes, workers; /* each worker of each node is a holder; 0: 1 */
    unsigned permille;       /* of a limit that all of them may hold; 0: RN_ASYNC_PERMILLE */
    uint32_t keys;           /* decided here at most, others behind; 0: RN_ASYNC_KEYS */
    bool by_tag;             /* Redis is a cluster: a call has keys of one hash tag only */
};

struct rn_async;

/* `redis` takes the reports, `next` decides what is not decided here; both are borrowed.
 * RATION_ENOMEM. */
int rn_async_new(struct rn_loop *loop, struct rn_redis *redis, struct rn_backend *next,
                 const struct rn_async_options *options, struct rn_async **out,
                 struct ration_error *error);
/* A clean stop: what is unreported is sent off, and from then on everything is passed on.
 * Then the stores behind are freed, which ends what was passed on; then this. */
void rn_async_stop(struct rn_async *async);
/* NULL is fine. */
void rn_async_free(struct rn_async *async);

struct rn_backend *rn_async_backend(struct rn_async *async);
/* How many nodes there are, this one included. In the loop's thread. */
void rn_async_set_nodes(struct rn_async *async, unsigned nodes);
const struct rn_async_counts *rn_async_counts(const struct rn_async *async);

#endif
