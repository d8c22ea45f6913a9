/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A limit at a factor: what is left of it when only so many percent are in force.
 *
 * All steps of one limit read the same state. A bucket keeps its time from empty to full, and its
 * unit becomes dearer or cheaper; windows, logs and places count units, and admit more or fewer. A
 * stepped bucket counts units, too, and charges several for one; it takes no factor above 100.
 * An adaptive limit, which follows load by itself, stays as written.
 *
 * Whatever factors follow each other, no time sees more units admitted than the largest factor of
 * that time admits by itself. For two buckets with units of u < v ns, both full after about the
 * same time, that holds if full(v) - full(u) <= v - u: a unit taken at the price v pays for the
 * difference. Where rounding to whole nanoseconds breaks that, all steps are of the fine form.
 */
#ifndef RN_CORE_SCALE_H
#define RN_CORE_SCALE_H

#include "core/limit.h"

/* What all steps of one limit have in common. */
struct rn_scale {
    const struct rn_limit *written; /* the limit at 100 percent */
    unsigned largest;               /* factor in percent: block sizes are made for it */
    bool fine;                      /* buckets: RN_FORM_FINE */
};

/* `percents` are all factors that may be in force, ascending, none of them 0. */
void rn_scale_init(struct rn_scale *scale, const struct rn_limit *written, const uint16_t *percents,
                   size_t n);

/* The limit at one of these factors. At least one unit fits, unless none does as written: where the
 * share is less than one, the limit is as if it were one. */
void rn_scale_step(const struct rn_scale *scale, unsigned percent, struct rn_limit *step);

#endif
