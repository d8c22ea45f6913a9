/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a node of the index splits its candidates: by which condition of each, and by
 * which of its values.
 */
#ifndef RN_RULES_MATCH_INDEX_SPLIT_INTERNAL_H
#define RN_RULES_MATCH_INDEX_SPLIT_INTERNAL_H

#include "rules/match/index_internal.h"

#define RN_INDEX_SPLIT_NONE UINT32_MAX

/* A candidate on its way down the tree, and the conditions already asked about. */
struct rn_index_item {
    uint32_t candidate;
    uint32_t used; /* a bit by condition number */
};

/* An answer and the candidate it leads to. */
struct rn_index_entry {
    uint64_t answer;
    struct rn_index_probe probe;
    struct rn_index_item item;
};

/* A growing array on the heap; all zero but `size` at first. */
struct rn_index_list {
    void *items;
    size_t count, room, size;
};
/* The first of `count` new items, not initialised; NULL: out of memory. */
void *rn_index_split_append(struct rn_index_list *list, size_t count);

/* All answers (uint64_t) that the items could be filed under, sorted. */
bool rn_index_split_answers(const struct rn_index_candidate *candidates,
                            const struct rn_index_item *items, size_t count,
                            struct rn_index_list *answers);

/* The number of the condition whose most crowded answer is the least crowded,
 * of equals the one with the fewest values; RN_INDEX_SPLIT_NONE if there is none with
 * a crowd of at most `bearable`. */
uint32_t rn_index_split_choose(const struct rn_index_list *answers,
                               const struct rn_index_candidate *candidate,
                               struct rn_index_item item, size_t bearable);

/* Files an item under every value of a chosen condition. */
bool rn_index_split_add(struct rn_index_list *filings, const struct rn_condition *condition,
                        struct rn_index_item item);

#endif
