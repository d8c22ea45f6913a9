/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds the tree of index_internal.h. Each candidate of a node is filed under the condition that
 * it shares with the fewest others, with one answer for each value of a one-of; candidates without
 * a condition that can be asked for stay at the node. A bucket that is still crowded becomes a node
 * with more questions about the remaining conditions: ten thousand rules for 50 hosts with 50 paths
 * and four methods each take three questions, not a list of 200.
 *
 * Building takes n log n time and memory for the n values of all conditions.
 */
#include <stdlib.h>

#include "rules/match/index_split_internal.h"
#include "rules/match/match.h"

#define CROWDED 4   /* candidates in a bucket that are not worth another question */
#define DEPTH_MAX 4 /* questions in a row */

struct build {
    const struct rn_index_candidate *candidates;
    size_t candidate_count;
    struct rn_index_list nodes, probes, found;
    struct rn_index_list slots; /* as found; hashed at the end */
    size_t budget;              /* filings below the root: the values of one-ofs multiply there */
};

static int compare_filings(const void *a, const void *b)
{
    const struct rn_index_entry *x = a, *y = b;

    if (x->answer != y->answer)
        return x->answer < y->answer ? -1 : 1;
    return (x->item.candidate > y->item.candidate) - (x->item.candidate < y->item.candidate);
}

/* Files the items under their best conditions, sorted by answer and candidate;
 * those for which nothing is worth asking stay at the node. Below the root a
 * question is worth it if it leaves at most half of them. */
static bool file_items(struct build *b, const struct rn_index_item *items, size_t count,
                       unsigned depth, struct rn_index_list *filings)
{
    struct rn_index_list answers = {.size = sizeof(uint64_t)};
    bool good = rn_index_split_answers(b->candidates, items, count, &answers);

    for (size_t n = 0; good && n < count; n++) {
        const struct rn_index_candidate *candidate = &b->candidates[items[n].candidate];
        uint32_t c = rn_index_split_choose(&answers, candidate, items[n],
                                           depth == 0 ? answers.count : count / 2);
        struct rn_index_item item = items[n];
        uint32_t *stays;

        if (depth > 0 && c != RN_INDEX_SPLIT_NONE &&
            candidate->conditions[c].value_count > b->budget)
            c = RN_INDEX_SPLIT_NONE;
        if (c == RN_INDEX_SPLIT_NONE) {
            good = (stays = rn_index_split_append(&b->found, 1)) != NULL;
            if (good)
                *stays = item.candidate;
            continue;
        }
        b->budget -= depth == 0 ? 0 : candidate->conditions[c].value_count;
        item.used |= UINT32_C(1) << c;
        good = rn_index_split_add(filings, &candidate->conditions[c], item);
    }
    if (filings->count > 0)
        qsort(filings->items, filings->count, filings->size, compare_filings);
    free(answers.items);
    return good;
}

/* The different questions among the filings. */
static bool add_probes(struct build *b, const struct rn_index_entry *filings, size_t count,
                       struct rn_index_node *node)
{
    for (size_t i = 0; i < count; i++) {
        struct rn_index_probe *probe = b->probes.items;
        uint32_t n = 0;

        if (probe)
            probe += node->first_probe;
        while (n < node->probe_count && (probe[n].attribute != filings[i].probe.attribute ||
                                         probe[n].mask != filings[i].probe.mask))
            n++;
        if (n == node->probe_count) {
            struct rn_index_probe *added = rn_index_split_append(&b->probes, 1);

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

static bool build_node(struct build *b, uint32_t number, const struct rn_index_item *items,
                       size_t count, unsigned depth);

/* One answer at node `parent`: the filings from `begin` that have it. A
 * candidate may be among them twice. Leaves *begin behind them. */
static bool build_bucket(struct build *b, uint32_t parent, const struct rn_index_list *filings,
                         size_t *begin, unsigned depth)
{
    const struct rn_index_entry *all = filings->items;
    uint64_t answer = all[*begin].answer;
    uint32_t child = (uint32_t)b->nodes.count;
    struct rn_index_slot *slot = rn_index_split_append(&b->slots, 1);
    struct rn_index_list items = {.size = sizeof(struct rn_index_item)};
    bool good = slot && rn_index_split_append(&b->nodes, 1);

    if (good)
        *slot = (struct rn_index_slot){rn_index_key(parent, answer), parent, child};
    for (size_t i = *begin; good && i < filings->count && all[i].answer == answer; i++, ++*begin) {
        struct rn_index_item *item;

        if (i > 0 && all[i - 1].answer == answer &&
            all[i - 1].item.candidate == all[i].item.candidate)
            continue;
        good = (item = rn_index_split_append(&items, 1)) != NULL;
        if (good)
            *item = all[i].item;
    }
    good = good && build_node(b, child, items.items, items.count, depth);
    free(items.items);
    return good;
}

static bool build_node(struct build *b, uint32_t number, const struct rn_index_item *items,
                       size_t count, unsigned depth)
{
    struct rn_index_node node = {.first_probe = (uint32_t)b->probes.count,
                                 .first_candidate = (uint32_t)b->found.count};
    struct rn_index_list filings = {.size = sizeof(struct rn_index_entry)};
    bool good;

    if (depth > 0 && (count <= CROWDED || depth >= DEPTH_MAX)) {
        uint32_t *found = rn_index_split_append(&b->found, count);

        good = found != NULL;
        for (size_t i = 0; good && i < count; i++)
            found[i] = items[i].candidate;
    } else {
        good = file_items(b, items, count, depth, &filings) &&
               add_probes(b, filings.items, filings.count, &node);
    }
    node.candidate_count = (uint32_t)b->found.count - node.first_candidate;
    if (good)
        ((struct rn_index_node *)b->nodes.items)[number] = node;
    for (size_t at = 0; good && at < filings.count;)
        good = build_bucket(b, number, &filings, &at, depth + 1);
    free(filings.items);
    return good;
}

/* --- into the arena ------------------------------------------------------------- */

static bool keep(struct rn_arena *arena, const struct rn_index_list *list, const void **out)
{
    void *copy = rn_arena_alloc(arena, list->count * list->size);

    if (copy && list->count > 0)
        memcpy(copy, list->items, list->count * list->size);
    *out = copy;
    return copy != NULL;
}

static bool hash_slots(struct rn_arena *arena, const struct rn_index_list *list,
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

/* Every alternative of the rules that requests are found by attributes. */
static bool list_candidates(struct build *b, struct rn_ruleset *ruleset)
{
    struct rn_index_candidate *candidates;
    size_t room = 0;

    for (uint32_t i = 0; i < ruleset->rule_count; i++)
        room += ruleset->rules[i].alternative_count;
    candidates = rn_arena_calloc(&ruleset->arena, room, sizeof *candidates);
    for (uint32_t i = 0; candidates && i < ruleset->rule_count; i++) {
        const struct rn_rule *rule = &ruleset->rules[i];

        for (uint32_t n = 0; !rule->envoy && n < rule->alternative_count; n++)
            candidates[b->candidate_count++] = (struct rn_index_candidate){
                rule, rule->alternatives[n].conditions, rule->alternatives[n].condition_count};
    }
    b->candidates = candidates;
    b->budget = 1000 + 8 * b->candidate_count;
    return candidates != NULL;
}

/* --- members: the values of long one-ofs, in one hash table ------------------------- */

struct members {
    struct rn_index_member *slots; /* NULL: only count */
    uint64_t mask;
    uint64_t count;
};

static void add_conditions(struct members *members, const struct rn_condition *conditions,
                           uint32_t count)
{
    for (uint32_t n = 0; n < count; n++) {
        const struct rn_condition *c = &conditions[n];

        if (c->test != RN_TEST_EQUALS || c->value_count <= RN_INDEX_MANY)
            continue;
        members->count += c->value_count;
        for (uint32_t v = 0; members->slots && v < c->value_count; v++) {
            uint64_t i = rn_index_member_hash(c, c->values[v]);

            while (members->slots[i & members->mask].of)
                i++;
            members->slots[i & members->mask] = (struct rn_index_member){c, &c->values[v]};
        }
    }
}

static void add_all(struct members *members, const struct rn_ruleset *ruleset)
{
    for (uint32_t i = 0; i < ruleset->rule_count; i++)
        for (uint32_t n = 0; n < ruleset->rules[i].alternative_count; n++)
            add_conditions(members, ruleset->rules[i].alternatives[n].conditions,
                           ruleset->rules[i].alternatives[n].condition_count);
    for (uint32_t i = 0; i < ruleset->list_count; i++)
        add_conditions(members, ruleset->lists[i].conditions, ruleset->lists[i].condition_count);
}

static bool add_members(struct rn_match_index *index, struct rn_ruleset *ruleset)
{
    struct members members = {0};
    uint64_t room = 1;

    add_all(&members, ruleset);
    while (room < 2 * members.count)
        room *= 2;
    members.mask = room - 1;
    members.slots = rn_arena_calloc(&ruleset->arena, room, sizeof *members.slots);
    if (!members.slots)
        return false;
    add_all(&members, ruleset);
    index->members = members.slots;
    index->member_mask = members.mask;
    return true;
}

/* --- the whole index --------------------------------------------------------------- */

bool rn_match_index_build(struct rn_ruleset *ruleset)
{
    struct build b = {
        .nodes.size = sizeof(struct rn_index_node),
        .probes.size = sizeof(struct rn_index_probe),
        .found.size = sizeof(uint32_t),
        .slots.size = sizeof(struct rn_index_slot),
    };
    struct rn_arena *arena = &ruleset->arena;
    struct rn_match_index *index = rn_arena_calloc(arena, 1, sizeof *index);
    const void *nodes, *probes, *found;
    struct rn_index_item *items = NULL;
    bool good = index && rn_index_add_names(index, ruleset) && add_members(index, ruleset) &&
                list_candidates(&b, ruleset) && rn_index_split_append(&b.nodes, 1) &&
                (items = calloc(b.candidate_count + 1, sizeof *items));

    for (uint32_t i = 0; good && i < b.candidate_count; i++)
        items[i].candidate = i;
    good = good && build_node(&b, 0, items, b.candidate_count, 0) &&
           keep(arena, &b.nodes, &nodes) && keep(arena, &b.probes, &probes) &&
           keep(arena, &b.found, &found) && hash_slots(arena, &b.slots, index);
    free(items);

    if (good) {
        index->nodes = nodes;
        index->probes = probes;
        index->candidates = b.candidates;
        index->found = found;
        ruleset->index = index;
    }
    free(b.nodes.items);
    free(b.probes.items);
    free(b.found.items);
    free(b.slots.items);
    return good;
}
