/* SPDX-License-Identifier: Apache-2.0 */
/* Counters of an rn_redis: its loop's thread writes them, any thread reads them. */
#ifndef RN_REDIS_REDIS_COUNTS_H
#define RN_REDIS_REDIS_COUNTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

#define RN_REDIS_COUNTS_SIZES 7 /* calls of 1, 2-3, 4-7, 8-15, 16-31, 32-63, 64 charges */

struct rn_redis_counts {
    _Atomic uint64_t charges, answered; /* answered by Redis, in time */
    _Atomic uint64_t late;              /* the deadline passed */
    _Atomic uint64_t returned;          /* late charges given back: redis/strict/late_charges.h */
    _Atomic uint64_t burnt;             /* late charges that could not be given back */
    _Atomic uint64_t remembered;        /* refused by the cache: redis/strict/refusal_cache.h */
    _Atomic uint64_t turned_away;       /* at once: breaker open, or too many jobs */
    _Atomic uint64_t failed;            /* an error, or the connection was lost */
    _Atomic uint64_t opened;            /* times a breaker opened */
    _Atomic uint64_t calls;             /* of scripts, for charges */
    _Atomic uint64_t sizes[RN_REDIS_COUNTS_SIZES];
    _Atomic uint64_t others;       /* other calls: redis/strict/script_call.h */
    _Atomic uint64_t resent;       /* not run, and sent to the same server again */
    _Atomic uint64_t moved, asked; /* redirections within a cluster */
    _Atomic uint64_t mismatches;   /* replies that do not match their call */
    _Atomic uint64_t connects;     /* attempts */
    _Atomic uint64_t refreshes;    /* topology replies */
    _Atomic uint64_t clock_steps;  /* steps of a server's clock: redis/cluster/shard.h */
    _Atomic int64_t skew_us;       /* the server's clock minus ours, at the last reply */
    _Atomic int64_t
        refused_ns;       /* when a server last refused to run a call: rn_redis_counts_refused */
    _Atomic bool up;      /* all charges can be sent */
    _Atomic bool open;    /* a breaker is open */
    _Atomic bool refused; /* the nodes have different secrets: rn_redis_agree */
};

/* Whether a server that refused a call at this time of the boot-time clock still counts as not
 * serving. No call may have tried it since, so a refusal expires. 0: it serves. */
#define RN_REDIS_COUNTS_REFUSED_NS (10 * RN_SECOND_NS)
static inline bool rn_redis_counts_refused(const _Atomic int64_t *refused_ns)
{
    int64_t at_ns = atomic_load_explicit(refused_ns, memory_order_relaxed);

    return at_ns != 0 && rn_clock_boot_ns() - at_ns < RN_REDIS_COUNTS_REFUSED_NS;
}

static inline void rn_redis_count(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

#endif
