/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The status of each descriptor.
 */
#include "limiter/envoy/descriptors.h"

uint32_t rn_descriptors_status_clip(uint64_t n)
{
    return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

/* The time until the window ends, also if nothing is spent in it: clients spread their requests by
 * it. */
static int64_t reset_of(const struct rn_transaction *tx, size_t charge)
{
    const struct rn_limit *limit = &tx->items[charge].limit->limit;
    const struct ration_verdict *verdict = &tx->charges[charge].verdict;

    if (limit->algorithm == RATION_FIXED_WINDOW && !limit->from_first)
        return verdict->reset_after_ns > 0
                   ? verdict->reset_after_ns
                   : rn_limit_window_left(limit, tx->now_ns + tx->wall_offset_ns -
                                                     tx->items[charge].shift_ns);
    return verdict->allowed || verdict->retry_after_ns == RATION_NEVER ? verdict->reset_after_ns
                                                                       : verdict->retry_after_ns;
}

/* Whether a charge is a shadow, and not only because another quota was chosen. */
static bool is_shadow(const struct rn_descriptors *d, const struct rn_descriptor *item,
                      size_t charge)
{
    return d->gathered.tx.items[charge].shadow &&
           (charge != item->charge || !rn_descriptor_is_quota(d, item));
}

/* The tightest limit of a descriptor: those in shadow mode come last, those that refuse
 * first. RN_NO_CHARGE: there is none. */
static uint8_t find_tightest(const struct rn_descriptors *d, const struct rn_descriptor *item)
{
    uint8_t found = RN_NO_CHARGE;
    int found_rank = -1;

    for (uint64_t left = item->charges; left != 0; left &= left - 1) {
        uint8_t charge = (uint8_t)__builtin_ctzll(left);
        const struct ration_verdict *verdict = &d->gathered.charges[charge].verdict;
        int rank = is_shadow(d, item, charge) ? 0 : verdict->allowed ? 1 : 2;

        if (rank > found_rank ||
            (rank == found_rank &&
             rn_verdict_outranks(verdict, &d->gathered.charges[found].verdict, rank != 2))) {
            found = charge;
            found_rank = rank;
        }
    }
    return found;
}

void rn_descriptors_status_fill(struct ration_descriptor_status *status, struct rn_descriptors *d,
                                size_t at)
{
    struct rn_descriptor *item = &d->items[at];
    const struct rn_gathered *g = &d->gathered;

    status->over = status->limited = status->shadow = false;
    status->name[0] = status->rule[0] = '\0';
    status->requests_per_unit = status->remaining = 0;
    status->unit = RATION_UNIT_UNKNOWN;
    status->reset_ns = 0;
    item->reported = find_tightest(d, item);
    if (item->reported == RN_NO_CHARGE) {
        status->remaining = item->unlimited ? UINT32_MAX : 0;
        return;
    }
    const struct ration_verdict *verdict = &g->charges[item->reported].verdict;
    bool shadow = is_shadow(d, item, item->reported);

    status->limited = true;
    status->over = !verdict->allowed && !shadow;
    status->shadow = !verdict->allowed && shadow;
    status->remaining = rn_descriptors_status_clip(verdict->remaining);
    status->reset_ns = reset_of(&g->tx, item->reported);
    const struct rn_rule_limit *limit = g->limits[item->reported];
    const struct rn_rule *rule = g->rules[g->rule_of[item->reported]].rule;

    if (item->match && limit == item->match->limit) { /* as the file says it */
        status->requests_per_unit = item->match->requests_per_unit;
        status->unit = (enum ration_unit)item->match->unit;
    } else {
        status->requests_per_unit = rn_descriptors_status_clip(limit->spec.amount);
        status->unit = rn_descriptors_given_unit(limit->spec.period_ns);
    }
    const struct rn_limit *in_force = &g->tx.items[item->reported].limit->limit;

    if (in_force->percent != 0)
        status->requests_per_unit = rn_descriptors_status_clip(in_force->amount);
    rn_slice_copy(status->rule, sizeof status->rule, rule->name);
    if (!rule->envoy)
        rn_slice_copy(status->name, sizeof status->name, rule->name);
    else if (item->match && !item->given)
        rn_slice_copy(status->name, sizeof status->name, item->match->name);
}
