/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys refused most often: a Space-Saving sketch (Metwally et al., 2005).
 * A key that is not among the entries takes over the smallest one together
 * with its count, so that counts err upwards and a frequent key stays.
 *
 * Refusals must stay cheap and scale, so nobody waits for the sketch: who finds
 * it locked goes on without, and a thread that has refused n times in a time
 * slice of about a second records one in n / RN_TOP_EXACT, with that weight.
 */
#ifndef RN_LIMITER_TOP_H
#define RN_LIMITER_TOP_H

#include "base/slice.h"
#include "limiter/stats.h"

#define RN_TOP_ENTRIES 128
#define RN_TOP_EXACT 1024

struct rn_top;

struct rn_top *rn_top_new(void);
void rn_top_free(struct rn_top *top);

/* Notes a refusal of the charge, of which hash, time and key are read, by a limit
 * of `rule` or, if that is empty, by `limit`. The key is kept if it is given. */
void rn_top_note(struct rn_top *top, struct rn_stripe *stripe, uint32_t limit, struct rn_slice rule,
                 const struct ration_charge *c);

#endif
