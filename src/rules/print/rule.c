/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints one rule as native YAML, without defaults.
 */
#include <inttypes.h>

#include "base/number.h"
#include "core/algorithm.h"
#include "rules/print/print_internal.h"

static void print_duration(struct rn_printer *p, const char *key, int64_t ns)
{
    char text[RN_DURATION_TEXT];

    if (ns == 0)
        return;
    rn_number_write_duration(ns, text, sizeof text);
    rn_print(p, "    %s: %s\n", key, text);
}

static void print_when(struct rn_printer *p, const struct rn_rule *rule)
{
    bool several = rule->alternative_count > 1;

    if (!several && rule->alternatives[0].condition_count == 0)
        return;
    rn_print(p, several ? "    when: [" : "    when: ");
    for (uint32_t i = 0; i < rule->alternative_count; i++) {
        rn_print(p, i == 0 ? "" : ", ");
        rn_print_conditions(p, rule->alternatives[i].conditions,
                            rule->alternatives[i].condition_count);
    }
    rn_print(p, several ? "]\n" : "\n");
}

static void print_key(struct rn_printer *p, const struct rn_rule *rule)
{
    if (rule->key_count == 0)
        return;
    rn_print(p, "    key: [");
    for (uint32_t i = 0; i < rule->key_count; i++) {
        const struct rn_key_part *part = &rule->key[i];
        bool cut = part->ipv4_prefix != 32 || part->ipv6_prefix != 64;

        rn_print(p, "%s%s", i == 0 ? "" : ", ", cut ? "{" : "\"");
        for (unsigned n = 0; n < part->count; n++) {
            struct rn_slice name = p->ruleset->attributes[part->attributes[n]].name;

            rn_print(p, "%s%.*s", n == 0 ? "" : " or ", (int)name.len, name.data);
        }
        if (cut)
            rn_print(p, ": {ipv4: %u, ipv6: %u}}", part->ipv4_prefix, part->ipv6_prefix);
        else
            rn_print(p, "\"");
    }
    rn_print(p, "]\n");
}

static void print_tier(struct rn_printer *p, const struct rn_tier *tier)
{
    char text[128];

    rn_print(p, tier->limit_count == 0 ? "unlimited" : "[");
    for (uint32_t i = 0; i < tier->limit_count; i++) {
        ration_limit_write(&tier->limits[i]->spec, text, sizeof text);
        rn_print(p, "%s%s", i == 0 ? "" : ", ", text);
    }
    rn_print(p, tier->limit_count == 0 ? "" : "]");
}

static void print_limit(struct rn_printer *p, const struct rn_rule *rule)
{
    rn_print(p, "    limit: ");
    if (rule->tier_attribute == RN_NO_ATTRIBUTE) {
        print_tier(p, &rule->tiers[0]);
        rn_print(p, "\n");
        return;
    }
    bool two = rule->tier_second != RN_NO_ATTRIBUTE;

    rn_print(p, two ? "{by: [" : "{by: ");
    rn_print_attribute(p, rule->tier_attribute);
    if (two) {
        rn_print(p, ", ");
        rn_print_attribute(p, rule->tier_second);
        rn_print(p, "]");
    }
    for (uint32_t i = 0; i < rule->tier_count; i++) {
        rn_print(p, ", ");
        if (rule->tiers[i].value.len == 0)
            rn_print(p, "default");
        else
            rn_print_quoted(p, rule->tiers[i].value);
        rn_print(p, ": ");
        if (rule->tiers[i].value.len == 0 && rule->tiers[i].limit_count == 0)
            rn_print(p, "[unlimited]"); /* without brackets it could be the name of a tier */
        else
            print_tier(p, &rule->tiers[i]);
    }
    if (rule->default_tier < rule->tier_count && rule->tiers[rule->default_tier].value.len != 0) {
        rn_print(p, ", default: ");
        rn_print_quoted(p, rule->tiers[rule->default_tier].value);
    }
    rn_print(p, "}\n");
}

/* Settings that are not part of a limit's text; all limits of a rule share them. */
static void print_refinements(struct rn_printer *p, const struct rn_rule *rule)
{
    const struct ration_limit *windows = NULL, *places = NULL;
    const struct rn_rule_limit *limit;

    RN_RULE_EACH_LIMIT(limit, rule)
    {
        const struct ration_limit *spec = &limit->spec;

        if (spec->algorithm == RATION_CONCURRENCY)
            places = spec;
        else if (spec->algorithm != RATION_TOKEN_BUCKET && spec->algorithm != RATION_LEAKY_BUCKET &&
                 spec->calendar == RATION_CALENDAR_NONE)
            windows = spec;
    }
    if (windows != NULL)
        rn_print(p, "    algorithm: %s\n", rn_algorithm_name_of(windows));
    if (windows != NULL && windows->sub_windows != 0)
        rn_print(p, "    sub_windows: %" PRIu32 "\n", windows->sub_windows);
    if (windows != NULL && windows->from_first)
        rn_print(p, "    align: first\n");
    if (places != NULL)
        print_duration(p, "lease", places->lease_ns);
    if (rule->soft_percent != 0)
        rn_print(p, "    soft: %u%%\n", rule->soft_percent);
}

static void print_priority(struct rn_printer *p, const struct rn_rule *rule)
{
    const struct rn_priority *priority = &rule->priority;

    if (priority->attribute == RN_NO_ATTRIBUTE)
        return;
    rn_print(p, "    priority: {by: ");
    rn_print_attribute(p, priority->attribute);
    for (uint32_t i = 0; i < priority->level_count; i++) {
        rn_print(p, i == 0 ? ", levels: {" : ", ");
        rn_print_quoted(p, priority->levels[i].name);
        rn_print(p, ": %u%%", priority->levels[i].keep_percent);
    }
    rn_print(p, "}, default: ");
    rn_print_quoted(p, priority->levels[priority->default_level].name);
    rn_print(p, "}\n");
}

static void print_throttle(struct rn_printer *p, const struct rn_rule *rule)
{
    const struct rn_throttle *throttle = &rule->throttle;
    char text[RN_DURATION_TEXT];

    if (!throttle->on)
        return;
    if (throttle->from_units != 0)
        rn_print(p, "    throttle: {from: %" PRIu64 " requests", throttle->from_units);
    else
        rn_print(p, "    throttle: {from: %u%%", throttle->from_percent);
    rn_number_write_duration(throttle->max_ns, text, sizeof text);
    if (throttle->max_ns != 0)
        rn_print(p, ", max_delay: %s", text);
    rn_print(p, "}\n");
}

static void print_waiting(struct rn_printer *p, const struct rn_rule *rule)
{
    char text[RN_DURATION_TEXT];

    if (rule->line_size == 0) {
        if (rule->hold)
            rn_print(p, "    wait: hold\n");
        print_duration(p, "max_wait", rule->max_wait_ns);
        return;
    }
    rn_number_write_duration(rule->max_wait_ns, text, sizeof text);
    rn_print(p, "    queue: {size: %" PRIu32 ", max_wait: %s%s}\n", rule->line_size, text,
             rule->line_by_arrival ? ", by: arrival" : "");
}

static void print_cost(struct rn_printer *p, const struct rn_rule *rule)
{
    const struct rn_cost *cost = &rule->cost;
    char statuses[RN_STATUSES_TEXT];

    if (cost->attribute != RN_NO_ATTRIBUTE) {
        rn_print(p, "    cost: {attribute: ");
        rn_print_attribute(p, cost->attribute);
        rn_print(p, ", default: %" PRIu64, cost->fixed);
        if (cost->max != 0)
            rn_print(p, ", max: %" PRIu64, cost->max);
        rn_print(p, "}\n");
    } else if (cost->fixed != 0) {
        rn_print(p, "    cost: %" PRIu64 "\n", cost->fixed);
    }
    if (rule->by_outcome) {
        rn_statuses_write(&rule->charge_on, statuses);
        rn_print(p, "    charge_on: status %s\n", statuses);
    }
}

static void print_response(struct rn_printer *p, const struct rn_rule *rule)
{
    static const char *const families[] = {"both", "x", "ietf", "none"};
    const struct rn_response *response = &rule->response;

    /* A status that is written is that of bans, too; otherwise they have their own. */
    bool for_bans = rule->escalate != NULL && response->status_given;

    if (response->status == 429 && !for_bans && response->headers == RN_HEADERS_BOTH &&
        !response->retryafter && response->message.len == 0)
        return;
    rn_print(p, "    response: {");
    if (rule->escalate == NULL || for_bans)
        rn_print(p, "status: %u, ", response->status);
    rn_print(p, "headers: %s", families[response->headers]);
    if (response->retryafter)
        rn_print(p, ", retry_header: X-RateLimit-RetryAfter");
    if (response->message.len != 0) {
        rn_print(p, ", message: ");
        rn_print_quoted(p, response->message);
    }
    rn_print(p, "}\n");
}

static void print_words(struct rn_printer *p, const struct rn_rule *rule)
{
    static const char *const when_full[] = {"evict", "evict_last", "refuse"};
    static const char *const failures[] = {"local", "allow", "refuse"};
    static const char *const consistencies[] = {"strict", "leased", "async"};
    const struct rn_rule_limit *limit;
    bool is_quota = false;

    RN_RULE_EACH_LIMIT(limit, rule)
    is_quota |= limit->spec.calendar != RATION_CALENDAR_NONE;
    if (rule->shadow)
        rn_print(p, "    mode: shadow\n");
    if (rule->unpublished)
        rn_print(p, "    publish: false\n");
    print_duration(p, "spread", rule->spread_ns);
    if (rule->on_full != (is_quota ? RN_FULL_REFUSE : RN_FULL_EVICT))
        rn_print(p, "    on_full: %s\n", when_full[rule->on_full]);
    if (rule->on_store_failure != RN_FAIL_LOCAL)
        rn_print(p, "    on_store_failure: %s\n", failures[rule->on_store_failure]);
    if (rule->consistency != RN_STRICT)
        rn_print(p, "    consistency: %s\n", consistencies[rule->consistency]);
}

/* In the order of a printed rule. Each prints nothing for a default. */
static void (*const parts[])(struct rn_printer *p, const struct rn_rule *rule) = {
    print_when,     print_key,      print_limit,         print_refinements,
    print_throttle, print_cost,     print_priority,      print_waiting,
    print_words,    rn_print_adapt, rn_print_reputation, print_response};

void rn_print_rule(struct rn_printer *p, const struct rn_rule *rule)
{
    rn_print(p, "  - name: ");
    rn_print_quoted(p, rule->name);
    rn_print(p, "\n");
    for (size_t i = 0; i < RN_COUNT(parts); i++)
        parts[i](p, rule);
}
