/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maps the names of attributes in a request to the attributes of rules. One name may stand for
 * several attributes, such as two that come from the same header; `ip` and `path` are always there
 * because others are derived from them.
 */
#include "rules/match/index_internal.h"

#define HEADER "header."

/* Names while they are collected. */
struct names {
    struct rn_index_name *items;
    uint16_t *slots;
    uint64_t mask;
    uint16_t count;
};

/* The number of a name, new or known. */
static uint16_t add_name(struct names *names, struct rn_slice text)
{
    for (uint64_t i = rn_index_hash(0, text) >> 20;; i++) {
        uint16_t *slot = &names->slots[i & names->mask];

        if (*slot == 0) {
            names->items[names->count] = (struct rn_index_name){text, RN_NO_ATTRIBUTE};
            *slot = ++names->count;
            return (uint16_t)(*slot - 1);
        }
        if (rn_slice_equal(names->items[*slot - 1].text, text))
            return (uint16_t)(*slot - 1);
    }
}

static bool feed(struct names *names, uint16_t *next, struct rn_ruleset *ruleset, uint16_t number)
{
    const struct rn_attribute *attribute = &ruleset->attributes[number];
    struct rn_slice text = attribute->name; /* in a request */
    struct rn_index_name *name;

    next[number] = RN_NO_ATTRIBUTE;
    if (attribute->source != RN_SOURCE_REQUEST && attribute->source != RN_SOURCE_HEADER)
        return true;
    if (attribute->source == RN_SOURCE_HEADER) {
        size_t prefix = sizeof HEADER - 1;
        char *full = rn_arena_alloc(&ruleset->arena, prefix + attribute->header.len);

        if (!full)
            return false;
        memcpy(full, HEADER, prefix);
        memcpy(full + prefix, attribute->header.data, attribute->header.len);
        text = (struct rn_slice){full, prefix + attribute->header.len};
    }
    name = &names->items[add_name(names, text)];
    next[number] = name->attribute;
    name->attribute = number;
    return true;
}

/* For the names of all attributes, and those that are known without one. */
static bool allocate(struct names *names, struct rn_ruleset *ruleset)
{
    uint64_t most = (uint64_t)ruleset->attribute_count + RN_NAMES_FIXED, room = 32;

    while (room < 4 * most)
        room *= 2;
    names->mask = room - 1;
    names->items = rn_arena_calloc(&ruleset->arena, most, sizeof *names->items);
    names->slots = rn_arena_calloc(&ruleset->arena, room, sizeof *names->slots);
    return names->items && names->slots;
}

bool rn_index_add_names(struct rn_match_index *index, struct rn_ruleset *ruleset)
{
    uint16_t *next = rn_arena_calloc(&ruleset->arena, ruleset->attribute_count, sizeof *next);
    uint16_t *derived = rn_arena_calloc(&ruleset->arena, ruleset->attribute_count, sizeof *derived);
    struct names names = {0};

    if (!next || !derived || !allocate(&names, ruleset))
        return false;
    add_name(&names, RN_SLICE("ip")); /* as they are numbered: RN_NAME_IP, */
    add_name(&names, RN_SLICE("path"));
    add_name(&names, RN_SLICE("host"));
    add_name(&names, RN_SLICE("method"));
    for (uint16_t i = 0; i < ruleset->attribute_count; i++)
        if (!feed(&names, next, ruleset, i))
            return false;
    /* Attributes computed from others, and those not compared as text. */
    index->path_header = RN_NO_ATTRIBUTE;
    for (uint16_t i = 0; i < ruleset->attribute_count; i++) {
        const struct rn_attribute *a = &ruleset->attributes[i];

        if (a->is_ip || a->is_number || a->source == RN_SOURCE_PATH ||
            a->source == RN_SOURCE_FORWARDED || a->source == RN_SOURCE_GEO)
            derived[index->derived_count++] = i;
        if (a->source == RN_SOURCE_HEADER && rn_slice_is(a->name, "path"))
            index->path_header = i;
    }
    index->derived = derived;
    for (uint16_t i = 0; i < names.count; i++)
        index->name_lengths |= UINT64_C(1) << names.items[i].text.len % 64;
    index->names = names.items;
    index->name_slots = names.slots;
    index->name_mask = names.mask;
    index->next = next;
    return true;
}
