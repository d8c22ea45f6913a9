/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Token bucket and leaky bucket as a GCRA: the state is one arrival time.
 *
 * A bucket of `cap` units, each of which takes unit_ns to refill, is described
 * by the time TAT at which it will be full again. Its debt at `now` is
 * max(TAT - now, 0); cost n adds n * unit_ns, and is admitted if the sum is at
 * most full_ns = cap * unit_ns. Costs are linear in n, so that a full bucket
 * holds exactly `cap` units however they are taken.
 *
 * As a queue (leaky bucket), the debt is the time until the place of the next
 * one comes up: its delay.
 *
 * The take is here, inline, because it is what nearly every decision is made
 * of; gcra.c has the rest.
 */
#ifndef RN_CORE_GCRA_H
#define RN_CORE_GCRA_H

#include "core/limit.h"

/* x_ns / unit_ns by reciprocal: the estimate is at most one too small, because
 * x < 2^61 and the inverse is short by less than one part in 2^63. */
static inline uint64_t rn_gcra_units(const struct rn_limit *limit, int64_t x_ns)
{
    __extension__ typedef unsigned __int128 wide;
    uint64_t x = (uint64_t)x_ns, unit = (uint64_t)limit->unit_ns;
    uint64_t q = (uint64_t)(((wide)x * limit->unit_inverse) >> 64);

    return q + (x - q * unit >= unit);
}

/* Nanoseconds until the bucket is full. */
static inline int64_t rn_gcra_debt(uint64_t tat, int64_t now)
{
    return (int64_t)tat > now ? (int64_t)tat - now : 0;
}

/* Charges `cost` to a bucket in debt, if it fits; returns whether it did, with
 * the debt then and the answer for it. A cost above cap never fits. */
static inline bool rn_gcra_take(const struct rn_limit *limit, int64_t *debt, uint64_t cost,
                                struct rn_answer *answer)
{
    /* May wrap, but only for a cost that does not fit anyway. */
    int64_t after = (int64_t)((uint64_t)*debt + cost * (uint64_t)limit->unit_ns);
    bool fits = cost <= limit->cap && after <= limit->full_ns;

    answer->allowed = fits;
    answer->delay_ns = fits && limit->algorithm == RATION_LEAKY_BUCKET ? *debt : 0;
    answer->retry_after_ns = fits                ? 0
                             : cost > limit->cap ? rn_limit_beyond_ns(limit, cost)
                                                 : after - limit->full_ns;
    if (fits)
        *debt = after;
    answer->remaining = rn_gcra_units(limit, limit->full_ns - *debt);
    answer->reset_after_ns = *debt;
    return fits;
}

/* What a take would answer, but for the units left and the time to full, which are
 * those of now. */
static inline void rn_gcra_look(const struct rn_limit *limit, int64_t debt, uint64_t cost,
                                struct rn_answer *answer)
{
    int64_t after = debt;

    rn_gcra_take(limit, &after, cost, answer);
    answer->remaining = rn_gcra_units(limit, limit->full_ns - debt);
    answer->reset_after_ns = debt;
}

#endif
