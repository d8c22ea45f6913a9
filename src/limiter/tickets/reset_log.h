/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resets by an operator, as keys of the table: what was charged before one is forgiven, so it
 * cannot be given back as well. Remembered for as long as the limit would have remembered
 * what was charged, a day at most; if one is evicted at capacity, a refund gives back what it
 * would have without a reset.
 */
#ifndef RN_LIMITER_TICKETS_RESET_LOG_H
#define RN_LIMITER_TICKETS_RESET_LOG_H

#include "core/limit.h"

struct ration;

/* Both do nothing where limits are shared with other nodes: the store does the same to charges
 * that are flagged RN_CHARGE_RESET_LOG, in the same trip and at once with what they do. */

/* The state of this key was forgotten at now_ns. 0, or the store's error. */
int rn_reset_log_add(struct ration *r, const struct rn_limit *limit, uint64_t key, int64_t now_ns);

/* Whether it was after at_ns. */
bool rn_reset_log_covers(struct ration *r, const struct rn_limit *limit, uint64_t key,
                         int64_t at_ns, int64_t now_ns);

#endif
