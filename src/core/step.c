/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Token bucket refilled in steps: step_units at every multiple of step_ns.
 *
 * Time is counted in whole units: at step k = floor(now / step_ns) the clock
 * stands at k * step_units. The state is the unit time U at which the bucket
 * is full, written as the step in which that happens and what is left over:
 *
 *   U = k * step_units - d, 0 <= d < step_units   is stored as   k * step_ns + d
 *
 * which is possible because no rate exceeds one unit a nanosecond, and useful
 * because read as a time it is never earlier than the bucket is full.
 *
 * At a factor (core/scale.h) the bucket keeps its units, and charges several of them for one.
 * Giving back rounds the other way, so that no unit is made.
 */
#include "core/forms.h"

static int64_t unpack_units(const struct rn_limit *limit, uint64_t word)
{
    int64_t at = rn_max_i64((int64_t)word, 0);
    int64_t step = at / limit->step_ns, rest = at % limit->step_ns;

    return step * (int64_t)limit->step_units - rest;
}

static uint64_t pack_units(const struct rn_limit *limit, int64_t units)
{
    int64_t per_step = (int64_t)limit->step_units;
    int64_t step = rn_ceil_div(units, per_step);

    return (uint64_t)(step * limit->step_ns + (step * per_step - units));
}

/* Until `units` more have been refilled. */
static int64_t wait_ns(const struct rn_limit *limit, int64_t now, int64_t units)
{
    int64_t steps = rn_ceil_div(units, (int64_t)limit->step_units);

    return units <= 0 ? 0 : (now / limit->step_ns + steps) * limit->step_ns - now;
}

/* Units of the bucket that `units` at the factor cost. */
static uint64_t price_up(const struct rn_limit *limit, uint64_t units)
{
    if (limit->percent == 0)
        return units;
    rn_u128 price = ((rn_u128)units * 100 + limit->percent - 1) / limit->percent;

    return price < limit->written_cap || units > limit->cap
               ? (uint64_t)(price < RN_NEVER ? price : RN_NEVER)
               : limit->written_cap;
}

static uint64_t price_down(const struct rn_limit *limit, uint64_t units)
{
    rn_u128 price = limit->percent ? (rn_u128)units * 100 / limit->percent : units;

    return (uint64_t)(price < RN_NEVER ? price : RN_NEVER);
}

/* Units at the factor for which so many of the bucket pay. */
static uint64_t units_for(const struct rn_limit *limit, uint64_t paid)
{
    if (limit->percent == 0)
        return paid;
    uint64_t units = (uint64_t)((rn_u128)paid * limit->percent / 100);

    return units == 0 && paid >= price_up(limit, 1) ? 1 : units;
}

static enum rn_outcome apply(const struct rn_limit *limit, uint64_t *state, uint32_t words,
                             const struct rn_ask *ask, struct rn_answer *answer)
{
    int64_t now = ask->now_ns, cap = (int64_t)(limit->percent ? limit->written_cap : limit->cap);
    int64_t clock = now / limit->step_ns * (int64_t)limit->step_units;
    int64_t debt = rn_max_i64(unpack_units(limit, *state) - clock, 0);
    bool write = debt > 2 * cap;

    (void)words;
    debt = debt > 2 * cap ? 2 * cap : debt;
    answer->retry_after_ns = answer->delay_ns = 0;
    if (ask->op == RN_GIVE_BACK || ask->op == RN_CREDIT) {
        int64_t steps = rn_max_i64(now / limit->step_ns - ask->at_ns / limit->step_ns, 0);
        uint64_t units = price_down(limit, ask->cost);
        rn_i128 back = ask->op == RN_CREDIT ? (rn_i128)units
                                            : (rn_i128)rn_min_u64(units, (uint64_t)cap) -
                                                  (rn_i128)steps * (rn_i128)limit->step_units;

        answer->allowed = back > 0 && debt > 0;
        if (answer->allowed) {
            debt = back < debt ? debt - (int64_t)back : 0;
            write = true;
        }
    } else {
        bool possible = ask->cost <= limit->cap;
        uint64_t price = price_up(limit, ask->cost);
        int64_t cost = (int64_t)rn_min_u64(price, (uint64_t)cap), over = debt + cost - cap;

        answer->allowed = possible && (over <= 0 || cost == 0);
        if (!answer->allowed)
            answer->retry_after_ns =
                possible ? wait_ns(limit, now, over) : rn_limit_beyond_ns(limit, ask->cost);
        if (ask->cost != 0 && rn_op_charges(ask->op, answer->allowed)) {
            int64_t room = rn_max_i64((ask->op == RN_DEBIT ? 2 * cap : cap) - debt, 0);
            uint64_t charged = rn_min_u64(price, (uint64_t)room);

            answer->uncollected = units_for(limit, price - charged);
            debt += (int64_t)charged;
            write = true;
        }
    }
    if (write)
        *state = pack_units(limit, clock + debt);
    answer->mark = (int64_t)*state;
    answer->remaining = cap > debt ? units_for(limit, (uint64_t)(cap - debt)) : 0;
    answer->reset_after_ns = wait_ns(limit, now, debt);
    return write ? RN_WRITE : RN_KEEP;
}

const struct rn_form_descriptor rn_step_form = {
    .algorithm = RATION_TOKEN_BUCKET,
    .apply = apply,
    .envelope = rn_envelope_stepped,
    .settles = rn_envelope_settles_bucket,
};
