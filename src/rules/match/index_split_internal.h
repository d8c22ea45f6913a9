/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Under which of its conditions a candidate is filed in the index, and under which
 * answers. Private to the building of the index.
 */
#ifndef RN_RULES_MATCH_INDEX_SPLIT_INTERNAL_H
#define RN_RULES_MATCH_INDEX_SPLIT_INTERNAL_H

#include "rules/match/index_internal.h"

#define RN_FILING_NONE UINT32_MAX

/* A candidate on its way down the tree, and the conditions already asked about. */
struct rn_filing_item {
    uint32_t candidate;
    uint32_t used; /* a bit by condition number */
};

/* An answer and the candidate it leads to. */
struct rn_filing {
    uint64_t answer;
    struct rn_probe probe;
    struct rn_filing_item item;
};

/* A growing array on the heap; all zero but `size` at first. */
struct rn_filing_list {
    void *items;
    size_t count, room, size;
};
/* The first of `count` new items, not initialised; NULL: out of memory. */
void *rn_filing_append(struct rn_filing_list *list, size_t count);

/* All answers (uint64_t) that the items could be filed under, sorted. */
bool rn_filing_answers(const struct rn_candidate *candidates, const struct rn_filing_item *items,
                       size_t count, struct rn_filing_list *answers);

/* The number of the condition whose most crowded answer is the least crowded,
 * of equals the one with the fewest values; RN_FILING_NONE if there is none with
 * a crowd of at most `bearable`. */
uint32_t rn_filing_choose(const struct rn_filing_list *answers,
                          const struct rn_candidate *candidate, struct rn_filing_item item,
                          size_t bearable);

/* Files an item under every value of a chosen condition. */
bool rn_filing_add(struct rn_filing_list *filings, const struct rn_condition *condition,
                   struct rn_filing_item item);

#endif
