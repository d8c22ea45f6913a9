/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One native rule: whether it applies, why, and what it would charge.
 */
#include <inttypes.h>

#include "cli/explain/explain.h"

void rn_cli_explain_rule(struct rn_cli_explain *e, const struct rn_rule *rule, uint32_t *at,
                         struct rn_cli_explain_match *found)
{
    const struct rn_options *o = e->offline->options;

    found->rule = rule;
    found->reason = rn_match_explain(e->offline->ruleset, rule, &e->values, &found->match);
    found->applies = found->reason.why == RN_WHY_APPLIES || found->reason.why == RN_WHY_UNLIMITED;
    found->first_limit = *at;
    if (!found->applies)
        return;
    if (found->match.cost == 0)
        found->match.cost = o->cost == 0 ? 1 : o->cost;
    *at += found->match.tier->limit_count;
}

const struct ration_verdict *rn_cli_explain_left(const struct rn_cli_explain *e, uint32_t limit)
{
    const struct ration_outcome *o = &e->outcome;

    if (o->kind != RATION_BY_LIMITS || limit >= o->listed ||
        (o->limit_count > o->listed && limit == o->listed - 1))
        return NULL;
    return &o->limits[limit].verdict;
}

/* --- why not ----------------------------------------------------------------------- */

static struct rn_slice name_of(const struct rn_cli_explain *e, uint16_t attribute)
{
    return e->offline->ruleset->attributes[attribute].name;
}

static void put_label(const struct rn_output *out, const char *label)
{
    rn_output_put(out, RN_DIM, "    %-8s", label);
}

void rn_cli_explain_put_finding(const struct rn_output *out, const struct rn_finding *f)
{
    struct rn_buf words = {0};

    rn_reason_write_finding(&words, f);
    rn_output_put(out, RN_PLAIN, "    ");
    rn_output_put(out, f->holds ? RN_GOOD : RN_BAD, f->holds ? "+ " : "- ");
    rn_output_put(out, RN_PLAIN, "%.*s\n", (int)words.len, words.data);
    rn_buf_done(&words);
}

/* The alternative that matches; or why each of them does not. */
static void put_alternatives(const struct rn_output *out, const struct rn_cli_explain *e,
                             const struct rn_cli_explain_match *found)
{
    const struct rn_rule *rule = found->rule;
    bool none = found->reason.why == RN_WHY_CONDITION;

    for (uint32_t i = 0; i < rule->alternative_count; i++) {
        if (!none && i != found->reason.alternative)
            continue;
        if (rule->alternative_count > 1)
            rn_output_put(out, RN_DIM, "    alternative %" PRIu32 " of %" PRIu32 "\n", i + 1,
                          rule->alternative_count);
        for (uint32_t k = 0; k < rule->alternatives[i].condition_count; k++) {
            struct rn_finding finding = rn_reason_find(
                e->offline->ruleset, &rule->alternatives[i].conditions[k], &e->values);

            if (found->applies || !finding.holds)
                rn_cli_explain_put_finding(out, &finding);
        }
    }
}

static void put_reason(const struct rn_output *out, const struct rn_cli_explain *e,
                       const struct rn_cli_explain_match *found)
{
    struct rn_buf words = {0};

    rn_reason_write(&words, e->offline->ruleset, found->rule, &e->values, found->reason);
    rn_output_put(out, RN_BAD, "    - ");
    rn_output_put(out, RN_PLAIN, "%.*s\n", (int)words.len, words.data);
    rn_buf_done(&words);
}

/* --- what is charged --------------------------------------------------------------- */

static void put_key(const struct rn_output *out, const struct rn_cli_explain *e,
                    const struct rn_cli_explain_match *found)
{
    put_label(out, "key");
    if (found->rule->key_count == 0)
        rn_output_put(out, RN_PLAIN, "none: one counter for all");
    for (uint32_t i = 0; i < found->rule->key_count; i++) {
        const struct rn_key_part *part = &found->rule->key[i];
        unsigned n = 0;

        while (n + 1 < part->count && e->values.value[part->attributes[n]].len == 0)
            n++;
        struct rn_slice name = name_of(e, part->attributes[n]);
        rn_output_put(out, RN_PLAIN, "%s%.*s ", i == 0 ? "" : ", ", (int)name.len, name.data);
        rn_output_quoted(out, found->match.key[i]);
    }
    rn_output_put(out, RN_PLAIN, "\n");
}

static void put_tier(const struct rn_output *out, const struct rn_cli_explain *e,
                     const struct rn_cli_explain_match *found)
{
    const struct rn_rule *rule = found->rule;

    if (rule->tier_attribute == RN_NO_ATTRIBUTE)
        return;
    struct rn_slice name = name_of(e, rule->tier_attribute);
    struct rn_slice value = e->values.value[rule->tier_attribute];
    put_label(out, "tier");
    if (found->match.tier->value.len == 0)
        rn_output_put(out, RN_PLAIN, "default");
    else
        rn_output_escaped(out, found->match.tier->value);
    if (value.len == 0)
        rn_output_put(out, RN_PLAIN, ", the default: %.*s is absent\n", (int)name.len, name.data);
    else
        rn_output_put(out, RN_PLAIN, "%s by %.*s\n",
                      rn_slice_equal(value, found->match.tier->value) ? "," : ", the default,",
                      (int)name.len, name.data);
}

static void put_limits(const struct rn_output *out, const struct rn_cli_explain *e,
                       const struct rn_cli_explain_match *found)
{
    const struct rn_tier *tier = found->match.tier;
    char text[RN_LIMIT_TEXT];

    if (found->reason.why == RN_WHY_UNLIMITED) {
        put_label(out, "limit");
        rn_output_put(out, RN_PLAIN, "unlimited\n");
        return;
    }
    for (uint32_t i = 0; i < tier->limit_count; i++) {
        const struct ration_verdict *left = rn_cli_explain_left(e, found->first_limit + i);

        put_label(out, "limit");
        rn_output_put(out, RN_PLAIN, "%s", rn_cli_decision_limit(tier->limits[i], text));
        if (left != NULL) {
            rn_output_put(out, RN_PLAIN, "; ");
            rn_output_put(out, left->allowed ? RN_PLAIN : RN_BAD, "%" PRIu64 " of %" PRIu64 " left",
                          left->remaining, left->limit);
        }
        rn_output_put(out, RN_PLAIN, "\n");
    }
}

static void put_throttle(const struct rn_output *out, const struct rn_throttle *throttle)
{
    char text[RN_TIME_TEXT];

    if (!throttle->on)
        return;
    put_label(out, "throttle");
    if (throttle->from_units != 0)
        rn_output_put(out, RN_PLAIN, " from %" PRIu64 " requests on", throttle->from_units);
    else
        rn_output_put(out, RN_PLAIN, " from %u%% on", throttle->from_percent);
    if (throttle->max_ns != 0)
        rn_output_put(out, RN_PLAIN, ", up to %s\n", rn_output_time(throttle->max_ns, text));
    else
        rn_output_put(out, RN_PLAIN, ", at the rate of the limit\n");
}

static void put_manner(const struct rn_output *out, const struct rn_cli_explain *e,
                       const struct rn_cli_explain_match *found)
{
    const struct rn_rule *rule = found->rule;
    char statuses[RN_STATUSES_TEXT];

    put_label(out, "cost");
    rn_output_put(out, RN_PLAIN, "%" PRIu64 "\n", found->match.cost);
    if (rule->by_outcome) {
        rn_statuses_write(&rule->charge_on, statuses);
        put_label(out, "charged");
        rn_output_put(out, RN_PLAIN, "when the answer is known, if its status is %s\n", statuses);
    }
    if (found->match.keep_percent != 0) {
        put_label(out, "leaves");
        rn_output_put(out, RN_PLAIN, "%u%% of the limit, to requests of higher priority\n",
                      found->match.keep_percent);
    }
    if (rule->soft_percent != 0) {
        put_label(out, "soft");
        rn_output_put(out, RN_PLAIN, "%u%% more is admitted and marked\n", rule->soft_percent);
    }
    put_throttle(out, &rule->throttle);
    if (rule->shadow || e->offline->ruleset->shadow) {
        put_label(out, "mode");
        rn_output_put(out, RN_ODD, "shadow: counted, never refused\n");
    }
}

void rn_cli_explain_put_rule(const struct rn_output *out, const struct rn_cli_explain *e,
                             const struct rn_cli_explain_match *found)
{
    const struct rn_rule *rule = found->rule;

    rn_output_put(out, RN_BOLD, "%.*s ", (int)rule->name.len, rule->name.data);
    rn_output_put(out, found->applies ? RN_GOOD : RN_DIM,
                  found->applies ? "applies" : "does not apply");
    rn_output_put(out, RN_PLAIN, "  ");
    rn_output_place(out, rule->file, rule->line);
    rn_output_put(out, RN_PLAIN, "\n");
    put_alternatives(out, e, found);
    if (found->reason.why == RN_WHY_NO_KEY || found->reason.why == RN_WHY_NO_TIER)
        put_reason(out, e, found);
    if (!found->applies)
        return;
    put_key(out, e, found);
    put_tier(out, e, found);
    put_limits(out, e, found);
    if (found->reason.why != RN_WHY_UNLIMITED)
        put_manner(out, e, found);
}
