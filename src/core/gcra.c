/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Token bucket and leaky bucket as a GCRA: the state is one arrival time.
 *
 * A bucket of `cap` units, each of which takes unit_ns to refill, is described
 * by the time TAT at which it will be full again. Its debt at `now` is
 * max(TAT - now, 0); cost n adds n * unit_ns, and is admitted if the sum is at
 * most full_ns = cap * unit_ns. Costs are linear in n, so that a full bucket
 * holds exactly `cap` units however they are taken.
 *
 * As a queue (leaky bucket), the debt is the time until the place of the next
 * one comes up: its delay.
 */
#include "core/forms.h"

/* Debts a little above full come from a limit of the same shape whose unit was
 * rounded differently; they are full, not lost in time. */
static int64_t debt_bound(const struct rn_limit *limit)
{
    return limit->full_ns + (limit->full_ns >> 10) + 1000;
}

/* debt / unit_ns by reciprocal: the estimate is at most one too small, because
 * x < 2^61 and the inverse is short by less than one part in 2^63. */
static uint64_t units_in(const struct rn_limit *limit, int64_t x_ns)
{
    uint64_t x = (uint64_t)x_ns, unit = (uint64_t)limit->unit_ns;
    uint64_t q = (uint64_t)(((rn_u128)x * limit->unit_inverse) >> 64);

    return q + (x - q * unit >= unit);
}

/* Why not simply give back cost * unit_ns: had the charge not been made, the
 * bucket might have been full meanwhile and lost what was refilled since. So
 * the refill of the time that passed is burnt. A queue can tell exactly: its
 * last place is the one whose mark is the arrival time. */
static int64_t refund_ns(const struct rn_limit *limit, uint64_t tat, const struct rn_ask *ask)
{
    int64_t cost_ns = (int64_t)rn_min_u64(ask->cost, limit->cap) * limit->unit_ns;

    if (limit->algorithm == RATION_LEAKY_BUCKET)
        return (int64_t)tat != ask->mark || ask->mark <= ask->now_ns ? 0
               : ask->mark - ask->now_ns < cost_ns                   ? ask->mark - ask->now_ns
                                                                     : cost_ns;
    return cost_ns - rn_max_i64(ask->now_ns - ask->at_ns, 0);
}

enum rn_outcome rn_gcra_apply(const struct rn_limit *limit, uint64_t *state, uint32_t words,
                              const struct rn_ask *ask, struct rn_answer *answer)
{
    int64_t now = ask->now_ns, full = limit->full_ns;
    int64_t debt = (int64_t)*state > now ? (int64_t)*state - now : 0;
    enum rn_outcome outcome = RN_KEEP;

    (void)words;
    if (__builtin_expect(debt > full, 0)) {
        if (debt > debt_bound(limit)) {
            *state = (uint64_t)(now + full);
            outcome = RN_WRITE;
        }
        debt = full;
    }
    if (__builtin_expect(ask->op == RN_GIVE_BACK, 0)) {
        int64_t back = refund_ns(limit, *state, ask);

        answer->allowed = back > 0 && debt > 0;
        if (answer->allowed) {
            debt = rn_max_i64(debt - back, 0);
            *state = (uint64_t)(now + debt);
            outcome = RN_WRITE;
        }
        answer->retry_after_ns = 0;
        answer->delay_ns = 0;
    } else {
        bool possible = ask->cost <= limit->cap;
        uint64_t cost = possible || ask->op != RN_FORCE ? ask->cost : limit->cap;
        int64_t over = possible ? debt + (int64_t)cost * limit->unit_ns - full : 1;

        answer->allowed = over <= 0;
        answer->retry_after_ns = over <= 0 ? 0 : possible ? over : RN_NEVER;
        answer->delay_ns = limit->algorithm == RATION_LEAKY_BUCKET && over <= 0 ? debt : 0;
        if (rn_op_charges(ask->op) && cost != 0 && (over <= 0 || ask->op == RN_FORCE)) {
            debt = over <= 0 ? full + over : full;
            *state = (uint64_t)(now + debt);
            outcome = RN_WRITE;
        }
        answer->mark = (int64_t)*state;
    }
    answer->remaining = units_in(limit, full - debt);
    answer->reset_after_ns = debt;
    return outcome;
}
