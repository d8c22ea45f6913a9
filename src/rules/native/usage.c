/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads `usage:` of a rule, which counts the units of each client by periods of the calendar:
 *
 *   usage: true
 *   usage: { per: month, zone: Europe/Rome, keep: 3 }
 */
#include <string.h>

#include "rules/native/native_internal.h"

#define KEEP_MAX 60

static const char *const periods[] = {"day", "week", "month", "year"};
static const enum ration_calendar units[] = {RATION_CALENDAR_DAY, RATION_CALENDAR_WEEK,
                                             RATION_CALENDAR_MONTH, RATION_CALENDAR_YEAR};

/* A name is enough here: rn_builder_calendar finds out whether there is such a zone. */
static void read_zone(struct rn_builder *builder, const struct rn_node *node,
                      struct rn_rule_usage *usage)
{
    struct rn_slice text;

    if (!rn_node_as_text(node, builder->report, &text))
        return;
    if (text.len == 0 || text.len >= RATION_ZONE_TEXT || memchr(text.data, '\0', text.len) != NULL)
        rn_report_error(builder->report, node->at,
                        "%s is not the name of a time zone; write one such as Europe/Rome, "
                        "America/New_York or UTC",
                        rn_node_describe(node).text);
    usage->zone = rn_slice_is(text, "UTC") ? RN_SLICE("") : rn_builder_dup(builder, text);
}

static void read_keep(struct rn_builder *builder, const struct rn_node *node,
                      struct rn_rule_usage *usage)
{
    uint64_t number;

    if (!rn_node_as_uint(node, builder->report, &number))
        return;
    if (number >= 1 && number <= KEEP_MAX)
        usage->keep = (uint32_t)number;
    else
        rn_report_error(builder->report, node->at,
                        "keep: found %llu; write how many finished periods are kept, from 1 to 60",
                        (unsigned long long)number);
}

void rn_native_usage(struct rn_builder *builder, const struct rn_node *node, struct rn_rule *rule)
{
    static const char *const keys[] = {"per", "zone", "keep"};
    static const char *const words[] = {"day",   "week",   "month",   "year",
                                        "daily", "weekly", "monthly", "yearly"};
    const struct rn_node *per = rn_node_find(node, "per"), *zone = rn_node_find(node, "zone");
    const struct rn_node *keep = rn_node_find(node, "keep");
    struct rn_rule_usage *usage = rn_builder_alloc(builder, 1, sizeof *usage);
    bool on = true;
    size_t other;

    if (usage == NULL)
        return;
    *usage = (struct rn_rule_usage){.keep = 3};
    if (node->kind == RN_NODE_LIST || (node->kind == RN_NODE_MAP && node->count == 0)) {
        rn_report_error(builder->report, node->at,
                        "usage: found %s; write usage: true, or for example {per: month, zone: "
                        "Europe/Rome}",
                        node->kind == RN_NODE_LIST ? "a list" : "an empty map");
        return;
    }
    if (node->kind == RN_NODE_MAP)
        rn_native_map(builder, node, keys, RN_COUNT(keys));
    else if ((other = rn_slice_find(node->text, words, RN_COUNT(words))) < RN_COUNT(words))
        rn_report_error(builder->report, node->at, "usage: found %s; write {per: %s}",
                        rn_node_describe(node).text, periods[other % RN_COUNT(periods)]);
    else
        rn_node_as_bool(node, builder->report, &on);
    int word =
        per == NULL ? -1 : rn_native_word(builder, per, "period", periods, RN_COUNT(periods));

    if (word >= 0)
        usage->unit = units[word];
    if (zone != NULL)
        read_zone(builder, zone, usage);
    if (keep != NULL)
        read_keep(builder, keep, usage);
    rule->usage = on ? usage : NULL;
}

/* The only calendar that the limits of a rule follow; NULL: none, or several. */
static const struct ration_limit *only_calendar(const struct rn_rule *rule)
{
    const struct ration_limit *only = NULL;
    const struct rn_rule_limit *limit;

    RN_RULE_EACH_LIMIT(limit, rule)
    {
        if (limit->spec.calendar == RATION_CALENDAR_NONE)
            continue;
        if (only != NULL &&
            (only->calendar != limit->spec.calendar || strcmp(only->zone, limit->spec.zone) != 0))
            return NULL;
        only = &limit->spec;
    }
    return only;
}

void rn_native_usage_finish(struct rn_builder *builder, const struct rn_node *map,
                            struct rn_rule *rule)
{
    struct rn_rule_usage *usage = rn_builder_alloc(builder, 1, sizeof *usage);
    const struct ration_limit *quota = only_calendar(rule);
    const struct rn_node *node, *zone;
    const char *fault = NULL;

    if (usage == NULL || rule->usage == NULL)
        return;
    *usage = *rule->usage;
    node = rn_node_find(map, "usage");
    zone = rn_node_find(node, "zone");
    if (usage->unit == RATION_CALENDAR_NONE)
        usage->unit = quota != NULL ? quota->calendar : RATION_CALENDAR_MONTH;
    if (zone == NULL)
        usage->zone = rn_builder_dup(builder, rn_slice_of(quota != NULL ? quota->zone : ""));
    usage->calendar = rn_builder_calendar(builder, usage->unit, usage->zone, &fault);
    if (usage->calendar == NULL && fault != NULL)
        rn_report_error(builder->report, zone != NULL ? zone->at : node->at, "%s", fault);
    rule->usage = usage;
}
