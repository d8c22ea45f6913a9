/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys refused most often: a Space-Saving sketch (Metwally et al., 2005).
 * A key that is not among the entries takes over the smallest one together
 * with its count, so that counts err upwards and a frequent key stays.
 *
 * Refusals must stay cheap and scale, so no thread waits for the sketch: a thread that finds it
 * locked goes on without. After n refusals in a time slice of about a second, a thread records one
 * in n / RN_TOP_EXACT, with that weight.
 */
#ifndef RN_LIMITER_TOP_H
#define RN_LIMITER_TOP_H

#include "base/slice.h"
#include "limiter/stats.h"

#define RN_TOP_ENTRIES 128
#define RN_TOP_EXACT 1024
#define RN_TOP_LAST 8 /* refusals of an entry whose times are known */

struct rn_top;

struct rn_top *rn_top_new(void);
void rn_top_free(struct rn_top *top);

/* Records a refusal of the charge by a limit of `rule` or, if that is empty, by `limit`. Reads
 * hash, time and key of the charge; the key may be NULL. */
void rn_top_note(struct rn_top *top, struct rn_stripe *stripe, uint32_t limit, struct rn_slice rule,
                 const struct ration_charge *c);

/* The times of the last refusals of an entry that were recorded, the newest first, on the table's
 * clock. Returns how many; 0: there is no entry with this hash. */
size_t rn_top_last(struct rn_top *top, uint64_t hash, int64_t at_ns[RN_TOP_LAST]);

#endif
