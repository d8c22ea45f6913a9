/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads limits that an attribute chooses: {by: tier, free: 100 per minute, default: free},
 * written in the rule or as a set that several rules use. Two attributes choose by rows:
 * {by: [tier, country], "pro, IT": 100 per minute, "pro, *": 50 per minute}.
 */
#include <inttypes.h>
#include <stdio.h>

#include "rules/native/limits_internal.h"

/* Whether a key names a tier: by, use and default do not. */
static bool is_tier(const struct rn_node *node)
{
    return !rn_slice_is(node->key->text, "by") && !rn_slice_is(node->key->text, "use") &&
           !rn_slice_is(node->key->text, "default");
}

/* --- rows of two attributes ------------------------------------------------------------ */

static struct rn_slice trim(struct rn_slice text)
{
    while (text.len != 0 && (text.data[0] == ' ' || text.data[0] == '\t'))
        text = (struct rn_slice){text.data + 1, text.len - 1};
    while (text.len != 0 && (text.data[text.len - 1] == ' ' || text.data[text.len - 1] == '\t'))
        text.len--;
    return text;
}

/* The part of a row, as matching spells it; empty for `*`. False after reporting. */
static bool spell_part(struct rn_limits_reader *r, struct rn_place at, uint16_t attribute,
                       struct rn_slice text, struct rn_slice *part)
{
    *part = RN_SLICE("");
    text = trim(text);
    if (rn_slice_is(text, "*"))
        return true;
    if (text.len == 0) {
        rn_report_error(r->report, at, "a row with an empty value; write * for any");
        return false;
    }
    *part = rn_native_value(r->builder, attribute, text);
    return part->data != NULL && rn_native_geo_value(r->builder, at, attribute, *part);
}

/* Sets the value of a tier, and its parts, from the text of its key. False after reporting. */
static bool spell_tier(struct rn_limits_reader *r, struct rn_place at, struct rn_slice text,
                       struct rn_tier *tier)
{
    const struct rn_rule *rule = r->rule;

    if (rule->tier_second == RN_NO_ATTRIBUTE) {
        tier->value = rn_native_value(r->builder, rule->tier_attribute, text);
        return tier->value.data != NULL &&
               (text.len == 0 ||
                rn_native_geo_value(r->builder, at, rule->tier_attribute, tier->value));
    }
    const char *comma = memchr(text.data, ',', text.len);
    size_t before = comma == NULL ? 0 : (size_t)(comma - text.data);
    struct rn_slice second = {text.data + before + 1, text.len - before - 1};

    if (comma == NULL || memchr(second.data, ',', second.len) != NULL) {
        rn_report_error(
            r->report, at,
            "%s is not a row: two attributes choose these limits; write both values, such "
            "as \"pro, IT\", or \"pro, *\" for any other",
            rn_excerpt(text).text);
        return false;
    }
    if (!spell_part(r, at, rule->tier_attribute, (struct rn_slice){text.data, before},
                    &tier->first) ||
        !spell_part(r, at, rule->tier_second, second, &tier->second))
        return false;
    if (tier->first.len == 0 && tier->second.len == 0) {
        rn_report_error(r->report, at, "a row for any two values; write default");
        return false;
    }
    size_t room = tier->first.len + tier->second.len + 8;
    char *value = rn_builder_alloc(r->builder, room, 1);

    if (value == NULL)
        return false;
    int len = snprintf(value, room, "%s, %s", tier->first.len == 0 ? "*" : tier->first.data,
                       tier->second.len == 0 ? "*" : tier->second.data);

    tier->value = (struct rn_slice){value, (size_t)len};
    return true;
}

/* --- the map ---------------------------------------------------------------------------- */

/* Reads the tier for all other values: the name of a tier, or limits. */
static void read_default(struct rn_limits_reader *r, const struct rn_node *node,
                         struct rn_tier *tiers, uint32_t *count)
{
    if (node->kind == RN_NODE_SCALAR) {
        bool is_limit =
            node->text.len != 0 && ((node->text.data[0] >= '0' && node->text.data[0] <= '9') ||
                                    rn_slice_is(node->text, "unlimited"));
        bool is_row = r->rule->tier_second != RN_NO_ATTRIBUTE && !rn_node_is_null(node) &&
                      (!is_limit || memchr(node->text.data, ',', node->text.len) != NULL);
        struct rn_tier named = {.value = RN_SLICE("")};

        if (is_row && !spell_tier(r, node->at, node->text, &named))
            return;
        if (!is_row)
            named.value = rn_native_value(r->builder, r->rule->tier_attribute, node->text);
        for (uint32_t i = 0; i < *count; i++) {
            if (rn_slice_equal(tiers[i].value, named.value)) {
                r->rule->default_tier = i;
                return;
            }
        }
        if (!is_limit && !rn_node_is_null(node)) {
            const char **names = rn_builder_alloc(r->builder, *count, sizeof *names);

            for (uint32_t i = 0; names != NULL && i < *count; i++)
                names[i] = tiers[i].value.data;
            if (names != NULL && *count != 0)
                rn_report_unknown_word(r->report, node, "tier", names, *count);
            return;
        }
    }
    tiers[*count].value = RN_SLICE("");
    rn_limits_read_tier(r, node, &tiers[*count]);
    r->rule->default_tier = (*count)++;
}

/* The map that holds the tiers: this one, or the set it uses. NULL after reporting. */
static const struct rn_node *find_tiers(struct rn_limits_reader *r, const struct rn_node *map)
{
    static const char *const with_use[] = {"by", "use", "default"};
    const struct rn_node *use = rn_node_find(map, "use");
    struct rn_native_set *set;

    if (use == NULL)
        return map;
    RN_NODE_EACH(node, map) {
        if (is_tier(node)) {
            rn_report_unknown_key(r->report, node, with_use, RN_COUNT(with_use));
            return NULL;
        }
    }
    set = rn_sections_find_tiers(r->builder, use);
    if (set == NULL)
        return NULL;
    set->used = true;
    return set->node;
}

static bool read_attribute(struct rn_limits_reader *r, const struct rn_node *node,
                           uint16_t *attribute)
{
    *attribute = rn_native_attribute_used(r->builder, node);
    if (*attribute == RN_NO_ATTRIBUTE)
        return false;
    if (!rn_builder_attribute_at(r->builder, *attribute)->is_ip)
        return true;
    rn_report_error(r->report, node->at,
                    "limits are not chosen by address; write one limit for each network, with "
                    "when: {ip: 10.0.0.0/8}");
    return false;
}

static bool read_by(struct rn_limits_reader *r, const struct rn_node *map)
{
    const struct rn_node *by = rn_node_find(map, "by");

    if (by == NULL && rn_mistakes_limit_map(r->builder, map))
        return false;
    if (by == NULL) {
        rn_report_error(r->report, map->at,
                        "limits by tier that do not say by which attribute; add for example by: "
                        "tier");
        return false;
    }
    bool two = by->kind == RN_NODE_LIST;

    if (two && by->count != 2) {
        rn_report_error(r->report, by->at,
                        "limits are chosen by one attribute or by two, found %" PRIu32
                        "; write by: tier, or by: [tier, country]",
                        by->count);
        return false;
    }
    if (!read_attribute(r, two ? by->first : by, &r->rule->tier_attribute) ||
        (two && !read_attribute(r, by->first->next, &r->rule->tier_second)))
        return false;
    if (r->rule->tier_attribute != r->rule->tier_second)
        return true;
    rn_report_error(r->report, by->first->next->at,
                    "the same attribute twice; write by: with one of them");
    return false;
}

void rn_limits_read_map(struct rn_limits_reader *r, const struct rn_node *map)
{
    const struct rn_node *own = rn_node_find(map, "default"), *from, *last;
    uint32_t count = 0, errors = r->report->count[RN_ERROR];

    if (!read_by(r, map) || (from = find_tiers(r, map)) == NULL)
        return;
    last = own != NULL ? own : rn_node_find(from, "default");
    struct rn_tier *tiers = rn_builder_alloc(r->builder, (size_t)from->count + 1, sizeof *tiers);
    if (tiers == NULL)
        return;
    RN_NODE_EACH(node, from) {
        if (!is_tier(node))
            continue;
        if (node->key->text.len == 0)
            rn_report_error(r->report, node->key->at,
                            "a tier without a name; write default for callers of no tier");
        if (!spell_tier(r, node->key->at, node->key->text, &tiers[count]))
            continue;
        for (uint32_t i = 0; i < count; i++)
            if (rn_slice_equal(tiers[i].value, tiers[count].value))
                rn_report_error(r->report, node->key->at,
                                "tier %s is given already, in another spelling; keep one",
                                rn_excerpt(node->key->text).text);
        rn_limits_read_tier(r, node, &tiers[count++]);
    }
    if (count == 0 && r->report->count[RN_ERROR] == errors)
        rn_report_error(r->report, from->at, "no tiers; write for example free: 100 per minute");
    r->rule->tiers = tiers;
    if (last != NULL)
        read_default(r, last, tiers, &count);
    r->rule->tier_count = count;
}

void rn_native_check_tiers(struct rn_builder *builder, const struct rn_node *set)
{
    struct rn_report *report = builder->report;

    RN_NODE_EACH(node, set) {
        const struct rn_node *text = node->kind == RN_NODE_LIST ? node->first : node;

        for (; text != NULL; text = node->kind == RN_NODE_LIST ? text->next : NULL) {
            struct ration_error error;
            struct ration_limit spec;
            struct rn_slice words;

            if (is_tier(node) && rn_limits_is_adaptive(text)) {
                (void)rn_limits_read_adaptive(report, text, &spec);
                continue;
            }
            if (!is_tier(node) || !rn_node_as_text(text, report, &words))
                continue;
            if (ration_limit_parse(words.data, words.len, &spec, &error) != 0)
                rn_report_error(report, rn_report_place_in(report, text, error.pos), "%s",
                                error.text);
        }
    }
}
