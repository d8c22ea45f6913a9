/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to the files of Envoy's messages: metadata as a tree.
 */
#ifndef RN_WIRE_RLS_INTERNAL_H
#define RN_WIRE_RLS_INTERNAL_H

#include "wire/rls.h"

struct rn_rls_node {
    struct rn_slice name;
    const struct ration_metadata *leaf; /* if it has no children */
    struct rn_rls_node *first, *next;
    size_t count; /* of children */
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

/* From the arena; NULL: it is exhausted. */
void *rn_rls_take(struct rn_rls_reader *reader, size_t bytes);

/* Of all leaves; NULL: there are none, or no room. */
struct rn_rls_node *rn_rls_tree(struct rn_rls_reader *reader);
/* `number` is set for a NUMBER. Never called for the root of no leaves. */
enum rn_rls_kind rn_rls_kind(const struct rn_rls_node *node, double *number);

#endif
