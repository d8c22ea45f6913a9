/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RN_LIMITER_STATE_H
#define RN_LIMITER_STATE_H

#include "limiter/decide/gather.h"

/* Called for a rule that applies, at no cost. Non-zero: an error. */
typedef int rn_state_change_fn(struct ration *r, const struct rn_book *book,
                               const struct rn_applied *rule, void *arg);

/* Calls `change` for the rule with this name, or for all rules that apply to the request (`rule`
 * NULL). RATION_ENORULE, RATION_EUNMATCHED and RATION_EINVAL as of ration_state_reset,
 * RATION_ENOMEM, or the first error of `change`. */
int rn_state_change(struct ration *r, const struct ration_request *request, const char *rule,
                    size_t rule_len, rn_state_change_fn *change, void *arg);

/* Gives back `units`, at most what the client has spent; also in the states of the limit's
 * variants. `item` belongs to a transaction that has ended. */
int rn_state_credit(struct ration *r, const struct rn_transaction_item *item, uint64_t units,
                    int64_t now_ns);

/* After a transaction of one limit that ended without an error: if the limit refused because too
 * few units were left, charges those, also in the variants. The verdict is then what the next
 * attempt would get. */
int rn_state_drain(struct rn_transaction *tx);

#endif
