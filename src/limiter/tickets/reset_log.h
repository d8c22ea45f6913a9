/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resets by an operator, as keys of the table. A reset forgives what was charged before, so that
 * must not be given back as well. An entry lasts as long as the limit would have remembered the
 * charge, a day at most. If an entry is evicted at capacity, a refund gives back as if there had
 * been no reset.
 */
#ifndef RN_LIMITER_TICKETS_RESET_LOG_H
#define RN_LIMITER_TICKETS_RESET_LOG_H

#include "core/limit.h"

struct ration;

/* Both do nothing if nodes share the limits: the shared store does the same for charges with
 * RN_CHARGE_RESET_LOG, in the same step as the charge. */

/* The state of this key was forgotten at now_ns. 0, or the store's error. */
int rn_reset_log_add(struct ration *r, const struct rn_limit *limit, uint64_t key, int64_t now_ns);

/* Whether the key was reset after at_ns. */
bool rn_reset_log_covers(struct ration *r, const struct rn_limit *limit, uint64_t key,
                         int64_t at_ns, int64_t now_ns);

#endif
