/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RN_LIMITER_STATE_H
#define RN_LIMITER_STATE_H

#include "limiter/check.h"

/* Gives `units` of what the client has spent back, and at most that; also in the
 * states of the limit's variants. `item` is of a check that has ended. */
int rn_state_refund(struct ration *r, const struct rn_check_item *item, uint64_t units,
                    int64_t now_ns);

#endif
