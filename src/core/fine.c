/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The GCRA of gcra.c for rates above 1000 a second whose unit is not a whole
 * number of nanoseconds: rounding it up would cost more than one part in a
 * million, so times are kept in 2^-32 ns, in two words:
 *
 *   [0] arrival time in ns, rounded up: when the state is idle
 *   [1] what was added by rounding, in 2^-32 ns
 */
#include "core/forms.h"

rn_i128 rn_fine_unpack(const uint64_t *state)
{
    return (rn_i128)(int64_t)state[0] * ((rn_i128)1 << 32) - (uint32_t)state[1];
}

void rn_fine_pack(uint64_t *state, rn_i128 tat)
{
    uint32_t over = (uint32_t)tat; /* ns = floor + (over > 0) */

    state[0] = (uint64_t)(int64_t)(tat >> 32) + (over != 0);
    state[1] = (uint32_t)(0u - over);
}

static int64_t ceil_ns(rn_i128 t)
{
    return (int64_t)((t + UINT32_MAX) >> 32);
}

/* As refund_ns in gcra.c. */
static rn_i128 refund(const struct rn_limit *limit, const uint64_t *state, const struct rn_ask *ask,
                      rn_i128 cost)
{
    rn_i128 rest = ((rn_i128)ask->mark - ask->now_ns) * ((rn_i128)1 << 32);

    if (limit->algorithm == RATION_LEAKY_BUCKET)
        return (int64_t)state[0] != ask->mark || rest <= 0 ? 0 : rest < cost ? rest : cost;
    return cost - (rn_i128)rn_max_i64(ask->now_ns - ask->at_ns, 0) * ((rn_i128)1 << 32);
}

/* The debt after as much of the cost as there is room for below `most`. */
static rn_i128 charge(rn_i128 debt, rn_i128 unit, rn_i128 most, const struct rn_ask *ask,
                      struct rn_answer *answer)
{
    rn_i128 over = debt + unit * (rn_i128)ask->cost - most;

    answer->uncollected = over > 0 ? (uint64_t)((over + unit - 1) / unit) : 0;
    if (over > 0)
        return debt > most ? debt : most;
    return most + over;
}

static enum rn_outcome apply(const struct rn_limit *limit, uint64_t *state, uint32_t words,
                             const struct rn_ask *ask, struct rn_answer *answer)
{
    rn_i128 unit = (rn_i128)limit->unit_ns * ((rn_i128)1 << 32) + limit->unit_frac;
    rn_i128 full = (rn_i128)limit->full_ns * ((rn_i128)1 << 32) - limit->full_over;
    rn_i128 now = (rn_i128)ask->now_ns * ((rn_i128)1 << 32);
    rn_i128 debt = rn_fine_unpack(state) - now;
    rn_i128 cost = unit * (rn_i128)rn_min_u64(ask->cost, limit->cap);
    enum rn_outcome outcome = RN_KEEP;

    (void)words;
    debt = debt < 0 ? 0 : debt;
    if (debt > 2 * full) {
        debt = 2 * full;
        outcome = RN_WRITE;
    }
    answer->retry_after_ns = answer->delay_ns = 0;
    if (ask->op == RN_GIVE_BACK || ask->op == RN_CREDIT) {
        rn_i128 back =
            ask->op == RN_CREDIT ? unit * (rn_i128)ask->cost : refund(limit, state, ask, cost);

        answer->allowed = back > 0 && debt > 0;
        if (answer->allowed) {
            debt = debt > back ? debt - back : 0;
            outcome = RN_WRITE;
        }
    } else {
        bool possible = ask->cost <= limit->cap;
        rn_i128 over = debt + cost - full;

        answer->allowed = possible && (over <= 0 || ask->cost == 0);
        if (!answer->allowed)
            answer->retry_after_ns =
                possible ? ceil_ns(over) : rn_limit_beyond_ns(limit, ask->cost);
        else if (limit->algorithm == RATION_LEAKY_BUCKET)
            answer->delay_ns = ceil_ns(debt);
        if (ask->cost != 0 && rn_op_charges(ask->op, answer->allowed)) {
            rn_i128 most = ask->op == RN_DEBIT ? 2 * full : full;

            debt = charge(debt, unit, most, ask, answer);
            outcome = RN_WRITE;
        }
    }
    if (outcome == RN_WRITE)
        rn_fine_pack(state, now + debt);
    answer->mark = (int64_t)state[0];
    answer->remaining = full > debt ? (uint64_t)((full - debt) / unit) : 0;
    answer->reset_after_ns = ceil_ns(debt);
    return outcome;
}

const struct rn_form_descriptor rn_fine_form = {
    .algorithm = RATION_TOKEN_BUCKET,
    .apply = apply,
    .envelope = rn_envelope_smooth,
    .settles = rn_envelope_settles_bucket,
};
