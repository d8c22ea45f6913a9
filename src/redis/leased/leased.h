/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store contract over Redis, leased: charges flagged RN_CHARGE_LEASED on keys that
 * are asked for often are decided here, out of what this worker holds of the limit;
 * all others are passed on to the strict store behind. Together all holders and strict
 * charges admit no more than the limit. One for each loop, of its thread.
 *
 * Charges answer inline as long as something is held; when nothing is and a call for
 * more is in flight, they wait for it, in order, as long as a strict one would. A call
 * that takes longer is not waited for: charges are then passed on.
 *
 * Answers tell of what is held and what the store had left when it was last asked:
 * remaining is an estimate. A charge of more than a quarter of the limit is always
 * strict.
 */
#ifndef RN_REDIS_LEASED_H
#define RN_REDIS_LEASED_H

#include "redis/redis.h"

/* A key that is not asked for in this time is given back; sooner if its lease ends sooner. */
#define RN_LEASED_IDLE_NS (INT64_C(250) * 1000000)

/* Written by the loop's thread, read by any. */
struct rn_leased_counts {
    _Atomic uint64_t here, passed_on;            /* decisions: out of what is held; strict */
    _Atomic uint64_t waited;                     /* of those made here: for a call */
    _Atomic uint64_t late;                       /* gave up waiting: RATION_ESTORE */
    _Atomic uint64_t calls, lost;                /* for leases; without an answer */
    _Atomic uint64_t grants, granted;            /* calls that got something; units */
    _Atomic uint64_t returned, burnt;            /* units: unused in time; too late */
    _Atomic uint64_t recovered;                  /* units that killed holders had not spent */
    _Atomic uint64_t promoted, demoted, crowded; /* keys; crowded: no room to hold one more */
    _Atomic uint64_t held;                       /* keys, now */
};

struct rn_leased;

struct rn_leased_options {
    int64_t deadline_ns; /* 0: RN_REDIS_DEADLINE_NS */
    const char *path; /* of the file of leases (redis/leased/lease_file.h), borrowed; NULL: none */
};
/* In the loop's thread. `redis` outlives it. */
int rn_leased_new(struct rn_loop *loop, struct rn_redis *redis,
                  const struct rn_leased_options *options, struct rn_leased **out,
                  struct ration_error *error);
/* Gives back what is held; who waits has RATION_ESTORE. Memory is kept until the
 * replies under way have come, or `redis` is freed. NULL is fine. */
void rn_leased_free(struct rn_leased *leased);

struct rn_backend *rn_leased_backend(struct rn_leased *leased);
/* Any thread. Every store has been seen to have all that there was for as long as a lease
 * lasts: new keys start full. Of one that was never used this takes a second, once. Stays so:
 * what is lost later is nobody's start. */
bool rn_leased_is_whole(const struct rn_leased *leased);
const struct rn_leased_counts *rn_leased_counts(const struct rn_leased *leased);

#endif
