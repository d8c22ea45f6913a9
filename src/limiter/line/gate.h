/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How lines (lines.h) change a decision. All but the table's own fast ways run a transaction
 * (decide/transaction.h), and this file stands in the middle of it:
 *
 * Before: does anybody stand in line for one of the limits, who goes first? Then no limit is asked:
 * the request is refused, or stands in line itself.
 *
 * After: is it refused, and would time cure that? Then nothing is counted, and it stands in the
 * line of the limit with the longest wait: RATION_EWAITS.
 *
 * The fast ways only ask whether a line stands for one of their keys, and leave such a request
 * to the transaction. A waiter decides for itself when its turn has come, by the same call again.
 * Once its time is over, that call refuses without asking any limit.
 */
#ifndef RN_LIMITER_LINE_GATE_H
#define RN_LIMITER_LINE_GATE_H

#include "limiter/decide/transaction.h"
#include "limiter/line/lines.h"

/* The most that stand in line for a limit where no rule says so, but callers would wait. */
#define RN_GATE_LINE_SIZE 1000

/* Whether rn_gate_charge must be called in the place of rn_transaction_charge. */
static inline bool rn_gate_concerns(const struct rn_transaction *tx)
{
    return rn_lines_any(tx->r->lines) | (tx->waiter != NULL) | tx->held;
}

/* rn_transaction_charge with what comes before and after. The limits are known, the clock is read.
 * With RATION_EWAITS in tx->error the waiter stands in line. */
bool rn_gate_charge(struct rn_transaction *tx);

/* Between a look at a shared store and the charge: whether one that goes before this waiter has
 * been refused meanwhile. Then it is, too. */
bool rn_gate_is_behind(struct rn_transaction *tx);

/* For a request whose client is paused for rest_ns more, by the rule that this item is the first
 * of: true if it stands in line for that. */
bool rn_gate_wait_for_pause(struct rn_transaction *tx, size_t first, int64_t rest_ns);

/* For a charge of a caller that was looked at: if others stand in line for its key, its verdict
 * says that it would be refused. */
void rn_gate_tell(struct ration *r, struct ration_charge *c, int64_t now_ns);

/* For the fast ways: whether a line stands for this key, and whether one stands anywhere. A
 * transaction for each key that shares a counter of the filter would cost all others 5 %. */
static inline bool rn_gate_stands_if(const struct ration *r, uint64_t key, bool any)
{
    return __builtin_expect(any, 0) && __builtin_expect(rn_lines_may_stand(r->lines, key), 0) &&
           rn_lines_stands(r->lines, key);
}

static inline bool rn_gate_stands(const struct ration *r, uint64_t key)
{
    return rn_gate_stands_if(r, key, rn_lines_any(r->lines));
}

/* The same for the keys of a request on the fast path. */
struct rn_fast_path;
bool rn_gate_stops(const struct ration *r, const struct rn_fast_path *f);

/* Whether somebody goes before this request in the line of item i; *wait_ns: for how long at least.
 */
bool rn_gate_is_held(const struct rn_transaction *tx, size_t i, int64_t *wait_ns);

/* What is left of the longest wait under the limit of an item, for delays after the line. */
int64_t rn_gate_rest_ns(const struct rn_transaction *tx, size_t i);

/* Units of this key came back. */
static inline void rn_gate_poke(const struct ration *r, uint64_t key, int64_t now_ns)
{
    if (__builtin_expect(rn_gate_stands(r, key), 0))
        rn_lines_poke(r->lines, key, now_ns);
}
/* Limits have changed; now_ns may be RATION_NOW. */
void rn_gate_poke_all(const struct ration *r, int64_t now_ns);

/* Every call that decides ends with this if it has a waiter: the turn is over, whatever came of it
 * (an error, a ban), unless the transaction has ended it. Returns the time in line; 0: none, or
 * that is known already. */
int64_t rn_gate_end_turn(struct ration *r, struct ration_waiter *waiter, int code, bool admitted,
                         int64_t now_ns);

/* The same for a call that fails before it decides anything. Returns the code. */
static inline int rn_gate_fail(struct ration *r, struct ration_waiter *waiter, int code,
                               int64_t now_ns)
{
    (void)rn_gate_end_turn(r, waiter, code, false, now_ns);
    return code;
}

/* Whether the waiter stands in line, and its turn has not come: nothing can be decided. */
bool rn_gate_is_awaited(const struct ration_waiter *waiter);

/* Counts a decision of a waiter that had its turn, in the total and in a row (may be NULL). */
void rn_gate_count(const struct rn_transaction *tx, struct rn_counts *row, bool allowed);

#endif
