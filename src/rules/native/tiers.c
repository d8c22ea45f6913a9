/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads limits that an attribute chooses: {by: tier, free: 100 per minute, default: free},
 * written in the rule or as a set that several rules use.
 */
#include "rules/native/limits_internal.h"

/* Whether a key names a tier: by, use and default do not. */
static bool is_tier(const struct rn_node *node)
{
    return !rn_slice_is(node->key->text, "by") && !rn_slice_is(node->key->text, "use") &&
           !rn_slice_is(node->key->text, "default");
}

/* Reads the tier for all other values: the name of a tier, or limits. */
static void read_default(struct rn_limits_reader *r, const struct rn_node *node,
                         struct rn_tier *tiers, uint32_t *count)
{
    bool is_text = node->kind == RN_NODE_SCALAR;

    if (is_text) {
        struct rn_slice value = rn_native_value(r->builder, r->rule->tier_attribute, node->text);

        for (uint32_t i = 0; i < *count; i++) {
            if (rn_slice_equal(tiers[i].value, value)) {
                r->rule->default_tier = i;
                return;
            }
        }
        bool is_limit =
            node->text.len != 0 && ((node->text.data[0] >= '0' && node->text.data[0] <= '9') ||
                                    rn_slice_is(node->text, "unlimited"));
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
    r->rule->tier_attribute = rn_native_attribute_used(r->builder, by);
    if (r->rule->tier_attribute == RN_NO_ATTRIBUTE)
        return false;
    if (!rn_builder_attribute_at(r->builder, r->rule->tier_attribute)->is_ip)
        return true;
    rn_report_error(r->report, by->at,
                    "limits are not chosen by address; write one limit for each network, with "
                    "when: {ip: 10.0.0.0/8}");
    return false;
}

void rn_limits_read_map(struct rn_limits_reader *r, const struct rn_node *map)
{
    const struct rn_node *own = rn_node_find(map, "default"), *from, *last;
    uint32_t count = 0;

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
        tiers[count].value = rn_native_value(r->builder, r->rule->tier_attribute, node->key->text);
        for (uint32_t i = 0; i < count; i++)
            if (rn_slice_equal(tiers[i].value, tiers[count].value))
                rn_report_error(r->report, node->key->at,
                                "tier %s is given already, in other letters; keep one",
                                rn_excerpt(node->key->text).text);
        rn_limits_read_tier(r, node, &tiers[count++]);
    }
    if (count == 0)
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
