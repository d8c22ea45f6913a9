/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a transaction: which limit decided, what the caller is told, what is
 * counted.
 */
#ifndef RN_LIMITER_DECIDE_VERDICT_H
#define RN_LIMITER_DECIDE_VERDICT_H

#include "limiter/decide/transaction.h"

/* Turns an admission at `cost` into a refusal where the rule wants one: the wait
 * is too long, or the client is about to be charged what it had spent. */
bool rn_verdict_restrict(struct rn_transaction_item *item, uint64_t cost);

/* Whether `a` is told rather than `b`: of refusals the longer wait, else the one nearer its limit.
 */
bool rn_verdict_outranks(const struct ration_verdict *a, const struct ration_verdict *b,
                         bool allowed);

/* Makes the answer of a guard part of that of its limit. */
void rn_verdict_add_guard(struct rn_transaction_item *item, const struct rn_answer *guard);

/* With tx->error set, only counts the failure. */
void rn_verdict_finish(struct rn_transaction *tx, bool allowed);

#endif
