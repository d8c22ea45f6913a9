/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks one rule: each alternative, tier and level must be able to apply, its cost must fit,
 * requests must be able to wait as it says, and clients must not choose their address.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/number.h"
#include "rules/lint/lint_internal.h"
#include "rules/match/condition.h"

#define COMPARED 1000 /* alternatives of a rule: comparing takes n^2 */

bool rn_lint_holds(const struct rn_condition *c, struct rn_slice value)
{
    bool holds = c->test == RN_TEST_PRESENT && value.len != 0;
    struct rn_ip ip;

    if (c->test == RN_TEST_CIDR)
        holds = rn_ip_parse(value.data, value.len, &ip, NULL) == 0 &&
                rn_cidr_set_contains(c->networks, &ip);
    for (uint32_t i = 0; i < c->value_count && !holds; i++)
        holds = rn_condition_accepts(c, c->values[i], value);
    return holds != c->negated;
}

static struct rn_place place_of(const struct rn_linter *l, const struct rn_rule *rule,
                                const struct rn_condition *c)
{
    return rn_lint_place(l, rule->file, c->line, c->column);
}

/* Whether all conditions on an attribute hold for this value. */
static bool all_hold(const struct rn_alternative *a, uint16_t attribute, struct rn_slice value)
{
    for (uint32_t i = 0; i < a->condition_count; i++)
        if (a->conditions[i].attribute == attribute && !rn_lint_holds(&a->conditions[i], value))
            return false;
    return true;
}

static bool must_be_absent(const struct rn_alternative *a, uint16_t attribute)
{
    for (uint32_t i = 0; i < a->condition_count; i++) {
        const struct rn_condition *c = &a->conditions[i];

        if (c->attribute == attribute && c->test == RN_TEST_PRESENT && c->negated)
            return true;
    }
    return false;
}

/* --- alternatives that never apply ------------------------------------------------- */

/* Words for a warning: about the whole rule, or one of several alternatives. */
static const char *whole_or_part(const struct rn_rule *rule)
{
    return rule->alternative_count > 1 ? "this alternative of " : "";
}

/* Warns of a condition that no value can meet together with the others. */
static void lint_conditions(const struct rn_linter *l, const struct rn_rule *rule,
                            const struct rn_alternative *a)
{
    for (uint32_t i = 0; i < a->condition_count; i++) {
        const struct rn_condition *c = &a->conditions[i];
        bool possible = !must_be_absent(a, c->attribute);

        if (c->negated || (c->test == RN_TEST_EQUALS && c->value_count == 0))
            continue; /* an empty list has its own warning */
        for (uint32_t n = 0; n < a->condition_count && possible; n++) {
            struct rn_condition opposite = a->conditions[n];

            opposite.negated = !opposite.negated;
            possible = !rn_condition_implies(c, &opposite);
        }
        if (possible && c->test == RN_TEST_EQUALS) {
            uint32_t v = 0;

            while (v < c->value_count && !all_hold(a, c->attribute, c->values[v]))
                v++;
            possible = v < c->value_count;
        }
        if (possible)
            continue;
        rn_report_warning(l->report, place_of(l, rule, c),
                          "no value of %s meets all its conditions, so %s%s never applies; relax "
                          "one of them",
                          rn_excerpt(l->ruleset->attributes[c->attribute].name).text,
                          whole_or_part(rule), rn_excerpt(rule->name).text);
        return;
    }
}

/* Warns of alternatives that add nothing to another; of two equal ones, the later. */
static void lint_alternatives(const struct rn_linter *l, const struct rn_rule *rule)
{
    uint32_t count = rule->alternative_count < COMPARED ? rule->alternative_count : COMPARED;
    const struct rn_alternative *all = rule->alternatives;

    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t n = 0; n < count; n++) {
            if (n == i || !rn_condition_implies_all(&all[i], &all[n]) ||
                (n > i && rn_condition_implies_all(&all[n], &all[i])))
                continue;
            rn_report_warning(l->report, rn_lint_place(l, rule->file, all[i].line, all[i].column),
                              "where this alternative of %s holds, number %" PRIu32
                              " does, too; remove it",
                              rn_excerpt(rule->name).text, n + 1);
            break;
        }
    }
}

/* Warns of a path with a capital letter outside {ID} and %2F: the application may ignore case. */
static void lint_letters(const struct rn_linter *l, const struct rn_rule *rule,
                         const struct rn_alternative *a)
{
    for (uint32_t i = 0; !l->ruleset->case_given && i < a->condition_count; i++) {
        const struct rn_condition *c = &a->conditions[i];

        if (!rn_slice_is(l->ruleset->attributes[c->attribute].name, "path"))
            continue;
        for (uint32_t v = 0; v < c->value_count; v++) {
            struct rn_slice text = c->values[v];
            bool capital = false, named = false;

            for (size_t at = 0; at < text.len && !capital; at++) {
                named = text.data[at] == '{' || (named && text.data[at] != '}');
                capital = !named && text.data[at] >= 'A' && text.data[at] <= 'Z';
                at += text.data[at] == '%' ? 2 : 0;
            }
            if (!capital)
                continue;
            rn_report_warning(l->report, place_of(l, rule, c),
                              "%s has capitals: an application that ignores letter case serves "
                              "other spellings of it, which %s does not count; add paths: {case: "
                              "ignore}, or {case: match} if yours does not",
                              rn_excerpt(text).text, rn_excerpt(rule->name).text);
            return;
        }
    }
}

static void lint_key(const struct rn_linter *l, const struct rn_rule *rule,
                     const struct rn_alternative *a)
{
    struct rn_place at = rule->alternative_count > 1
                             ? rn_lint_place(l, rule->file, a->line, a->column)
                             : rn_lint_rule_place(l, rule);

    for (uint32_t i = 0; i < rule->key_count; i++) {
        const struct rn_key_part *part = &rule->key[i];
        bool absent = true;

        for (unsigned n = 0; n < part->count; n++)
            absent &= must_be_absent(a, part->attributes[n]);
        if (absent)
            rn_report_warning(l->report, at,
                              "%s%s counts by %s, which its conditions require to be absent, so it "
                              "never applies; use another key",
                              whole_or_part(rule), rn_excerpt(rule->name).text,
                              rn_excerpt(l->ruleset->attributes[part->attributes[0]].name).text);
    }
}

/* Headers in which proxies tell the address of a client, and clients what they like. */
static bool is_forwarding_header(const struct rn_attribute *a)
{
    static const char *const names[] = {"forwarded",      "x-forwarded-for", "x-real-ip",
                                        "true-client-ip", "x-client-ip",     "cf-connecting-ip"};
    struct rn_slice name = a->source == RN_SOURCE_HEADER ? a->header : a->name;
    const struct rn_slice prefix = RN_SLICE("header.");

    if (a->source != RN_SOURCE_HEADER) {
        if (!rn_slice_starts_with(name, prefix))
            return false;
        name = (struct rn_slice){name.data + prefix.len, name.len - prefix.len};
    }
    return rn_slice_find(name, names, RN_COUNT(names)) < RN_COUNT(names);
}

/* Attributes that are addresses are warned of where they are defined. */
static void lint_forwarded(const struct rn_linter *l, const struct rn_rule *rule)
{
    for (uint32_t i = 0; i < rule->key_count; i++)
        for (unsigned n = 0; n < rule->key[i].count; n++) {
            const struct rn_attribute *a = &l->ruleset->attributes[rule->key[i].attributes[n]];

            if (!a->is_ip && is_forwarding_header(a))
                rn_report_warning(l->report, rn_lint_rule_place(l, rule),
                                  "%s counts by %s, which a client can send with another value "
                                  "each time, and so is never refused; write key: ip, and name "
                                  "your proxies in trusted_proxies",
                                  rn_excerpt(rule->name).text, rn_excerpt(a->name).text);
        }
}

/* --- tiers ------------------------------------------------------------------------- */

/* Whether conditions on the tier's attribute allow only values that have a tier. */
static bool is_complete(const struct rn_rule *rule, const struct rn_alternative *a)
{
    for (uint32_t i = 0; i < a->condition_count; i++) {
        const struct rn_condition *c = &a->conditions[i];
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

/* Whether an alternative allows the values that a row names. */
static bool allows_row(const struct rn_rule *rule, const struct rn_alternative *a,
                       const struct rn_tier *row)
{
    return (row->first.len == 0 || all_hold(a, rule->tier_attribute, row->first)) &&
           (row->second.len == 0 || all_hold(a, rule->tier_second, row->second));
}

/* Whether a row names this first value, and any second one if `rest` is set. */
static bool has_row(const struct rn_rule *rule, uint32_t count, struct rn_slice first, bool rest)
{
    for (uint32_t t = 0; t < count; t++)
        if (rn_slice_equal(rule->tiers[t].first, first) &&
            (!rest || (rule->tiers[t].value.len != 0 && rule->tiers[t].second.len == 0)))
            return true;
    return false;
}

/* Tiers by two attributes. */
static void lint_rows(const struct rn_linter *l, const struct rn_rule *rule)
{
    struct rn_place at = rn_lint_rule_place(l, rule);
    struct rn_slice second = l->ruleset->attributes[rule->tier_second].name;

    for (uint32_t t = 0; t < rule->tier_count; t++) {
        const struct rn_tier *row = &rule->tiers[t];
        bool reached = row->value.len == 0 || t == rule->default_tier;

        for (uint32_t a = 0; a < rule->alternative_count && !reached; a++)
            reached = allows_row(rule, &rule->alternatives[a], row);
        if (!reached)
            rn_report_warning(l->report, at,
                              "row %s of %s is never reached: its conditions exclude it; remove "
                              "one of the two",
                              rn_excerpt(row->value).text, rn_excerpt(rule->name).text);
        if (row->first.len != 0 && row->second.len != 0 && !has_row(rule, t, row->first, false) &&
            !has_row(rule, rule->tier_count, row->first, true))
            rn_report_warning(l->report, at,
                              "%s has rows for %s with some values of %.*s, and none for the "
                              "others%s; add a row \"%.*s, *\"",
                              rn_excerpt(rule->name).text, rn_excerpt(row->first).text,
                              (int)second.len, second.data,
                              rule->default_tier == UINT32_MAX ? "" : ", which get the default",
                              (int)row->first.len, row->first.data);
    }
    if (rule->default_tier == UINT32_MAX)
        rn_report_warning(l->report, at,
                          "callers that fit no row of %s are not limited; add a "
                          "default",
                          rn_excerpt(rule->name).text);
}

static void lint_tiers(const struct rn_linter *l, const struct rn_rule *rule)
{
    struct rn_place at = rn_lint_rule_place(l, rule);
    bool complete = true;

    if (rule->tier_second != RN_NO_ATTRIBUTE) {
        lint_rows(l, rule);
        return;
    }

    if (rule->tier_attribute == RN_NO_ATTRIBUTE) {
        if (rule->tiers[0].limit_count == 0 && rule->usage == NULL)
            rn_report_warning(l->report, at, "%s is unlimited, so it does nothing; remove it",
                              rn_excerpt(rule->name).text);
        return;
    }
    for (uint32_t t = 0; t < rule->tier_count; t++) {
        struct rn_slice value = rule->tiers[t].value;
        bool reached = value.len == 0 || t == rule->default_tier;

        for (uint32_t a = 0; a < rule->alternative_count && !reached; a++)
            reached = all_hold(&rule->alternatives[a], rule->tier_attribute, value);
        if (!reached)
            rn_report_warning(l->report, at,
                              "tier %s of %s is never reached: its conditions exclude it; remove "
                              "one of the two",
                              rn_excerpt(value).text, rn_excerpt(rule->name).text);
    }
    for (uint32_t a = 0; a < rule->alternative_count; a++)
        complete &= is_complete(rule, &rule->alternatives[a]);
    if (rule->default_tier == UINT32_MAX && !complete)
        rn_report_warning(l->report, at,
                          "callers of no tier, or of one that %s does not list, are not limited; "
                          "add a default",
                          rn_excerpt(rule->name).text);
}

/* --- costs and levels -------------------------------------------------------------- */

/* The most a limit admits at once; 0: it has no bound, or refuses on purpose. */
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
                          " are allowed; write a smaller max or a larger limit",
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

/* --- waiting ----------------------------------------------------------------------- */

#define HELD_MAX_NS INT64_C(60000000000) /* by rationd */

static void lint_waiting(const struct rn_linter *l, const struct rn_rule *rule)
{
    char text[RN_DURATION_TEXT];

    if (rule->line_size != 0 && rule->shadow)
        rn_report_warning(l->report, rn_lint_rule_place(l, rule),
                          "%s has mode: shadow, which refuses nothing, so nobody waits in line; "
                          "leave out queue and wait until the limit is enforced",
                          rn_excerpt(rule->name).text);
    rn_number_write_duration(rule->max_wait_ns, text, sizeof text);
    if (rule->hold && rule->max_wait_ns > HELD_MAX_NS)
        rn_report_warning(l->report, rn_lint_rule_place(l, rule),
                          "%s lets requests wait %s, but rationd holds an answer for 60s at most; "
                          "write a max_wait of 60s or less if rationd decides",
                          rn_excerpt(rule->name).text, text);
}

static void (*const checks_of_alternatives[])(const struct rn_linter *l, const struct rn_rule *rule,
                                              const struct rn_alternative *a) = {
    lint_conditions, lint_letters, lint_key};

void rn_lint_rule(const struct rn_linter *l, const struct rn_rule *rule)
{
    const struct rn_rule_limit *limit;

    for (uint32_t a = 0; a < rule->alternative_count; a++)
        for (size_t i = 0; i < RN_COUNT(checks_of_alternatives); i++)
            checks_of_alternatives[i](l, rule, &rule->alternatives[a]);
    lint_alternatives(l, rule);
    lint_forwarded(l, rule);
    lint_tiers(l, rule);
    lint_waiting(l, rule);
    RN_RULE_EACH_LIMIT(limit, rule)
    {
        if (bound_of(limit) == 0)
            continue;
        warn_of_cost(l, rule, limit);
        warn_of_levels(l, rule, limit);
    }
}
