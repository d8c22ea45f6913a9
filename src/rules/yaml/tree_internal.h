/* SPDX-License-Identifier: Apache-2.0 */
/* Builds the tree of a document, for document.c. */
#ifndef RN_RULES_YAML_TREE_INTERNAL_H
#define RN_RULES_YAML_TREE_INTERNAL_H

#include "rules/yaml/document.h"

/* A list or map that is open. */
struct rn_tree_frame {
    struct rn_node *node;
    struct rn_node *last; /* its newest child */
    struct rn_node *key;  /* the key of the next value */
    bool is_merge;        /* that value belongs to "<<" and is dropped */
};

struct rn_tree_anchor {
    struct rn_slice name;
    struct rn_node *node;
};

struct rn_tree {
    struct rn_arena *arena;
    struct rn_report *report;
    uint32_t file;
    struct rn_node *root;
    uint32_t nodes;
    unsigned depth, anchor_count;
    struct rn_tree_frame frames[RN_DOCUMENT_DEPTH];
    struct rn_tree_anchor anchors[RN_DOCUMENT_ANCHORS];
};

/* Each of these returns 0, or an error code after reporting an error that ends the reading. */

/* Adds a scalar, or begins a list or map, which rn_tree_close ends. Uses kind, quoted, at and text
 * of the model; the text is copied. An empty anchor: none. */
int rn_tree_add(struct rn_tree *tree, const struct rn_node *model, struct rn_slice anchor);

int rn_tree_alias(struct rn_tree *tree, struct rn_place at, struct rn_slice name);

/* Ends the innermost list or map. */
int rn_tree_close(struct rn_tree *tree);

#endif
