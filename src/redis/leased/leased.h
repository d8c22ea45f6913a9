/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The leased backend: decides charges flagged RN_CHARGE_LEASED on busy keys here, out of this
 * worker's lease of the limit, and passes all others on to the strict backend. All leases and
 * strict charges together admit no more than the limit. Each loop has its own, used by its thread
 * only.
 *
 * A charge is answered at once while the lease has units. If it has none and a call for more is in
 * flight, the charge waits for the reply, in order, as long as a strict charge would. If the call
 * takes longer than that, charges are passed on.
 *
 * `remaining` is an estimate: the units of this lease plus what Redis had left at the last call. A
 * charge of more than a quarter of the limit is always strict.
 */
#ifndef RN_REDIS_LEASED_H
#define RN_REDIS_LEASED_H

#include "redis/redis.h"

/* A key that is not used for this long is given back; sooner if its lease ends sooner. */
#define RN_LEASED_IDLE_NS (INT64_C(250) * 1000000)

/* Written by the loop's thread, read by any. */
struct rn_leased_counts {
    _Atomic uint64_t here, passed_on;            /* decisions: by a lease; strict */
    _Atomic uint64_t waited;                     /* of those by a lease: for a call */
    _Atomic uint64_t late;                       /* charges that gave up waiting: RATION_ESTORE */
    _Atomic uint64_t calls, lost;                /* for leases; without a reply */
    _Atomic uint64_t grants, granted;            /* calls that were granted units; these units */
    _Atomic uint64_t returned, burnt;            /* units: given back in time; lost */
    _Atomic uint64_t recovered;                  /* unspent units of killed workers, given back */
    _Atomic uint64_t promoted, demoted, crowded; /* keys; crowded: the table was full */
    _Atomic uint64_t held;                       /* keys with a lease, now */
};

struct rn_leased;

struct rn_leased_options {
    int64_t deadline_ns; /* 0: RN_REDIS_DEADLINE_NS */
    const char *path;    /* of the lease file (redis/leased/lease_file.h), borrowed; NULL: none */
};
/* In the loop's thread. `redis` outlives it. */
int rn_leased_new(struct rn_loop *loop, struct rn_redis *redis,
                  const struct rn_leased_options *options, struct rn_leased **out,
                  struct ration_error *error);
/* A clean stop: waiting charges get RATION_ESTORE, later ones are passed on, and all leases are
 * given back: a lease with a call in flight when its reply comes. */
void rn_leased_stop(struct rn_leased *leased);
/* Whether replies are still to come. Once there are none, all leases have been given back. */
bool rn_leased_is_busy(const struct rn_leased *leased);
/* Stops it if that was not done. Leases whose reply has not come stay in the file for the next
 * process. The memory is freed when the replies in flight have come, or `redis` is freed. NULL is
 * fine. */
void rn_leased_free(struct rn_leased *leased);

struct rn_backend *rn_leased_backend(struct rn_leased *leased);
/* Any thread. Whether every server has been seen with all its data for as long as a lease lasts, so
 * that a new key may start full. For a fresh Redis this takes a second, once. Stays true: a later
 * loss is handled otherwise. */
bool rn_leased_is_whole(const struct rn_leased *leased);
const struct rn_leased_counts *rn_leased_counts(const struct rn_leased *leased);

#endif
