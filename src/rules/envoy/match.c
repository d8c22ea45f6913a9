/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the limit of a descriptor: one step down the tree per entry, with at most two hash lookups
 * and the wildcards of that key. parse.c builds the tree.
 */
#include "base/siphash.h"
#include "rules/envoy/tree_internal.h"
#include "rules/match/pattern.h"

/* No secret is needed: only the operator's files fill the tables. */
static const struct rn_hash_key no_secret = {0x726174696f6e2e65, 0x6e766f792e747265};

static uint64_t hash_key(struct rn_slice key)
{
    return rn_siphash(&no_secret, key.data, key.len);
}

static uint64_t hash_value(struct rn_slice key, struct rn_slice value)
{
    struct rn_siphash s;

    rn_siphash_init(&s, &no_secret);
    rn_siphash_add(&s, key.data, key.len);
    rn_siphash_add(&s, value.data, value.len);
    return rn_siphash_done(&s);
}

/* The slot of a chain (value NULL) or of a value, or the free slot for it. There always is one: see
 * rn_envoy_level_slots. */
static struct rn_envoy_slot *find_slot(const struct rn_envoy_level *level, uint64_t hash,
                                       struct rn_slice key, const struct rn_slice *value)
{
    for (uint64_t i = hash;; i++) {
        struct rn_envoy_slot *slot = &level->slots[i & level->mask];

        if (!slot->node)
            return slot;
        if (slot->hash == hash && slot->chain == !value && rn_slice_equal(slot->node->key, key) &&
            (!value || rn_slice_equal(slot->node->value, *value)))
            return slot;
    }
}

/* --- building ------------------------------------------------------------------- */

uint32_t rn_envoy_level_slots(uint32_t count)
{
    uint32_t slots = 4; /* a node takes two at most: its value and the head of a chain */

    while (slots < count * 4)
        slots *= 2;
    return slots;
}

struct rn_envoy_node *rn_envoy_level_add(struct rn_envoy_level *level, struct rn_envoy_node *node)
{
    uint64_t hash = hash_value(node->key, node->value);
    struct rn_envoy_slot *slot = find_slot(level, hash, node->key, &node->value);

    if (slot->node)
        return slot->node;
    *slot = (struct rn_envoy_slot){.hash = hash, .node = node};
    if (!node->wildcard && node->value.len != 0)
        return NULL;
    /* Insert it into the chain of the key: after all wildcards, and the bare key last. */
    hash = hash_key(node->key);
    slot = find_slot(level, hash, node->key, NULL);
    struct rn_envoy_node **end = &slot->node;

    slot->hash = hash;
    slot->chain = true;
    while (*end && (!node->wildcard || (*end)->wildcard))
        end = &(*end)->next;
    node->next = *end;
    *end = node;
    return NULL;
}

/* --- searching ------------------------------------------------------------------ */

const struct rn_envoy_node *rn_envoy_level_find(const struct rn_envoy_level *level,
                                                const struct rn_envoy_entry *entry)
{
    const struct rn_envoy_node *node =
        find_slot(level, hash_value(entry->key, entry->value), entry->key, &entry->value)->node;

    /* Neither a pattern spelled out by the request nor an empty value is exact. */
    if (node && !node->wildcard && node->value.len != 0)
        return node;
    node = find_slot(level, hash_key(entry->key), entry->key, NULL)->node;
    while (node && node->wildcard && !rn_pattern_match(node->value, entry->value))
        node = node->next;
    return node;
}

uint32_t rn_envoy_domain_place(const struct rn_envoy_domain *domains, uint32_t count,
                               struct rn_slice name)
{
    uint32_t low = 0, high = count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (rn_slice_compare(domains[middle].name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static const struct rn_envoy_level *find_domain(const struct rn_ruleset *ruleset,
                                                struct rn_slice name)
{
    uint32_t i = rn_envoy_domain_place(ruleset->domains, ruleset->domain_count, name);

    if (i == ruleset->domain_count || !rn_slice_equal(ruleset->domains[i].name, name))
        return NULL;
    return ruleset->domains[i].top;
}

bool rn_envoy_has_domain(const struct rn_ruleset *ruleset, struct rn_slice domain)
{
    return find_domain(ruleset, domain) != NULL;
}

const struct rn_envoy_limit *rn_envoy_match(const struct rn_ruleset *ruleset,
                                            struct rn_slice domain,
                                            const struct rn_envoy_entry *entries, size_t count,
                                            struct rn_slice parts[RN_ENVOY_PARTS_MAX],
                                            uint32_t *part_count)
{
    const struct rn_envoy_level *level = find_domain(ruleset, domain);
    const struct rn_envoy_node *node = NULL;

    if (count > RN_ENVOY_DEPTH_MAX)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        node = level ? rn_envoy_level_find(level, &entries[i]) : NULL;
        if (!node)
            return NULL;
        parts[2 * i] = node->key;
        parts[2 * i + 1] = node->shared ? node->value : entries[i].value;
        level = node->below;
    }
    if (!node || !node->limit)
        return NULL;
    *part_count = (uint32_t)(2 * count);
    return node->limit;
}
