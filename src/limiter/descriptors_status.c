/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is told about each descriptor.
 */
#include "limiter/descriptors.h"

uint32_t rn_status_clip(uint64_t n)
{
    return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

/* Until the window ends, also one in which nothing is spent: clients spread their
 * requests by it. */
static int64_t reset_of(const struct rn_check *k, size_t charge)
{
    const struct rn_limit *limit = &k->items[charge].limit->limit;
    const struct ration_verdict *verdict = &k->charges[charge].verdict;

    if (limit->algorithm == RATION_FIXED_WINDOW && !limit->from_first)
        return verdict->reset_after_ns > 0
                   ? verdict->reset_after_ns
                   : rn_limit_window_left(limit, k->now_ns + k->wall_offset_ns -
                                                     k->items[charge].shift_ns);
    return verdict->allowed || verdict->retry_after_ns == RATION_NEVER ? verdict->reset_after_ns
                                                                       : verdict->retry_after_ns;
}

/* As the file says it, unless something else took its place. */
static void tell_limit(struct ration_descriptor_status *status, const struct rn_descriptor *item,
                       const struct rn_rule_limit *limit)
{
    const struct rn_envoy_limit *match = item->match;

    if (match && limit == match->limit) {
        status->requests_per_unit = match->requests_per_unit;
        status->unit = (enum ration_unit)match->unit;
        return;
    }
    status->requests_per_unit = rn_status_clip(limit->spec.amount);
    status->unit = rn_given_unit(limit->spec.period_ns);
}

static void tell_names(struct ration_descriptor_status *status, const struct rn_descriptor *item,
                       const struct rn_rule *rule)
{
    rn_slice_copy(status->rule, sizeof status->rule, rule->name);
    if (item->match && !item->given)
        rn_slice_copy(status->name, sizeof status->name, item->match->name);
    else
        status->name[0] = '\0';
}

void rn_status_fill(struct ration_descriptor_status *status, const struct rn_descriptors *d,
                    size_t at)
{
    const struct rn_descriptor *item = &d->items[at];
    const struct rn_ruling *g = &d->ruling;

    status->over = status->limited = status->shadow = false;
    status->name[0] = status->rule[0] = '\0';
    status->requests_per_unit = status->remaining = 0;
    status->unit = RATION_UNIT_UNKNOWN;
    status->reset_ns = 0;
    if (item->charge == RN_NO_CHARGE) {
        status->remaining = item->match && item->match->rule ? UINT32_MAX : 0;
        return;
    }
    const struct ration_verdict *verdict = &g->charges[item->charge].verdict;
    bool shadow = g->check.items[item->charge].shadow && !rn_descriptor_is_quota(d, item);

    status->limited = true;
    status->over = !verdict->allowed && !shadow;
    status->shadow = !verdict->allowed && shadow;
    status->remaining = rn_status_clip(verdict->remaining);
    status->reset_ns = reset_of(&g->check, item->charge);
    tell_limit(status, item, g->limits[item->charge]);
    tell_names(status, item, g->rules[g->rule_of[item->charge]].rule);
}
