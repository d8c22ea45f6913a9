/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads `limit:` of a rule, which is one limit or several that all apply, and algorithm,
 * sub_windows, align and lease, which refine them.
 */
#include "rules/native/limits_internal.h"

#include <ration/algorithm.h>
#include <ration/ration.h>

#include "core/algorithm.h"

#define LIMITS_MAX 16 /* that apply at once */

static const char *const alignments[] = {"epoch", "first"};

/* --- one text ---------------------------------------------------------------------- */

/* Parses a text and refines the limit; false after reporting. */
static bool parse_text(struct rn_limits_reader *r, const struct rn_node *node,
                       struct ration_limit *spec)
{
    if (rn_node_is_null(node)) {
        rn_report_error(r->report, node->at, "an empty limit; write for example 100 per minute");
        return false;
    }
    if (rn_limits_is_adaptive(node)) {
        if (!rn_limits_read_adaptive(r->report, node, spec))
            return false;
    } else if (!rn_node_as_limit(node, r->report, spec)) {
        return false;
    }
    if (spec->algorithm == RATION_TOKEN_BUCKET && r->algorithm == RATION_CONCURRENCY) {
        rn_report_error(r->report, node->at,
                        "%s is a rate, and concurrency has none; write for example 20 concurrent",
                        rn_excerpt(node->text).text);
        return false;
    }
    /* The keys beside `limit` refine the text. */
    if (spec->algorithm == RATION_TOKEN_BUCKET && r->algorithm >= 0) {
        spec->algorithm = (enum ration_algorithm)r->algorithm;
        spec->own = r->own;
    }
    if (spec->algorithm == RATION_SLIDING_WINDOW)
        spec->sub_windows = r->sub_windows;
    if (spec->algorithm == RATION_FIXED_WINDOW && spec->calendar == RATION_CALENDAR_NONE)
        spec->from_first = r->from_first;
    if (spec->algorithm == RATION_CONCURRENCY)
        spec->lease_ns = r->lease_ns;
    return true;
}

/* Returns NULL if unlimited, or after reporting an error: then *ok is false. */
static struct rn_rule_limit *read_text(struct rn_limits_reader *r, const struct rn_node *node,
                                       bool *ok)
{
    struct rn_rule_limit *limit;
    struct ration_limit spec;
    const char *fault;

    if (!parse_text(r, node, &spec)) {
        *ok = false;
        return NULL;
    }
    r->used |= 1u << spec.algorithm;
    r->adaptive |= spec.adaptive_min != 0;
    if (spec.algorithm == RATION_UNLIMITED)
        return NULL;
    if (spec.algorithm == RATION_FIXED_WINDOW) {
        r->on_calendar |= spec.calendar != RATION_CALENDAR_NONE;
        r->off_calendar |= spec.calendar == RATION_CALENDAR_NONE;
    }
    limit = rn_builder_limit(r->builder, r->rule, &spec, &fault);
    if (limit == NULL && fault != NULL) {
        size_t zone = strlen(spec.zone), len = node->text.len;
        bool at_zone = fault == r->builder->fault && spec.calendar != RATION_CALENDAR_NONE &&
                       zone != 0 && len >= zone;

        rn_report_error(r->report,
                        at_zone ? rn_report_place_in(r->report, node, len - zone) : node->at, "%s",
                        fault);
    }
    *ok &= limit != NULL;
    return limit;
}

/* --- the limits of a tier ---------------------------------------------------------- */

/* Reports a limit that would share its state with an earlier one: the larger never decides. */
static bool check_shapes(struct rn_limits_reader *r, const struct rn_node *node,
                         struct rn_rule_limit *const *limits, uint32_t count)
{
    const struct rn_rule_limit *last = limits[count - 1];

    for (uint32_t i = 0; i + 1 < count; i++) {
        char text[128];

        if (limits[i]->limit.shape != last->limit.shape)
            continue;
        ration_limit_write(&limits[i]->spec, text, sizeof text);
        rn_report_error(r->report, node->at,
                        "%s is of the same kind and window as \"%s\", so only the smaller ever "
                        "decides; keep that one",
                        rn_excerpt(node->text).text, text);
        return false;
    }
    return true;
}

static bool read_several(struct rn_limits_reader *r, const struct rn_node *list,
                         struct rn_rule_limit **limits, uint32_t *count)
{
    bool ok = true;

    if (list->count == 0 || list->count > LIMITS_MAX) {
        rn_report_error(r->report, list->at,
                        list->count == 0 ? "an empty list of limits; write unlimited for none"
                                         : "more than 16 limits at once; use fewer");
        return false;
    }
    RN_NODE_EACH(node, list) {
        bool read = true;
        struct rn_rule_limit *limit = read_text(r, node, &read);

        if (read && limit == NULL && list->count > 1) {
            rn_report_error(r->report, node->at,
                            "unlimited among other limits; it must stand alone");
            read = false;
        }
        if (limit != NULL) {
            limits[(*count)++] = limit;
            read &= check_shapes(r, node, limits, *count);
        }
        ok &= read;
    }
    return ok;
}

bool rn_limits_read_tier(struct rn_limits_reader *r, const struct rn_node *node,
                         struct rn_tier *tier)
{
    struct rn_rule_limit *limits[LIMITS_MAX], **copy;
    uint32_t count = 0;
    bool ok = true;

    if (node->kind == RN_NODE_LIST) {
        ok = read_several(r, node, limits, &count);
    } else {
        limits[0] = read_text(r, node, &ok);
        count = limits[0] != NULL;
    }
    copy = rn_builder_alloc(r->builder, count, sizeof(struct rn_rule_limit *));
    for (uint32_t i = 0; copy != NULL && i < count; i++)
        copy[i] = limits[i];
    tier->limits = copy;
    tier->limit_count = copy == NULL ? 0 : count;
    return ok;
}

/* --- all limits of a rule ---------------------------------------------------------- */

/* One of ours, or one that the program which loads the rules has. */
static void read_algorithm(struct rn_limits_reader *r, const struct rn_node *node)
{
    const char *names[RN_ALGORITHMS_MAX + RATION_OWN_ALGORITHMS_MAX];
    const struct rn_ruleset_host *host = r->builder->host;
    enum ration_algorithm algorithm;
    size_t n = rn_algorithm_rates(names), ours;

    /* It has no rate, but may be named beside limits such as 20 concurrent. */
    names[n++] = ration_algorithm_name(RATION_CONCURRENCY);
    ours = n;
    for (size_t i = 0; host && i < host->own_count; i++)
        names[n++] = host->own[i]->name;
    int word = rn_native_word(r->builder, node, "algorithm", names, n);

    if (word >= (int)ours) {
        r->algorithm = RATION_OWN_ALGORITHM;
        r->own = host->own[(size_t)word - ours];
    } else if (word >= 0 &&
               ration_algorithm_parse(names[word], strlen(names[word]), &algorithm) == 0) {
        r->algorithm = (int)algorithm;
    }
}

static void read_refinements(struct rn_limits_reader *r)
{
    const struct rn_node *node;
    uint64_t parts;

    if ((node = rn_node_find(r->map, "algorithm")) != NULL)
        read_algorithm(r, node);
    if ((node = rn_node_find(r->map, "align")) != NULL)
        r->from_first =
            rn_native_word(r->builder, node, "align", alignments, RN_COUNT(alignments)) == 1;
    if ((node = rn_node_find(r->map, "lease")) != NULL &&
        rn_native_duration(r->builder, node, &r->lease_ns) && r->lease_ns > RATION_LEASE_MAX_NS) {
        rn_report_error(r->report, node->at, "a lease of more than 24 hours; write a shorter one");
        r->lease_ns = 0;
    }
    if ((node = rn_node_find(r->map, "sub_windows")) == NULL ||
        !rn_node_as_uint(node, r->report, &parts))
        return;
    if (parts < 2 || parts > 1024)
        rn_report_error(r->report, node->at,
                        "a window is cut into 2 to 1024 parts, not %llu; write such a number",
                        (unsigned long long)parts);
    else
        r->sub_windows = (uint32_t)parts;
}

void rn_native_limits(struct rn_builder *builder, const struct rn_node *map,
                      const struct rn_node *limit, struct rn_rule *rule)
{
    struct rn_limits_reader r = {
        .builder = builder, .report = builder->report, .rule = rule, .map = map, .algorithm = -1};
    uint32_t errors = r.report->count[RN_ERROR];

    read_refinements(&r);
    if (limit->kind == RN_NODE_MAP && !rn_limits_is_adaptive(limit)) {
        rn_limits_read_map(&r, limit);
    } else {
        struct rn_tier *tier = rn_builder_alloc(builder, 1, sizeof *tier);

        if (tier == NULL)
            return;
        tier->value = RN_SLICE("");
        rn_limits_read_tier(&r, limit, tier);
        rule->tiers = tier;
        rule->tier_count = 1;
        rule->default_tier = 0;
    }
    /* Skip errors that follow from other errors. */
    if (r.report->count[RN_ERROR] != errors)
        return;
    rn_limits_check(&r);
    if (rn_node_find(map, "on_full") == NULL && r.on_calendar)
        rule->on_full = RN_FULL_REFUSE;
}
