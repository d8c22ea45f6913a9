/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What changes the limits of a rule, against these limits: `adapt:`, `elastic:` and `earn:`. A
 * limit must be able to follow each, and rule->factors lists what they can make of it together.
 */
#include <stdio.h>

#include "rules/native/native_internal.h"

/* --- percentages ---------------------------------------------------------------------------- */

static void add_ladder(const struct rn_ramp_plan *plan, bool wanted[RN_FACTOR_MAX + 1])
{
    uint16_t ladder[RN_RAMP_LADDER_MAX];
    size_t count = rn_ramp_ladder(plan, ladder);

    for (size_t i = 0; i < count; i++)
        wanted[ladder[i]] = true;
}

/* Marks all percentages that signals can produce, with 100. */
static void add_signals(const struct rn_rule_factor *factor, bool wanted[RN_FACTOR_MAX + 1])
{
    wanted[100] = true;
    for (uint32_t i = 0; i < factor->adapt_count; i++)
        add_ladder(&factor->adapts[i].plan, wanted);
    if (factor->has_elastic)
        add_ladder(&factor->elastic.plan, wanted);
    if (factor->has_fleet)
        add_ladder(&factor->fleet.plan, wanted);
}

/* Sets rule->factors to every product of a percentage of the signals and an earned one. */
static void collect_factors(struct rn_builder *builder, struct rn_rule *rule)
{
    bool by_signals[RN_FACTOR_MAX + 1] = {false}, wanted[RN_FACTOR_MAX + 1] = {false};
    unsigned add = rule->earn != NULL ? rule->earn->add : 1;
    unsigned up_to = rule->earn != NULL ? rule->earn->up_to : 100;
    uint16_t *factors;
    uint32_t count = 0;

    add_signals(&rule->adapt, by_signals);
    for (unsigned earned = 100; earned < up_to + add; earned += add)
        for (unsigned p = 1; p <= RN_FACTOR_MAX; p++)
            if (by_signals[p])
                wanted[p * (earned < up_to ? earned : up_to) / 100] = true;
    for (size_t p = 1; p <= RN_FACTOR_MAX; p++)
        count += wanted[p];
    factors = rn_builder_alloc(builder, count, sizeof *factors);
    if (factors == NULL)
        return;
    rule->factors = factors;
    rule->factor_count = count;
    for (size_t p = 1; p <= RN_FACTOR_MAX; p++)
        if (wanted[p])
            *factors++ = (uint16_t)p;
}

/* --- against the limits --------------------------------------------------------------------- */

/* What a limit of `cap` units admits at a factor. */
static uint64_t scaled(uint64_t cap, unsigned percent)
{
    uint64_t units = cap / 100 * percent + cap % 100 * percent / 100;

    return units == 0 && cap != 0 ? 1 : units;
}

/* False after reporting: this limit cannot follow the key at `node`, one of the three. */
static bool can_follow(struct rn_builder *builder, const struct rn_node *node,
                       const struct rn_rule_limit *limit)
{
    const char *key = node->key->text.data;
    bool is_earn = rn_slice_is(node->key->text, "earn"),
         is_adapt = rn_slice_is(node->key->text, "adapt");

    if (limit->spec.calendar != RATION_CALENDAR_NONE)
        rn_report_error(builder->report, node->key->at,
                        "%s on a calendar quota shuts out clients that have spent more than the "
                        "%s amount until the period ends; use a limit such as 1000 per hour beside "
                        "the quota, in a rule of its own",
                        key, is_earn ? "written" : "lowered");
    else if (limit->limit.form == RN_FORM_ADAPTIVE)
        rn_report_error(builder->report, node->key->at,
                        "%s is not for an adaptive limit, which follows the load by itself; "
                        "leave %s out, or write a fixed number such as 20 concurrent",
                        key, key);
    else if (!is_adapt && limit->limit.form == RN_FORM_STEP)
        rn_report_error(builder->report, node->key->at,
                        "%s is not for a bucket that is refilled in steps, which keeps whole "
                        "units; write the limit without steps, or leave %s out",
                        key, key);
    else
        return true;
    return false;
}

/* Reports earn and elastic that raise a limit too far together. */
static void check_product(struct rn_builder *builder, const struct rn_node *earn,
                          const struct rn_rule *rule)
{
    const struct rn_node *up_to = rn_node_find(earn, "up_to");
    unsigned earned = rule->earn->up_to, most = 100 * RN_FACTOR_MAX;
    unsigned elastic = rule->adapt.has_elastic ? rule->adapt.elastic.plan.percent : 100;
    char advice[96];

    if (earned * elastic <= most)
        return;
    if (most / elastic > 100 && most / earned > 100)
        snprintf(advice, sizeof advice, "up_to: %u%% or less here, or %u%% or less in elastic",
                 most / elastic, most / earned);
    else if (most / earned > 100)
        snprintf(advice, sizeof advice, "up_to: %u%% or less in elastic", most / earned);
    else if (most / elastic > 100)
        snprintf(advice, sizeof advice, "up_to: %u%% or less here", most / elastic);
    else
        snprintf(advice, sizeof advice, "up_to: 200%% in both");
    rn_report_error(builder->report, up_to != NULL ? up_to->at : earn->key->at,
                    "earn up to %u%% and elastic up to %u%% raise a limit to %u%% together, but "
                    "400%% is the most; write %s",
                    earned, elastic, earned * elastic / 100, advice);
}

/* Reports a key of the rule that makes no other number of any of its limits. */
static void check_effect(struct rn_builder *builder, const struct rn_node *node,
                         const struct rn_rule *rule)
{
    bool is_earn = rn_slice_is(node->key->text, "earn"), wanted[RN_FACTOR_MAX + 1] = {false};
    const struct rn_rule_limit *limit;
    bool limited = false;

    if (is_earn)
        wanted[rule->earn->up_to] = true;
    else
        add_signals(&rule->adapt, wanted);
    RN_RULE_EACH_LIMIT(limit, rule)
    {
        limited = true;
        for (unsigned p = 1; p <= RN_FACTOR_MAX; p++)
            if (wanted[p] && scaled(limit->limit.cap, p) != limit->limit.cap)
                return;
    }
    rn_report_error(
        builder->report, node->key->at,
        limited ? "%s changes nothing: no factor makes another whole number of this limit; "
                  "write a larger limit, or leave %s out"
                : "%s changes nothing: the rule is unlimited; write a limit, or leave %s out",
        node->key->text.data, node->key->text.data);
}

void rn_native_factors_check(struct rn_builder *builder, const struct rn_node *map,
                             struct rn_rule *rule)
{
    static const char *const keys[] = {"adapt", "elastic", "earn"};
    uint32_t errors = builder->report->count[RN_ERROR], found = 0;
    const struct rn_rule_limit *limit;
    const struct rn_node *node;

    for (size_t i = 0; i < RN_COUNT(keys); i++) {
        if ((node = rn_node_find(map, keys[i])) == NULL)
            continue;
        found++;
        RN_RULE_EACH_LIMIT(limit, rule)
        if (!can_follow(builder, node, limit))
            return;
        if (i != 1 || rn_node_find(map, "adapt") == NULL)
            check_effect(builder, node, rule);
    }
    if (found == 0 || builder->report->count[RN_ERROR] != errors)
        return;
    if (rule->earn != NULL)
        check_product(builder, rn_node_find(map, "earn"), rule);
    if (builder->report->count[RN_ERROR] == errors)
        collect_factors(builder, rule);
}
