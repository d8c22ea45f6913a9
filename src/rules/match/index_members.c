/* SPDX-License-Identifier: Apache-2.0 */
/* The members part of the index: the values of long one-ofs in one hash table. */
#include "rules/match/index_internal.h"

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

bool rn_index_add_members(struct rn_match_index *index, struct rn_ruleset *ruleset)
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
