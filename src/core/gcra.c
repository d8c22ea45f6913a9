/* SPDX-License-Identifier: Apache-2.0 */
#include "core/gcra.h"

#include "core/forms.h"

/* Why not simply give back cost * unit_ns: had the charge not been made, the
 * bucket might have been full meanwhile and lost what was refilled since. So
 * the refill of the time that passed is burnt. A queue can tell exactly: its
 * last place is the one whose mark is the arrival time. */
static int64_t refund_ns(const struct rn_limit *limit, uint64_t tat, const struct rn_ask *ask)
{
    int64_t cost_ns = (int64_t)rn_min_u64(ask->cost, limit->cap) * limit->unit_ns;
    int64_t ahead = ask->mark > ask->now_ns ? ask->mark - ask->now_ns : 0;

    if (limit->algorithm != RATION_LEAKY_BUCKET)
        return cost_ns - rn_max_i64(ask->now_ns - ask->at_ns, 0);
    if ((int64_t)tat != ask->mark)
        return 0;
    return ahead < cost_ns ? ahead : cost_ns;
}

static uint64_t left_of(const struct rn_limit *limit, int64_t debt)
{
    return debt < limit->full_ns ? rn_gcra_units(limit, limit->full_ns - debt) : 0;
}

/* Takes and looks of a bucket below empty: only what costs nothing is admitted. */
static void answer_below_empty(const struct rn_limit *limit, int64_t debt, const struct rn_ask *ask,
                               struct rn_answer *answer)
{
    bool queue = limit->algorithm == RATION_LEAKY_BUCKET;
    int64_t cost_ns = (int64_t)rn_min_u64(ask->cost, limit->cap) * limit->unit_ns;

    *answer = (struct rn_answer){
        .allowed = ask->cost == 0, .reset_after_ns = debt, .oldest_ns = RN_NEVER};
    if (answer->allowed)
        answer->delay_ns = queue ? debt : 0;
    else
        answer->retry_after_ns = ask->cost > limit->cap ? rn_limit_beyond_ns(limit, ask->cost)
                                                        : debt + cost_ns - limit->full_ns;
}

/* FORCE and DEBIT: the debt after as much of the cost as there is room for. */
static int64_t charge_anyway(const struct rn_limit *limit, int64_t debt, const struct rn_ask *ask,
                             struct rn_answer *answer)
{
    int64_t most = ask->op == RN_DEBIT ? 2 * limit->full_ns : limit->full_ns;
    rn_u128 cost_ns = (rn_u128)ask->cost * (uint64_t)limit->unit_ns;
    uint64_t room = (uint64_t)rn_max_i64(most - debt, 0);
    rn_u128 over = cost_ns > room ? cost_ns - room : 0;

    debt += (int64_t)(cost_ns - over);
    *answer = (struct rn_answer){.allowed = true,
                                 .remaining = left_of(limit, debt),
                                 .reset_after_ns = debt,
                                 .uncollected = (uint64_t)((over + (uint64_t)limit->unit_ns - 1) /
                                                           (uint64_t)limit->unit_ns)};
    return debt;
}

static enum rn_outcome apply(const struct rn_limit *limit, uint64_t *state, uint32_t words,
                             const struct rn_ask *ask, struct rn_answer *answer)
{
    int64_t now = ask->now_ns, before = rn_gcra_debt(*state, now);
    int64_t debt = before > 2 * limit->full_ns ? 2 * limit->full_ns : before;

    (void)words;
    if (ask->op == RN_GIVE_BACK) {
        int64_t back = refund_ns(limit, *state, ask);

        *answer = (struct rn_answer){.allowed = back > 0 && debt > 0};
        if (answer->allowed)
            debt = rn_max_i64(debt - back, 0);
        answer->remaining = left_of(limit, debt);
        answer->reset_after_ns = debt;
    } else if (ask->op == RN_CREDIT) {
        rn_u128 back = (rn_u128)ask->cost * (uint64_t)limit->unit_ns;

        *answer = (struct rn_answer){.allowed = back > 0 && debt > 0};
        debt = back < (uint64_t)debt ? debt - (int64_t)back : 0;
        answer->remaining = left_of(limit, debt);
        answer->reset_after_ns = debt;
    } else if (ask->op == RN_FORCE || ask->op == RN_DEBIT) {
        debt = charge_anyway(limit, debt, ask, answer);
    } else if (debt > limit->full_ns) {
        answer_below_empty(limit, debt, ask, answer);
    } else if (ask->op == RN_TAKE) {
        rn_gcra_take(limit, &debt, ask->cost, answer);
    } else {
        rn_gcra_look(limit, debt, ask->cost, answer);
    }
    if (debt != before)
        *state = (uint64_t)(now + debt);
    answer->mark = (int64_t)*state;
    return debt != before ? RN_WRITE : RN_KEEP;
}

static void grow(uint64_t word, uint64_t *state)
{
    state[0] = word;
    state[1] = 0;
}

const struct rn_form_descriptor rn_gcra_form = {
    .algorithm = RATION_TOKEN_BUCKET,
    .apply = apply,
    .grows_into = RN_FORM_FINE,
    .grow = grow,
    .envelope = rn_envelope_smooth,
    .settles = rn_envelope_settles_bucket,
};
