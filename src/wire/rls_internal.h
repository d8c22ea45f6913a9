/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to the files of Envoy's messages: metadata as a tree.
 */
#ifndef RN_WIRE_RLS_INTERNAL_H
#define RN_WIRE_RLS_INTERNAL_H

#include "wire/rls.h"

struct rn_rls_node {
    struct rn_slice name;
    const struct ration_metadata *leaf; /* set if it has no children */
    struct rn_rls_node *first, *next;   /* its first child, its next sibling */
    size_t count;                       /* number of children */
};

enum rn_rls_kind {
    RN_RLS_MAP,
    RN_RLS_LIST, /* its children are named 0, 1, ... */
    RN_RLS_NULL,
    RN_RLS_TRUE,
    RN_RLS_FALSE,
    RN_RLS_NUMBER,
    RN_RLS_TEXT,
};

/* Allocates from the arena; NULL: it is exhausted. */
void *rn_rls_take(struct rn_rls_reader *reader, size_t bytes);

/* The tree of all leaves; NULL: there are none, or no room. */
struct rn_rls_node *rn_rls_tree(struct rn_rls_reader *reader);
/* Sets `number` for a NUMBER. A node without children must have a leaf. */
enum rn_rls_kind rn_rls_kind(const struct rn_rls_node *node, double *number);

#endif
