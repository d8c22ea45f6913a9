/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The descriptor tree of a domain, as parse.c builds and match.c searches
 * it. A level is a hash table over its nodes, so that thousands of values of
 * one key cost what one does:
 *
 *   (key, value) --> the node of that value, wildcards included
 *   (key)        --> wildcard --> wildcard --> … --> bare key
 *
 * The chain is in the order in which it is tried: patterns as the file has
 * them, the bare key, if any, last.
 */
#ifndef RN_RULES_ENVOY_TREE_INTERNAL_H
#define RN_RULES_ENVOY_TREE_INTERNAL_H

#include "rules/envoy/envoy.h"

struct rn_envoy_node {
    struct rn_slice key, value; /* value empty: the bare key */
    bool wildcard;              /* the value has a `*` */
    bool shared;                /* share_threshold */
    bool value_to_metric;
    uint32_t line, column;
    struct rn_slice file;
    struct rn_envoy_node *next;         /* in the chain of its key */
    const struct rn_envoy_limit *limit; /* NULL: nothing applies here */
    struct rn_envoy_level *below;       /* NULL: no children */
};

struct rn_envoy_slot {
    uint64_t hash;
    struct rn_envoy_node *node; /* NULL: free */
    bool chain;                 /* the head of a key's chain, else a node by its value */
};

struct rn_envoy_level {
    struct rn_envoy_slot *slots;
    uint32_t mask; /* number of slots, a power of two, less one */
};

/* Sorted by name. */
struct rn_envoy_domain {
    struct rn_slice name, file;
    struct rn_envoy_level *top; /* NULL: no descriptors */
};

/* The number of slots for a level of `count` nodes: at most half of them are used. */
uint32_t rn_envoy_level_slots(uint32_t count);

/* Adds a node whose key, value and wildcard are set. If a node with this key and value exists,
 * returns that and changes nothing; otherwise NULL. */
struct rn_envoy_node *rn_envoy_level_add(struct rn_envoy_level *level, struct rn_envoy_node *node);

/* The node for an entry of a request, or NULL. */
const struct rn_envoy_node *rn_envoy_level_find(const struct rn_envoy_level *level,
                                                const struct rn_envoy_entry *entry);

/* The index of a domain in a sorted array, or the index at which to insert it. */
uint32_t rn_envoy_domain_place(const struct rn_envoy_domain *domains, uint32_t count,
                               struct rn_slice name);

#endif
