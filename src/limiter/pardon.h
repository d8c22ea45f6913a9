/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resets by an operator, as keys of the table: what was charged before one is forgiven, so it
 * cannot be given back as well. Remembered for as long as a reservation may last; if one
 * is evicted at capacity, a refund gives back what it would have without a reset.
 */
#ifndef RN_LIMITER_PARDON_H
#define RN_LIMITER_PARDON_H

#include "store/store.h"

struct ration;

/* The state of this key was forgotten at now_ns. 0, or the store's error. */
int rn_pardon_note(struct ration *r, uint64_t key, int64_t now_ns);

/* A question whether a key's was, to be put to the store at now_ns; `limit` is filled, and
 * borrowed as the charge's. */
void rn_pardon_ask(struct ration *r, uint64_t key, int64_t now_ns, struct rn_limit *limit,
                   struct rn_charge *charge);
/* Its answer: whether that was after at_ns. */
bool rn_pardon_covers(const struct rn_charge *asked, int64_t at_ns);

#endif
