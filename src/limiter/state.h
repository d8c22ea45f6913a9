/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RN_LIMITER_STATE_H
#define RN_LIMITER_STATE_H

#include "limiter/decide/transaction.h"

/* Gives `units` of what the client has spent back, and at most that; also in the
 * states of the limit's variants. `item` is of a transaction that has ended. */
int rn_state_credit(struct ration *r, const struct rn_transaction_item *item, uint64_t units,
                    int64_t now_ns);

/* Of a transaction of one limit that has ended without an error: if it has refused for want of
 * units, what is left is charged, here and in the variants; the verdict then tells what the next
 * attempt would be told. */
int rn_state_drain(struct rn_transaction *tx);

#endif
