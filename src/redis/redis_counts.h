/* SPDX-License-Identifier: Apache-2.0 */
/* What the store counts: written by its loop's thread alone, read by any. */
#ifndef RN_REDIS_REDIS_COUNTS_H
#define RN_REDIS_REDIS_COUNTS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

#define RN_REDIS_COUNTS_SIZES 7 /* calls of 1, 2-3, 4-7, 8-15, 16-31, 32-63, 64 charges */

struct rn_redis_counts {
    _Atomic uint64_t charges, answered; /* answered: in time, by Redis */
    _Atomic uint64_t late;              /* the deadline passed */
    _Atomic uint64_t returned; /* made all the same, and given back: redis/strict/late_charges.h */
    _Atomic uint64_t burnt;    /* or not given back, as there was no way */
    _Atomic uint64_t remembered;  /* refused without asking: redis/strict/refusal_cache.h */
    _Atomic uint64_t turned_away; /* at once: breaker open, or too many under way */
    _Atomic uint64_t failed;      /* an error, or the connection was lost */
    _Atomic uint64_t opened;      /* how often a breaker did */
    _Atomic uint64_t calls;       /* of scripts, by charges */
    _Atomic uint64_t sizes[RN_REDIS_COUNTS_SIZES];
    _Atomic uint64_t others;       /* other calls: redis/strict/script_call.h */
    _Atomic uint64_t resent;       /* not run, and so sent once more to the same server */
    _Atomic uint64_t moved, asked; /* redirections within a cluster */
    _Atomic uint64_t mismatches;   /* replies to something else */
    _Atomic uint64_t connects;     /* attempts */
    _Atomic uint64_t refreshes;    /* answers that told where the servers are */
    _Atomic uint64_t clock_steps;  /* of the clock of a store: redis/cluster/shard.h */
    _Atomic int64_t skew_us;       /* clock of the store less ours, at the last reply */
    _Atomic int64_t
        refused_ns;       /* when a server last refused to run a call: rn_redis_counts_refused */
    _Atomic bool up;      /* every charge is sent */
    _Atomic bool open;    /* some breaker is */
    _Atomic bool refused; /* the nodes do not agree: rn_redis_agree */
};

/* Whether a server that last refused a call then, by the boot-time clock, does not serve. Nobody
 * may have asked it since: after a while nothing is known of it. 0: it serves. */
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
