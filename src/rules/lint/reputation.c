/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks escalate, earn and usage of one rule: a ban must hit the client that deserves it, and
 * each setting must be able to take effect.
 */
#include <string.h>

#include "base/number.h"
#include "rules/lint/lint_internal.h"

#define DAY_NS (INT64_C(24) * 3600 * 1000000000)
#define LONG_WAY_DAYS 730 /* to everything that can be earned */

/* --- bans of other clients -------------------------------------------------------------- */

/* Whether callers choose the value of an attribute. One that the application gives was checked
 * there, and addresses are hard to forge. */
static bool is_callers(const struct rn_attribute *attribute)
{
    static const char *const parts[] = {"path", "host", "method"};

    return attribute->source == RN_SOURCE_HEADER || attribute->source == RN_SOURCE_PATH ||
           rn_slice_starts_with(attribute->name, RN_SLICE("header.")) ||
           rn_slice_find(attribute->name, parts, RN_COUNT(parts)) < RN_COUNT(parts);
}

/* Whether a part of a key is always an address that callers do not choose. */
static bool is_address(const struct rn_linter *l, const struct rn_key_part *part)
{
    for (unsigned n = 0; n < part->count; n++) {
        const struct rn_attribute *attribute = &l->ruleset->attributes[part->attributes[n]];

        if (!attribute->is_ip || is_callers(attribute))
            return false;
    }
    return true;
}

/* Whether a rule is about logins: there no name of a client has been proved yet. */
static bool is_before_login(const struct rn_linter *l, const struct rn_rule *rule)
{
    static const char *const words[] = {"login", "logon", "signin", "sign-in", "password"};

    for (uint32_t a = 0; a < rule->alternative_count; a++)
        for (uint32_t i = 0; i < rule->alternatives[a].condition_count; i++) {
            const struct rn_condition *c = &rule->alternatives[a].conditions[i];

            if (c->negated || !rn_slice_is(l->ruleset->attributes[c->attribute].name, "path"))
                continue;
            for (uint32_t v = 0; v < c->value_count; v++)
                for (size_t w = 0; w < RN_COUNT(words); w++)
                    if (strcasestr(c->values[v].data, words[w]) != NULL) /* a NUL follows */
                        return true;
        }
    return false;
}

static void lint_framing(const struct rn_linter *l, const struct rn_rule *rule)
{
    bool before_login = is_before_login(l, rule);
    const struct rn_attribute *chosen = NULL;

    for (uint32_t i = 0; i < rule->key_count; i++) {
        const struct rn_key_part *part = &rule->key[i];

        if (is_address(l, part))
            return;
        for (unsigned n = 0; n < part->count && chosen == NULL; n++) {
            const struct rn_attribute *attribute = &l->ruleset->attributes[part->attributes[n]];

            if (is_callers(attribute) || (before_login && !attribute->is_ip))
                chosen = attribute;
        }
    }
    if (chosen != NULL)
        rn_report_warning(l->report, rn_lint_rule_place(l, rule),
                          "%s bans by %s, which %s: an attacker that sends the value of another "
                          "client gets that client banned; add ip to the key, as in key: [ip, "
                          "%.*s]",
                          rn_excerpt(rule->name).text, rn_excerpt(chosen->name).text,
                          is_callers(chosen) ? "callers choose" : "a login has not proved yet",
                          (int)(chosen->name.len < 64 ? chosen->name.len : 64), chosen->name.data);
}

/* --- without effect ---------------------------------------------------------------------- */

static void lint_escalate(const struct rn_linter *l, const struct rn_rule *rule)
{
    const struct rn_escalate_plan *plan = rule->escalate;
    int64_t longest_ns = plan->ban_ns[RN_LEVELS - 1];
    struct rn_place at = rn_lint_rule_place(l, rule);
    struct rn_excerpt name = rn_excerpt(rule->name);
    char text[RN_DURATION_TEXT];
    uint32_t limits = 0;

    for (uint32_t t = 0; t < rule->tier_count; t++)
        limits += rule->tiers[t].limit_count;
    if (limits == 0)
        rn_report_warning(l->report, at,
                          "%s is unlimited, so it refuses nothing and bans nobody; add a limit, or "
                          "leave escalate out",
                          name.text);
    else if (rule->shadow)
        rn_report_warning(l->report, at,
                          "%s has mode: shadow, which refuses nothing, so it bans nobody; leave "
                          "escalate out until the limit is enforced",
                          name.text);
    rn_number_write_duration(longest_ns / 1000000000 * 1000000000, text, sizeof text);
    if (rule->ban_grow_percent > 100 && longest_ns < rule->ban_up_to_ns)
        rn_report_warning(l->report, at,
                          "bans of %s grow %d times and stop at %s, before up_to; write a larger "
                          "grow, or a longer ban",
                          name.text, RN_LEVELS - 2, text);
    if (plan->forget_ns < plan->within_ns)
        rn_report_warning(l->report, at,
                          "%s forgets a ban before the refusals for the next one are counted; "
                          "write a forget that is longer than the time in after",
                          name.text);
}

static void lint_earn(const struct rn_linter *l, const struct rn_rule *rule)
{
    const struct rn_earn_plan *plan = rule->earn;
    int64_t steps = (plan->up_to - 100 + plan->add - 1) / plan->add;
    int64_t days = steps * (plan->every_ns / 1000000000) / (DAY_NS / 1000000000);
    unsigned first = 100 + plan->add < plan->up_to ? 100u + plan->add : plan->up_to;
    struct rn_place at = rn_lint_rule_place(l, rule);
    const struct rn_rule_limit *limit;
    bool changes = false;

    RN_RULE_EACH_LIMIT(limit, rule)
    changes |=
        limit->limit.cap / 100 * first + limit->limit.cap % 100 * first / 100 != limit->limit.cap;
    if (rule->shadow)
        rn_report_warning(l->report, at,
                          "%s has mode: shadow, in which nobody earns anything; leave earn out "
                          "until the limit is enforced",
                          rn_excerpt(rule->name).text);
    if (!changes)
        rn_report_warning(l->report, at,
                          "the first step that %s lets clients earn adds no whole unit to any of "
                          "its limits; write a larger add, or larger limits",
                          rn_excerpt(rule->name).text);
    if (days > LONG_WAY_DAYS)
        rn_report_warning(l->report, at,
                          "clients of %s need %lld days to earn all of up_to; write a larger add, "
                          "or a shorter every",
                          rn_excerpt(rule->name).text, (long long)days);
}

/* A state file may still be given by a flag; `none` is none. */
static void lint_usage(const struct rn_linter *l, const struct rn_rule *rule)
{
    for (uint32_t i = 0; i < l->ruleset->setting_count; i++)
        if (rn_slice_is(l->ruleset->settings[i].name, "state") &&
            rn_slice_is(l->ruleset->settings[i].value, "none"))
            rn_report_warning(l->report, rn_lint_rule_place(l, rule),
                              "%s has usage, but server has state: none, and usage is kept in a "
                              "file beside the state file; name a file there",
                              rn_excerpt(rule->name).text);
}

void rn_lint_reputation(const struct rn_linter *l, const struct rn_rule *rule)
{
    if (rule->escalate != NULL) {
        lint_framing(l, rule);
        lint_escalate(l, rule);
    }
    if (rule->earn != NULL)
        lint_earn(l, rule);
    if (rule->usage != NULL)
        lint_usage(l, rule);
}
