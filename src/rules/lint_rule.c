/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One rule: whether it can ever apply, whether each tier and level can, and
 * whether what it charges fits.
 */
#include <inttypes.h>
#include <stdio.h>

#include "rules/lint_own.h"
#include "rules/pattern.h"

bool rn_lint_holds(const struct rn_condition *c, struct rn_slice value)
{
    bool holds = c->test == RN_TEST_PRESENT && value.len != 0;
    struct rn_ip ip;

    if (c->test == RN_TEST_CIDR)
        holds = rn_ip_parse(value.data, value.len, &ip, NULL) == 0 &&
                rn_cidr_set_contains(c->networks, &ip);
    for (uint32_t i = 0; i < c->value_count && !holds; i++) {
        if (c->test == RN_TEST_EQUALS)
            holds = rn_slice_equal(c->values[i], value);
        else if (c->test == RN_TEST_PREFIX)
            holds = c->is_path ? rn_path_has_prefix(value, c->values[i])
                               : rn_slice_starts_with(value, c->values[i]);
        else
            holds = c->is_path ? rn_path_match(c->values[i], value)
                               : rn_pattern_match(c->values[i], value);
    }
    return holds != c->negated;
}

static struct rn_place place_of(const struct rn_linter *l, const struct rn_rule *rule,
                                const struct rn_condition *c)
{
    return rn_lint_place(l, rule->file, c->line, c->column);
}

/* Whether all conditions of the rule on an attribute hold for this value. */
static bool all_hold(const struct rn_rule *rule, uint16_t attribute, struct rn_slice value)
{
    for (uint32_t i = 0; i < rule->condition_count; i++)
        if (rule->conditions[i].attribute == attribute &&
            !rn_lint_holds(&rule->conditions[i], value))
            return false;
    return true;
}

static bool must_be_absent(const struct rn_rule *rule, uint16_t attribute)
{
    for (uint32_t i = 0; i < rule->condition_count; i++) {
        const struct rn_condition *c = &rule->conditions[i];

        if (c->attribute == attribute && c->test == RN_TEST_PRESENT && c->negated)
            return true;
    }
    return false;
}

/* --- rules that never apply -------------------------------------------------------- */

/* An empty list has been warned about already. */
static bool contradicts(const struct rn_rule *rule, const struct rn_condition *c)
{
    if (c->negated)
        return false;
    if (must_be_absent(rule, c->attribute))
        return true;
    if (c->test != RN_TEST_EQUALS || c->value_count == 0)
        return false;
    for (uint32_t i = 0; i < c->value_count; i++)
        if (all_hold(rule, c->attribute, c->values[i]))
            return false;
    return true;
}

static void lint_conditions(const struct rn_linter *l, const struct rn_rule *rule)
{
    for (uint32_t i = 0; i < rule->condition_count; i++) {
        const struct rn_condition *c = &rule->conditions[i];

        if (!contradicts(rule, c))
            continue;
        rn_report_warning(l->report, place_of(l, rule, c),
                          "no value of %s meets all its conditions, so %s never applies; relax "
                          "one of them",
                          rn_excerpt(l->ruleset->attributes[c->attribute].name).text,
                          rn_excerpt(rule->name).text);
        return;
    }
}

/* Of the text itself: not of {ID}, nor of %2F. */
static bool has_capital(struct rn_slice text)
{
    bool named = false;

    for (size_t i = 0; i < text.len; i++) {
        named = text.data[i] == '{' || (named && text.data[i] != '}');
        if (text.data[i] == '%')
            i += 2;
        else if (!named && text.data[i] >= 'A' && text.data[i] <= 'Z')
            return true;
    }
    return false;
}

/* Somebody who writes capitals has an application in mind that may not mind them. */
static void lint_letters(const struct rn_linter *l, const struct rn_rule *rule)
{
    for (uint32_t i = 0; !l->ruleset->case_given && i < rule->condition_count; i++) {
        const struct rn_condition *c = &rule->conditions[i];
        uint32_t v = 0;

        if (!rn_slice_is(l->ruleset->attributes[c->attribute].name, "path"))
            continue;
        while (v < c->value_count && !has_capital(c->values[v]))
            v++;
        if (v == c->value_count)
            continue;
        rn_report_warning(l->report, place_of(l, rule, c),
                          "%s has capitals: an application that ignores letter case serves other "
                          "spellings of it, which %s does not count; add paths: {case: ignore}, or "
                          "{case: match} if yours does not",
                          rn_excerpt(c->values[v]).text, rn_excerpt(rule->name).text);
        return;
    }
}

static void lint_key(const struct rn_linter *l, const struct rn_rule *rule)
{
    for (uint32_t i = 0; i < rule->key_count; i++) {
        const struct rn_key_part *part = &rule->key[i];
        bool absent = true;

        for (unsigned n = 0; n < part->count; n++)
            absent &= must_be_absent(rule, part->attributes[n]);
        if (absent)
            rn_report_warning(l->report, rn_lint_rule_place(l, rule),
                              "%s counts by %s, which its conditions require to be absent, so it "
                              "never applies; use another key",
                              rn_excerpt(rule->name).text,
                              rn_excerpt(l->ruleset->attributes[part->attributes[0]].name).text);
    }
}

/* --- tiers ------------------------------------------------------------------------- */

/* Whether conditions on the tier's attribute leave only tiers that there are. */
static bool is_complete(const struct rn_rule *rule)
{
    for (uint32_t i = 0; i < rule->condition_count; i++) {
        const struct rn_condition *c = &rule->conditions[i];
        bool listed =
            c->attribute == rule->tier_attribute && c->test == RN_TEST_EQUALS && !c->negated;

        for (uint32_t v = 0; listed && v < c->value_count; v++) {
            bool found = false;

            for (uint32_t t = 0; t < rule->tier_count && !found; t++)
                found = rn_slice_equal(rule->tiers[t].value, c->values[v]);
            listed = found;
        }
        if (listed)
            return true;
    }
    return false;
}

static void lint_tiers(const struct rn_linter *l, const struct rn_rule *rule)
{
    struct rn_place at = rn_lint_rule_place(l, rule);

    if (rule->tier_attribute == RN_NO_ATTRIBUTE) {
        if (rule->tiers[0].limit_count == 0)
            rn_report_warning(l->report, at, "%s is unlimited, so it does nothing; remove it",
                              rn_excerpt(rule->name).text);
        return;
    }
    for (uint32_t t = 0; t < rule->tier_count; t++)
        if (rule->tiers[t].value.len != 0 && t != rule->default_tier &&
            !all_hold(rule, rule->tier_attribute, rule->tiers[t].value))
            rn_report_warning(l->report, at,
                              "tier %s of %s is never reached: its conditions exclude it; remove "
                              "one of the two",
                              rn_excerpt(rule->tiers[t].value).text, rn_excerpt(rule->name).text);
    if (rule->default_tier == UINT32_MAX && !is_complete(rule))
        rn_report_warning(l->report, at,
                          "callers of no tier, or of one that %s does not list, are not limited; "
                          "add a default",
                          rn_excerpt(rule->name).text);
}

/* --- costs and levels -------------------------------------------------------------- */

/* What a limit admits at once; 0 if it has no such bound, or refuses on purpose. */
static uint64_t bound_of(const struct rn_rule_limit *limit)
{
    return limit->limit.algorithm == RATION_CONCURRENCY ? 0 : limit->limit.cap;
}

static void warn_of_cost(const struct rn_linter *l, const struct rn_rule *rule,
                         const struct rn_rule_limit *limit)
{
    uint64_t bound = bound_of(limit);
    struct rn_place at = rn_lint_rule_place(l, rule);
    char text[128];

    ration_limit_write(&limit->spec, text, sizeof text);
    if (bound < rule->cost.fixed)
        rn_report_warning(l->report, at,
                          "%s: %s of %" PRIu64 " never fits \"%s\", which admits %" PRIu64
                          " at once; write a smaller cost or a larger limit",
                          rn_excerpt(rule->name).text,
                          rule->cost.attribute == RN_NO_ATTRIBUTE ? "a cost" : "a default cost",
                          rule->cost.fixed, text, bound);
    else if (bound < rule->cost.max)
        rn_report_warning(l->report, at,
                          "%s: costs above %" PRIu64 " never fit \"%s\", and up to %" PRIu64
                          " are let count; write a smaller max or a larger limit",
                          rn_excerpt(rule->name).text, bound, text, rule->cost.max);
}

/* A level must leave its share after the least a request can cost. */
static void warn_of_levels(const struct rn_linter *l, const struct rn_rule *rule,
                           const struct rn_rule_limit *limit)
{
    uint64_t bound = bound_of(limit);
    bool fixed = rule->cost.attribute == RN_NO_ATTRIBUTE && rule->cost.fixed != 0;
    uint64_t cost = fixed ? rule->cost.fixed : 1;
    char text[128];

    ration_limit_write(&limit->spec, text, sizeof text);
    for (uint32_t i = 0; i < rule->priority.level_count; i++) {
        const struct rn_level *level = &rule->priority.levels[i];

        if (cost <= bound && (bound - cost) * 100 < bound * level->keep_percent)
            rn_report_warning(l->report, rn_lint_rule_place(l, rule),
                              "%s: level %s is never admitted by \"%s\", since %u%% must be left; "
                              "write a smaller share or a larger limit",
                              rn_excerpt(rule->name).text, rn_excerpt(level->name).text, text,
                              level->keep_percent);
    }
}

static void lint_amounts(const struct rn_linter *l, const struct rn_rule *rule)
{
    for (uint32_t t = 0; t < rule->tier_count; t++) {
        for (uint32_t i = 0; i < rule->tiers[t].limit_count; i++) {
            const struct rn_rule_limit *limit = rule->tiers[t].limits[i];

            if (bound_of(limit) == 0)
                continue;
            warn_of_cost(l, rule, limit);
            warn_of_levels(l, rule, limit);
        }
    }
}

void rn_lint_rule(const struct rn_linter *l, const struct rn_rule *rule)
{
    lint_conditions(l, rule);
    lint_letters(l, rule);
    lint_key(l, rule);
    lint_tiers(l, rule);
    lint_amounts(l, rule);
}
