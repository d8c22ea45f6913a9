/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Warns of weaknesses of a whole ruleset: only fixed windows, one limit for everything, paths and
 * methods that no limit protects, rules that repeat others.
 */
#include "rules/lint/lint.h"

#include <stdio.h>
#include <stdlib.h>

#include "rules/lint/lint_internal.h"

struct rn_place rn_lint_place(const struct rn_linter *l, struct rn_slice file, uint32_t line,
                              uint32_t column)
{
    for (uint32_t i = 0; i < l->report->file_count; i++)
        if (rn_slice_equal(l->report->files[i].name, file))
            return (struct rn_place){.file = i, .line = line, .column = column};
    return (struct rn_place){.file = RN_REPORT_NO_FILE};
}

struct rn_place rn_lint_rule_place(const struct rn_linter *l, const struct rn_rule *rule)
{
    return rn_lint_place(l, rule->file, rule->line, rule->column);
}

static bool is_about(const struct rn_linter *l, const struct rn_condition *condition,
                     const char *attribute)
{
    return rn_slice_is(l->ruleset->attributes[condition->attribute].name, attribute);
}

/* --- windows ----------------------------------------------------------------------- */

static void lint_windows(const struct rn_linter *l)
{
    const struct rn_rule_limit *limit;
    bool any = false;

    for (uint32_t i = 0; i < l->rule_count; i++) {
        RN_RULE_EACH_LIMIT(limit, l->rules[i])
        {
            if (limit->spec.algorithm != RATION_FIXED_WINDOW)
                return;
            any |= limit->spec.calendar == RATION_CALENDAR_NONE;
        }
    }
    if (any)
        rn_report_warning(l->report, rn_lint_rule_place(l, l->rules[0]),
                          "all limits are fixed windows, which let through twice their amount "
                          "around the turn of a window; use token-bucket or sliding-window for "
                          "those that protect something");
}

/* --- requests without a limit ------------------------------------------------------ */

/* Whether a rule can apply to a request with this path and method. */
static bool covers(const struct rn_linter *l, const struct rn_rule *rule, struct rn_slice path,
                   struct rn_slice method)
{
    for (uint32_t a = 0; a < rule->alternative_count; a++) {
        const struct rn_alternative *alternative = &rule->alternatives[a];
        bool covered = true;

        for (uint32_t i = 0; i < alternative->condition_count && covered; i++) {
            const struct rn_condition *c = &alternative->conditions[i];

            covered = (!is_about(l, c, "path") || rn_lint_holds(c, path)) &&
                      (!is_about(l, c, "method") || rn_lint_holds(c, method));
        }
        if (covered)
            return true;
    }
    return false;
}

/* Tries a path that no rule names with the usual methods. */
static void lint_coverage(const struct rn_linter *l)
{
    static const char *const methods[] = {"GET", "POST", "PUT", "PATCH", "DELETE"};
    const size_t all = sizeof methods / sizeof *methods;
    char open[64] = "";
    size_t missing = 0, len = 0;

    for (size_t m = 0; m < all; m++) {
        bool covered = false;

        for (uint32_t i = 0; i < l->rule_count && !covered; i++)
            covered = covers(l, l->rules[i], RN_SLICE("/~other/~path"), rn_slice_of(methods[m]));
        if (covered)
            continue;
        len += (size_t)snprintf(open + len, sizeof open - len, "%s%s", missing ? ", " : "",
                                methods[m]);
        missing++;
    }
    if (missing == 0)
        return;
    if (missing == all)
        rn_report_warning(l->report, rn_lint_rule_place(l, l->rules[0]),
                          "nothing protects the paths that no limit names; add a limit without a "
                          "condition on the path");
    else
        rn_report_warning(l->report, rn_lint_rule_place(l, l->rules[0]),
                          "nothing protects %s of the paths that no limit names; add a limit "
                          "without conditions on path and method",
                          open);
}

/* Warns of a single limit that does not distinguish paths. */
static void lint_single_limit(const struct rn_linter *l)
{
    const struct rn_rule *rule = l->rules[0];

    if (l->rule_count != 1)
        return;
    for (uint32_t a = 0; a < rule->alternative_count; a++)
        for (uint32_t i = 0; i < rule->alternatives[a].condition_count; i++)
            if (is_about(l, &rule->alternatives[a].conditions[i], "path"))
                return;
    for (uint32_t i = 0; i < rule->key_count; i++)
        for (unsigned n = 0; n < rule->key[i].count; n++)
            if (rn_slice_is(l->ruleset->attributes[rule->key[i].attributes[n]].name, "path"))
                return;
    rn_report_warning(l->report, rn_lint_rule_place(l, rule),
                      "one limit for all endpoints: a login and a search are not alike; add "
                      "limits for the paths that cost most or are attacked first");
}

/* --- rules that repeat others ------------------------------------------------------ */

struct print {
    uint64_t hash;
    const struct rn_rule *rule;
};

static uint64_t mix(uint64_t h, uint64_t value)
{
    h = (h ^ value) * UINT64_C(0x9E3779B97F4A7C15);
    return h ^ h >> 29;
}

static uint64_t hash_bytes(uint64_t h, const void *bytes, size_t len)
{
    const unsigned char *at = bytes;

    for (h = mix(h, len); len > 0; len--)
        h = mix(h, *at++);
    return h;
}

static uint64_t hash_condition(const struct rn_condition *c)
{
    uint64_t h = mix(mix(c->attribute, c->test), c->negated), values = 0;

    for (uint32_t i = 0; i < c->value_count; i++)
        values += hash_bytes(1, c->values[i].data, c->values[i].len);
    for (size_t i = 0; c->networks != NULL && i < c->networks->count; i++) {
        const struct rn_cidr *network = &c->networks->items[i];

        values += mix(hash_bytes(2, network->network.bytes, sizeof network->network.bytes),
                      mix(network->network.bits, network->prefix));
    }
    return mix(h, values);
}

/* Equal for rules that count the same requests by the same key. Adds hashes where order does not
 * matter. */
static uint64_t hash_requests(const struct rn_rule *rule)
{
    uint64_t alternatives = 0, h;

    for (uint32_t a = 0; a < rule->alternative_count; a++) {
        uint64_t conditions = 0;

        for (uint32_t i = 0; i < rule->alternatives[a].condition_count; i++)
            conditions += hash_condition(&rule->alternatives[a].conditions[i]);
        alternatives += mix(4, conditions);
    }
    h = mix(alternatives, rule->key_count);
    for (uint32_t i = 0; i < rule->key_count; i++) {
        const struct rn_key_part *part = &rule->key[i];

        h = hash_bytes(h, part->attributes, part->count * sizeof part->attributes[0]);
        h = mix(mix(h, part->ipv4_prefix), part->ipv6_prefix);
    }
    return hash_bytes(h, &rule->charge_on, sizeof rule->charge_on);
}

/* Equal if they do so in the same windows. */
static uint64_t hash_rule(const struct rn_rule *rule)
{
    uint64_t limits = 0, h = hash_requests(rule);

    for (uint32_t t = 0; t < rule->tier_count; t++) {
        uint64_t tier = hash_bytes(3, rule->tiers[t].value.data, rule->tiers[t].value.len);

        for (uint32_t n = 0; n < rule->tiers[t].limit_count; n++)
            limits += mix(tier, rule->tiers[t].limits[n]->limit.shape);
    }
    return mix(mix(mix(mix(h, limits), rule->tier_attribute), rule->tier_second),
               rule->cost.attribute);
}

static int by_hash(const void *a, const void *b)
{
    const struct print *x = a, *y = b;

    if (x->hash != y->hash)
        return x->hash < y->hash ? -1 : 1;
    return (x->rule->index > y->rule->index) - (x->rule->index < y->rule->index);
}

static void lint_repeats(const struct rn_linter *l)
{
    struct print *prints = calloc(l->rule_count, sizeof *prints);

    if (prints == NULL)
        return;
    for (uint32_t i = 0; i < l->rule_count; i++)
        prints[i] = (struct print){hash_rule(l->rules[i]), l->rules[i]};
    qsort(prints, l->rule_count, sizeof *prints, by_hash);
    for (uint32_t i = 1; i < l->rule_count; i++) {
        const struct rn_rule *first = prints[i - 1].rule, *second = prints[i].rule;

        if (prints[i].hash == prints[i - 1].hash && first->shadow == second->shadow)
            rn_report_warning(l->report, rn_lint_rule_place(l, second),
                              "%s counts the same requests by the same key in the same window as "
                              "%s, at %.*s:%u; keep the one with the smaller limit",
                              rn_excerpt(second->name).text, rn_excerpt(first->name).text,
                              (int)first->file.len, first->file.data, first->line);
    }
    free(prints);
}

/* Warns of usage that two rules count alike: a bill that adds them up charges twice. */
static void lint_usages(const struct rn_linter *l)
{
    struct print *prints = calloc(l->rule_count, sizeof *prints);
    uint32_t count = 0;

    if (prints == NULL)
        return;
    for (uint32_t i = 0; i < l->rule_count; i++) {
        const struct rn_rule *rule = l->rules[i];

        if (rule->usage != NULL)
            prints[count++] = (struct print){mix(hash_requests(rule), rule->cost.attribute), rule};
    }
    qsort(prints, count, sizeof *prints, by_hash);
    for (uint32_t i = 1; i < count; i++) {
        const struct rn_rule *first = prints[i - 1].rule, *second = prints[i].rule;

        if (prints[i].hash == prints[i - 1].hash)
            rn_report_warning(l->report, rn_lint_rule_place(l, second),
                              "usage of %s counts the same requests by the same key as that of %s, "
                              "at %.*s:%u; leave it out of one of the two",
                              rn_excerpt(second->name).text, rn_excerpt(first->name).text,
                              (int)first->file.len, first->file.data, first->line);
    }
    free(prints);
}

/* Concurrent requests are not yet charged by outcome, so nothing limits them. */
static void lint_outcomes(const struct rn_linter *l)
{
    for (uint32_t i = 0; i < l->rule_count; i++)
        if (!l->rules[i]->by_outcome)
            return;
    rn_report_warning(l->report, rn_lint_rule_place(l, l->rules[0]),
                      "no limit counts requests as they come: any number at once gets past %s; add "
                      "one without charge_on, for example 10 concurrent",
                      rn_excerpt(l->rules[0]->name).text);
}

/* --- limits of each server ----------------------------------------------------------- */

static bool has_setting(const struct rn_linter *l, const char *name)
{
    for (uint32_t i = 0; i < l->ruleset->setting_count; i++)
        if (rn_slice_is(l->ruleset->settings[i].name, name))
            return true;
    return false;
}

/* Warns of keys that name a server: clients then get the limit once for each server. */
static void lint_servers(const struct rn_linter *l)
{
    static const char *const servers[] = {"server",   "server_id", "server_name", "node",
                                          "node_id",  "instance",  "instance_id", "pod",
                                          "hostname", "worker",    "pid",         "upstream"};

    for (uint32_t i = 0; i < l->rule_count; i++) {
        const struct rn_rule *rule = l->rules[i];

        for (uint32_t k = 0; k < rule->key_count; k++) {
            struct rn_slice name = l->ruleset->attributes[rule->key[k].attributes[0]].name;

            if (rn_slice_find(name, servers, RN_COUNT(servers)) < RN_COUNT(servers))
                rn_report_warning(l->report, rn_lint_rule_place(l, rule),
                                  "%s counts each %s apart, so clients get the limit once for each "
                                  "of them; leave %.*s out of the key, and set redis so that "
                                  "servers count together",
                                  rn_excerpt(rule->name).text, rn_excerpt(name).text, (int)name.len,
                                  name.data);
        }
    }
    if (has_setting(l, "redis_nodes") && !has_setting(l, "redis") && !has_setting(l, "redis_file"))
        rn_report_warning(
            l->report, rn_lint_rule_place(l, l->rules[0]),
            "redis_nodes without redis: if that is not set elsewhere, each node counts "
            "by itself, and clients get every limit once for each; add redis to "
            "server");
}

/* A file with settings, but without redis, may get that from a flag. */
static void lint_scopes(const struct rn_linter *l)
{
    if (l->ruleset->setting_count == 0 || has_setting(l, "redis") || has_setting(l, "redis_file"))
        return;
    for (uint32_t i = 0; i < l->rule_count; i++)
        if (l->rules[i]->adapt.has_fleet)
            rn_report_warning(l->report, rn_lint_rule_place(l, l->rules[i]),
                              "%s has scope: fleet, but server has no redis: if that is not set "
                              "elsewhere, each node follows its own signals; add redis to server, "
                              "or write scope: node",
                              rn_excerpt(l->rules[i]->name).text);
}

/* Requests of Envoy's protocol use descriptors only, unless the file says otherwise. */
static void lint_beside_envoy(const struct rn_linter *l)
{
    if (l->ruleset->domain_count != 0 && !l->ruleset->apply_to_envoy)
        rn_report_warning(
            l->report, rn_lint_rule_place(l, l->rules[0]),
            "%s and other native limits do not apply to requests of Envoy's protocol; add "
            "apply_to_envoy: true at the top of this file, or write what must hold for those as "
            "descriptors of a domain, too",
            rn_excerpt(l->rules[0]->name).text);
    for (uint32_t i = 0; l->ruleset->apply_to_envoy && i < l->rule_count; i++)
        if (!l->rules[i]->for_envoy)
            rn_report_warning(l->report, rn_lint_rule_place(l, l->rules[i]),
                              "%s does not apply to requests of Envoy's protocol, which do not "
                              "tell %s; add a limit for those without %s",
                              rn_excerpt(l->rules[i]->name).text,
                              l->rules[i]->by_outcome ? "the status of the answer"
                                                      : "when a request ends",
                              l->rules[i]->by_outcome ? "charge_on" : "concurrent");
}

/* --- all checks -------------------------------------------------------------------- */

static void (*const checks[])(const struct rn_linter *l) = {
    lint_windows, lint_coverage,      lint_single_limit,  lint_repeats,
    lint_usages,  lint_outcomes,      lint_beside_envoy,  lint_servers,
    lint_scopes,  rn_lint_rule_names, rn_lint_attributes, rn_lint_methods};

void rn_lint_ruleset(const struct rn_ruleset *ruleset, struct rn_report *report)
{
    struct rn_linter l = {.ruleset = ruleset, .report = report};

    if (ruleset->rule_count == 0) {
        if (ruleset->domain_count == 0)
            rn_report_warning(report,
                              (struct rn_place){.file = report->file_count ? 0 : RN_REPORT_NO_FILE},
                              "no limits, so every request is admitted; add a section "
                              "limits");
        return;
    }
    l.rules = calloc(ruleset->rule_count, sizeof *l.rules);
    for (uint32_t i = 0; l.rules != NULL && i < ruleset->rule_count; i++)
        if (!ruleset->rules[i].envoy)
            l.rules[l.rule_count++] = &ruleset->rules[i];
    for (uint32_t i = 0; i < l.rule_count; i++)
        rn_lint_rule(&l, l.rules[i]);
    for (uint32_t i = 0; i < l.rule_count; i++)
        rn_lint_reputation(&l, l.rules[i]);
    for (size_t i = 0; l.rule_count != 0 && i < RN_COUNT(checks); i++)
        checks[i](&l);
    free(l.rules);
}
