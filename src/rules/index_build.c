/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds the tree of index.h. Each rule of a node is filed under the one of its
 * conditions that the fewest other rules share (one answer per value of a
 * one-of); rules without a condition that can be asked for stay at the node. A
 * bucket that is still crowded becomes a node with questions of its own about
 * the conditions that are left: ten thousand rules for 50 hosts with 50 paths
 * and four methods each are three questions, not a list of 200.
 *
 * Costs n log n in the values of all conditions, and temporary memory for them.
 */
#include <stdlib.h>

#include "rules/filing.h"
#include "rules/match.h"

#define CROWDED 4   /* rules in a bucket that are not worth another question */
#define DEPTH_MAX 4 /* questions in a row */

struct build {
    struct rn_ruleset *ruleset;
    struct rn_filing_list nodes, probes, rules;
    struct rn_filing_list slots; /* as found; hashed at the end */
    size_t budget;               /* filings below the root: the values of one-ofs multiply there */
};

static int compare_filings(const void *a, const void *b)
{
    const struct rn_filing *x = a, *y = b;

    if (x->answer != y->answer)
        return x->answer < y->answer ? -1 : 1;
    return (x->item.rule > y->item.rule) - (x->item.rule < y->item.rule);
}

/* Files the items under their best conditions, sorted by answer and rule; those
 * for which nothing is worth asking become rules of the node. Below the root a
 * question is worth it if it leaves at most half of the rules. */
static bool file_items(struct build *b, const struct rn_filing_item *items, size_t count,
                       unsigned depth, struct rn_filing_list *filings)
{
    struct rn_filing_list answers = {.size = sizeof(uint64_t)};
    bool good = rn_filing_answers(b->ruleset, items, count, &answers);

    for (size_t n = 0; good && n < count; n++) {
        const struct rn_rule *rule = &b->ruleset->rules[items[n].rule];
        uint32_t c =
            rn_filing_choose(&answers, rule, items[n], depth == 0 ? answers.count : count / 2);
        struct rn_filing_item item = items[n];
        uint32_t *stays;

        if (depth > 0 && c != RN_FILING_NONE && rule->conditions[c].value_count > b->budget)
            c = RN_FILING_NONE;
        if (c == RN_FILING_NONE) {
            good = (stays = rn_filing_append(&b->rules, 1)) != NULL;
            if (good)
                *stays = item.rule;
            continue;
        }
        b->budget -= depth == 0 ? 0 : rule->conditions[c].value_count;
        item.used |= UINT32_C(1) << c;
        good = rn_filing_add(filings, &rule->conditions[c], item);
    }
    if (filings->count > 0)
        qsort(filings->items, filings->count, filings->size, compare_filings);
    free(answers.items);
    return good;
}

/* The different questions among the filings. */
static bool add_probes(struct build *b, const struct rn_filing *filings, size_t count,
                       struct rn_index_node *node)
{
    for (size_t i = 0; i < count; i++) {
        struct rn_probe *probe = b->probes.items;
        uint32_t n = 0;

        if (probe)
            probe += node->first_probe;
        while (n < node->probe_count && (probe[n].attribute != filings[i].probe.attribute ||
                                         probe[n].mask != filings[i].probe.mask))
            n++;
        if (n == node->probe_count) {
            struct rn_probe *added = rn_filing_append(&b->probes, 1);

            if (!added)
                return false;
            *added = filings[i].probe;
            node->probe_count++;
        } else if (probe[n].longest < filings[i].probe.longest) {
            probe[n].longest = filings[i].probe.longest;
        }
    }
    return true;
}

static bool build_node(struct build *b, uint32_t number, const struct rn_filing_item *items,
                       size_t count, unsigned depth);

/* One answer at node `parent`: the filings from `begin` that have it. A rule may
 * be among them twice. Leaves *begin behind them. */
static bool build_bucket(struct build *b, uint32_t parent, const struct rn_filing_list *filings,
                         size_t *begin, unsigned depth)
{
    const struct rn_filing *all = filings->items;
    uint64_t answer = all[*begin].answer;
    uint32_t child = (uint32_t)b->nodes.count;
    struct rn_index_slot *slot = rn_filing_append(&b->slots, 1);
    struct rn_filing_list items = {.size = sizeof(struct rn_filing_item)};
    bool good = slot && rn_filing_append(&b->nodes, 1);

    if (good)
        *slot = (struct rn_index_slot){rn_index_key(parent, answer), parent, child};
    for (size_t i = *begin; good && i < filings->count && all[i].answer == answer; i++, ++*begin) {
        struct rn_filing_item *item;

        if (i > 0 && all[i - 1].answer == answer && all[i - 1].item.rule == all[i].item.rule)
            continue;
        good = (item = rn_filing_append(&items, 1)) != NULL;
        if (good)
            *item = all[i].item;
    }
    good = good && build_node(b, child, items.items, items.count, depth);
    free(items.items);
    return good;
}

static bool build_node(struct build *b, uint32_t number, const struct rn_filing_item *items,
                       size_t count, unsigned depth)
{
    struct rn_index_node node = {.first_probe = (uint32_t)b->probes.count,
                                 .first_rule = (uint32_t)b->rules.count};
    struct rn_filing_list filings = {.size = sizeof(struct rn_filing)};
    bool good;

    if (depth > 0 && (count <= CROWDED || depth >= DEPTH_MAX)) {
        uint32_t *rules = rn_filing_append(&b->rules, count);

        good = rules != NULL;
        for (size_t i = 0; good && i < count; i++)
            rules[i] = items[i].rule;
    } else {
        good = file_items(b, items, count, depth, &filings) &&
               add_probes(b, filings.items, filings.count, &node);
    }
    node.rule_count = (uint32_t)b->rules.count - node.first_rule;
    if (good)
        ((struct rn_index_node *)b->nodes.items)[number] = node;
    for (size_t at = 0; good && at < filings.count;)
        good = build_bucket(b, number, &filings, &at, depth + 1);
    free(filings.items);
    return good;
}

/* --- into the arena ------------------------------------------------------------- */

static bool keep(struct rn_arena *arena, const struct rn_filing_list *list, const void **out)
{
    void *copy = rn_arena_alloc(arena, list->count * list->size);

    if (copy && list->count > 0)
        memcpy(copy, list->items, list->count * list->size);
    *out = copy;
    return copy != NULL;
}

static bool hash_slots(struct rn_arena *arena, const struct rn_filing_list *list,
                       struct rn_match_index *index)
{
    const struct rn_index_slot *found = list->items;
    uint64_t room = 16;
    struct rn_index_slot *slots;

    while (room < 2 * (uint64_t)list->count)
        room *= 2;
    slots = rn_arena_alloc(arena, room * sizeof *slots);
    if (!slots)
        return false;
    for (uint64_t i = 0; i < room; i++)
        slots[i] = (struct rn_index_slot){.leads = RN_INDEX_NONE};
    for (size_t n = 0; n < list->count; n++) {
        uint64_t i = found[n].key >> 20;

        while (slots[i & (room - 1)].leads != RN_INDEX_NONE)
            i++;
        slots[i & (room - 1)] = found[n];
    }
    index->slots = slots;
    index->slot_mask = room - 1;
    return true;
}

static bool build_tree(struct build *b)
{
    struct rn_filing_list items = {.size = sizeof(struct rn_filing_item)};
    bool good = rn_filing_append(&b->nodes, 1) != NULL;

    for (uint32_t i = 0; good && i < b->ruleset->rule_count; i++) {
        struct rn_filing_item *item;

        if (b->ruleset->rules[i].envoy)
            continue;
        good = (item = rn_filing_append(&items, 1)) != NULL;
        if (good)
            *item = (struct rn_filing_item){.rule = i};
    }
    good = good && build_node(b, 0, items.items, items.count, 0);
    free(items.items);
    return good;
}

bool rn_match_index_build(struct rn_ruleset *ruleset)
{
    struct build b = {
        .ruleset = ruleset,
        .nodes.size = sizeof(struct rn_index_node),
        .probes.size = sizeof(struct rn_probe),
        .rules.size = sizeof(uint32_t),
        .slots.size = sizeof(struct rn_index_slot),
        .budget = 1000 + 8 * (size_t)ruleset->rule_count,
    };
    struct rn_arena *arena = &ruleset->arena;
    struct rn_match_index *index = rn_arena_calloc(arena, 1, sizeof *index);
    const void *nodes, *probes, *rules;
    bool good = index && rn_index_add_names(index, ruleset) &&
                rn_index_add_members(index, ruleset) && build_tree(&b) &&
                keep(arena, &b.nodes, &nodes) && keep(arena, &b.probes, &probes) &&
                keep(arena, &b.rules, &rules) && hash_slots(arena, &b.slots, index);

    if (good) {
        index->nodes = nodes;
        index->probes = probes;
        index->rules = rules;
        ruleset->index = index;
    }
    free(b.nodes.items);
    free(b.probes.items);
    free(b.rules.items);
    free(b.slots.items);
    return good;
}
