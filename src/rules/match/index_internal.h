/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The index, which finds the rules of a request without looking at the others.
 *
 *   names    the name of an attribute in a request -> the attributes of rules
 *   candidates
 *            every alternative of every rule
 *   nodes    a decision tree; node 0 is the root. A node asks a few questions
 *            (probes) whose answers lead to further nodes, and holds the candidates
 *            for which no question is left:
 *
 *            node 0   host?        path & 101?             candidates 7 12
 *                      |              |
 *              api.example.com   /users, 3rd: posts
 *                      |              |
 *                   node 1 ...     node 2   candidates 3
 *   slots    (node, question, answer) -> node: one open-addressing hash table
 *            for all nodes
 *   members  the values of long one-ofs, of rules and of allow and deny lists:
 *            a thousand API keys are one lookup
 *
 * A question is "what is the value of attribute A" or "what are segments 0, 2,
 * ... of path A" (a mask: bit i is segment i). The table compares hashes only;
 * then all conditions of a candidate are checked. A request can collide with a
 * bucket but never make one longer: only the rules file fills the table.
 */
#ifndef RN_RULES_MATCH_INDEX_INTERNAL_H
#define RN_RULES_MATCH_INDEX_INTERNAL_H

#include <stdint.h>
#include <string.h>

#include "rules/ruleset.h"

#define RN_INDEX_SEGMENTS 16 /* segments of a path that questions may ask for */
#define RN_INDEX_NONE UINT32_MAX

struct rn_index_probe {
    uint16_t attribute;
    uint16_t mask;    /* bits of segments; 0: the whole value */
    uint32_t longest; /* mask 0: no rule has a longer value */
};

/* An alternative of a rule. */
struct rn_index_candidate {
    const struct rn_rule *rule;
    const struct rn_condition *conditions; /* all must hold */
    uint32_t condition_count;
};

struct rn_index_node {
    uint32_t first_probe, probe_count;         /* in probes */
    uint32_t first_candidate, candidate_count; /* in found, ascending */
};

struct rn_index_slot {
    uint64_t key;   /* rn_index_key: no two answers at one node have the same */
    uint32_t at;    /* the node whose answer this is */
    uint32_t leads; /* to this node; RN_INDEX_NONE: free */
};

#define RN_INDEX_MANY 8 /* values of a one-of; more are members */

struct rn_index_member {
    const struct rn_condition *of; /* NULL: free */
    const struct rn_slice *value;  /* one of its values */
};

/* A name under which a request gives an attribute. */
struct rn_index_name {
    struct rn_slice text;
    uint16_t attribute; /* the first attribute with that name; `next` has the others */
};

/* Numbers of names that need more than a copy; the others follow. */
enum { RN_NAME_IP, RN_NAME_PATH, RN_NAME_HOST, RN_NAME_METHOD, RN_NAMES_FIXED };

struct rn_match_index {
    const struct rn_index_node *nodes;
    const struct rn_index_probe *probes;
    const struct rn_index_candidate *candidates;
    const uint32_t *found; /* numbers in `candidates`, as the nodes hold them */
    const struct rn_index_slot *slots;
    uint64_t slot_mask;

    const struct rn_index_member *members;
    uint64_t member_mask;

    const struct rn_index_name *names;
    const uint16_t *name_slots; /* number in `names` plus 1; 0: free */
    uint64_t name_mask;
    uint64_t name_lengths;   /* a bit for each length that a name has, modulo 64 */
    const uint16_t *next;    /* by attribute: another of the same name, RN_NO_ATTRIBUTE */
    const uint16_t *derived; /* attributes that need more than a copy, ascending */
    uint32_t derived_count;
    uint16_t path_header; /* the attribute `path` if a header has it, else RN_NO_ATTRIBUTE */
};

static inline uint64_t rn_index_mix(uint64_t h, uint64_t word)
{
    h = (h ^ word) * UINT64_C(0x9E3779B97F4A7C15);
    return h ^ h >> 29;
}

static inline uint64_t rn_index_word(const char *at, size_t len)
{
    uint64_t word = 0;

    memcpy(&word, at, len);
    return word;
}

/* Without a key, which is not needed: see above. */
static inline uint64_t rn_index_hash(uint64_t seed, struct rn_slice text)
{
    uint64_t h = rn_index_mix(seed, text.len);
    size_t n = text.len;
    const char *at = text.data;

    for (; n > 8; n -= 8, at += 8)
        h = rn_index_mix(h, rn_index_word(at, 8));
    if (n >= 4) /* the two halves may overlap */
        return rn_index_mix(h, rn_index_word(at, 4) | rn_index_word(at + n - 4, 4) << 32);
    if (n == 0)
        return h;
    return rn_index_mix(h, (uint64_t)(unsigned char)at[0] |
                               (uint64_t)(unsigned char)at[n / 2] << 8 |
                               (uint64_t)(unsigned char)at[n - 1] << 16);
}

static inline uint64_t rn_index_seed(uint16_t attribute, uint16_t mask)
{
    return rn_index_mix((uint64_t)attribute << 16 | mask, 0);
}

/* Hashes the segments of a path that a mask selects: start with rn_index_seed, then add each. */
static inline uint64_t rn_index_add_segment(uint64_t h, uint64_t segment_hash)
{
    return rn_index_mix(h, segment_hash);
}

/* An answer given at a node. */
static inline uint64_t rn_index_key(uint32_t node, uint64_t answer)
{
    return rn_index_mix(answer, node);
}

static inline uint32_t rn_index_find(const struct rn_match_index *index, uint32_t node,
                                     uint64_t answer)
{
    uint64_t key = rn_index_key(node, answer);

    for (uint64_t i = key >> 20;; i++) {
        const struct rn_index_slot *slot = &index->slots[i & index->slot_mask];

        if (slot->leads == RN_INDEX_NONE || (slot->key == key && slot->at == node))
            return slot->leads;
    }
}

/* The number of a name, UINT16_MAX if no rule needs it. */
static inline uint16_t rn_index_name(const struct rn_match_index *index, struct rn_slice text)
{
    if (!(index->name_lengths >> text.len % 64 & 1))
        return UINT16_MAX;
    for (uint64_t i = rn_index_hash(0, text) >> 20;; i++) {
        uint16_t slot = index->name_slots[i & index->name_mask];

        if (slot == 0)
            return UINT16_MAX;
        if (rn_slice_equal(index->names[slot - 1].text, text))
            return (uint16_t)(slot - 1);
    }
}

static inline uint64_t rn_index_member_hash(const struct rn_condition *of, struct rn_slice value)
{
    return rn_index_hash((uint64_t)(uintptr_t)of, value) >> 20;
}

/* Whether a condition with more than RN_INDEX_MANY values has this one. */
static inline bool rn_index_has(const struct rn_match_index *index, const struct rn_condition *of,
                                struct rn_slice value)
{
    for (uint64_t i = rn_index_member_hash(of, value);; i++) {
        const struct rn_index_member *member = &index->members[i & index->member_mask];

        if (!member->of)
            return false;
        if (member->of == of && rn_slice_equal(*member->value, value))
            return true;
    }
}

/* Fills the names part of the index. False: out of memory. */
bool rn_index_add_names(struct rn_match_index *index, struct rn_ruleset *ruleset);

#endif
