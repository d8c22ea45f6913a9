/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The path of a descriptor through Envoy's tree: the node each pair matches, and where the match
 * ends.
 */
#include <inttypes.h>

#include "cli/explain/explain.h"
#include "cli/output/decision.h"
#include "rules/envoy/tree_internal.h"

#define SHOWN 6 /* at most this many alternatives are listed */

struct path {
    const struct rn_envoy_domain *domain; /* NULL: unknown */
    struct rn_envoy_entry entries[RN_ENVOY_DEPTH_MAX];
    const struct rn_envoy_node *nodes[RN_ENVOY_DEPTH_MAX];
    size_t count, found;                /* pairs of the descriptor; pairs that match a node */
    const struct rn_envoy_level *level; /* below the last node; NULL: nothing */
    const struct rn_envoy_limit *limit; /* NULL: none applies */
    struct rn_slice parts[RN_ENVOY_PARTS_MAX];
    uint32_t part_count;
};

static void walk(const struct rn_offline *s, struct path *path)
{
    const struct rn_ruleset *ruleset = s->ruleset;
    const struct ration_attribute *given = &s->options->attributes[0];
    struct rn_slice name = {given->value, given->value_len};
    uint32_t place = rn_envoy_domain_place(ruleset->domains, ruleset->domain_count, name);

    path->count = rn_offline_entries(s, path->entries);
    if (place < ruleset->domain_count && rn_slice_equal(ruleset->domains[place].name, name))
        path->domain = &ruleset->domains[place];
    path->level = path->domain != NULL ? path->domain->top : NULL;
    while (path->found < path->count && path->level != NULL) {
        const struct rn_envoy_node *node =
            rn_envoy_level_find(path->level, &path->entries[path->found]);

        if (node == NULL)
            break;
        path->nodes[path->found++] = node;
        path->level = node->below;
    }
    path->limit =
        rn_envoy_match(ruleset, name, path->entries, path->count, path->parts, &path->part_count);
}

/* --- for people -------------------------------------------------------------------- */

/* Where the match ends, and what is known there: domains, or keys and values. */
static void put_stop(const struct rn_output *out, const struct path *path,
                     const struct rn_ruleset *ruleset)
{
    const struct rn_envoy_level *level = path->level;
    size_t count = 0;

    rn_output_put(out, RN_BAD, "    - ");
    if (path->domain == NULL) {
        rn_output_put(out, RN_PLAIN,
                      ruleset->domain_count == 0 ? "no file is for a domain"
                                                 : "no file has this domain; known: ");
        for (; count < ruleset->domain_count && count < SHOWN; count++) {
            rn_output_put(out, RN_PLAIN, count == 0 ? "" : ", ");
            rn_output_escaped(out, ruleset->domains[count].name);
        }
        rn_output_put(out, RN_PLAIN, "\n");
        return;
    }
    if (path->found < path->count) {
        rn_output_pair(out, "", path->entries[path->found].key, path->entries[path->found].value);
        rn_output_put(out, RN_PLAIN, " is not found");
    } else {
        rn_output_put(out, RN_PLAIN, "no limit here: the descriptor must have more pairs");
    }
    for (uint32_t i = 0; level != NULL && i <= level->mask; i++) {
        const struct rn_envoy_node *node = level->slots[i].node;

        if (node == NULL || level->slots[i].chain || count++ >= SHOWN)
            continue;
        rn_output_put(out, RN_PLAIN, count == 1 ? "; known here: " : ", ");
        rn_output_escaped(out, node->key);
        rn_output_put(out, RN_PLAIN, node->value.len != 0 ? "=" : "");
        rn_output_escaped(out, node->value);
    }
    if (count > SHOWN)
        rn_output_put(out, RN_PLAIN, " and %zu more", count - SHOWN);
    if (count == 0)
        rn_output_put(out, RN_PLAIN, "; the descriptors end here");
    rn_output_put(out, RN_PLAIN, "\n");
}

static void put_limit(const struct rn_output *out, const struct path *path, uint64_t cost,
                      const struct ration_outcome *o)
{
    const struct rn_envoy_limit *limit = path->limit;
    const struct ration_verdict *left = &o->limits[0].verdict;
    char text[RN_LIMIT_TEXT];

    rn_output_put(out, RN_DIM, "    key     ");
    for (uint32_t i = 0; i + 1 < path->part_count; i += 2)
        rn_output_pair(out, i == 0 ? "" : ", ", path->parts[i], path->parts[i + 1]);
    rn_output_put(out, RN_DIM, "\n    limit   ");
    rn_output_put(out, RN_PLAIN, "%s", rn_cli_decision_limit(limit->limit, text));
    if (o->kind == RATION_BY_LIMITS && o->listed > 0 && (o->listed > 1 || o->limit_count == 1))
        rn_output_put(out, RN_PLAIN, "; %" PRIu64 " of %" PRIu64 " left", left->remaining,
                      left->limit);
    rn_output_put(out, RN_DIM, "\n    cost    ");
    rn_output_put(out, RN_PLAIN, "%" PRIu64 "\n", cost == 0 ? 1 : cost);
    if (limit->shadow_mode)
        rn_output_put(out, RN_ODD, "    mode    shadow: counted, never refused\n");
}

void rn_cli_explain_put_descriptor(const struct rn_output *out, const struct rn_offline *offline,
                                   const struct ration_outcome *outcome)
{
    struct path path = {.domain = NULL};

    walk(offline, &path);
    rn_output_put(out, RN_BOLD, "descriptor ");
    if (path.limit != NULL && path.limit->rule != NULL)
        rn_output_put(out, RN_GOOD, "finds %.*s", (int)path.limit->rule->name.len,
                      path.limit->rule->name.data);
    else
        rn_output_put(out, RN_DIM, path.limit != NULL ? "is white-listed" : "finds no limit");
    rn_output_put(out, RN_PLAIN, path.domain != NULL ? "  " : "");
    rn_output_escaped(out, path.domain != NULL ? path.domain->file : RN_SLICE(""));
    rn_output_put(out, RN_PLAIN, "\n");
    for (size_t i = 0; i < path.found; i++) {
        const struct rn_envoy_node *node = path.nodes[i];

        rn_output_put(out, RN_GOOD, "    + ");
        rn_output_pair(out, "", path.entries[i].key, path.entries[i].value);
        rn_output_put(out, RN_PLAIN,
                      node->value.len == 0 ? " is found by its key"
                      : node->wildcard     ? " matches "
                                           : " is ");
        rn_output_escaped(out, node->value);
        rn_output_put(out, RN_DIM, "  line %" PRIu32 "\n", node->line);
    }
    if (path.limit == NULL)
        put_stop(out, &path, offline->ruleset);
    else if (path.limit->limit != NULL)
        put_limit(out, &path, offline->options->cost, outcome);
    else if (path.limit->unlimited)
        rn_output_put(out, RN_DIM, "    limit   unlimited\n");
    rn_output_put(out, RN_PLAIN, "\n");
}

/* --- for programs ------------------------------------------------------------------ */

void rn_cli_explain_json_descriptor(void *offline, struct rn_members *m)
{
    struct path path = {.domain = NULL};

    walk(offline, &path);
    rn_members_open(m, "descriptor", '[');
    for (size_t i = 0; i < path.count; i++) {
        rn_members_open(m, NULL, '{');
        rn_members_text(m, "key", path.entries[i].key);
        rn_members_text(m, "value", path.entries[i].value);
        rn_members_bool(m, "found", i < path.found);
        if (i < path.found) {
            rn_members_text(m, "by", path.nodes[i]->value);
            rn_members_u64(m, "line", path.nodes[i]->line);
        }
        rn_members_close(m, '}');
    }
    rn_members_close(m, ']');
}

void rn_cli_explain_json_descriptor_rule(void *offline, struct rn_members *m)
{
    struct path path = {.domain = NULL};
    const struct rn_rule *rule;

    walk(offline, &path);
    if (path.limit == NULL || path.limit->rule == NULL)
        return;
    rule = path.limit->rule;
    rn_members_open(m, NULL, '{');
    rn_members_text(m, "rule", rule->name);
    rn_members_text(m, "file", rule->file);
    rn_members_u64(m, "line", rule->line);
    rn_members_bool(m, "applies", true);
    rn_members_text(m, "why", rn_slice_of(path.limit->unlimited ? "unlimited" : "applies"));
    rn_members_open(m, "key", '[');
    for (uint32_t i = 0; i < path.part_count; i++)
        rn_members_text(m, NULL, path.parts[i]);
    rn_members_close(m, ']');
    rn_members_close(m, '}');
}
