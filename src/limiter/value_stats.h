/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decisions of a rule counted by values of the request: Envoy's detailed_metric and
 * value_to_metric. Values come from outside, so their number is bounded: the first
 * RN_VALUE_ROWS of a rule have a row each, and all others share one.
 */
#ifndef RN_LIMITER_VALUE_STATS_H
#define RN_LIMITER_VALUE_STATS_H

#include <ration/ration.h>

#include "limiter/rulebook/book.h"

#define RN_VALUE_ROWS 100
#define RN_VALUE_TEXT 256 /* a longer text is cut, and shares a row with those that begin alike */
#define RN_VALUE_OTHER "other"

/* Fields are accessed atomically. */
struct rn_value_totals {
    uint64_t allowed, refused;
    uint64_t hits_allowed, hits_refused;
};

struct rn_value_stats;

/* NULL: out of memory. */
struct rn_value_stats *rn_value_stats_new(void);
/* Books share them: a rule keeps its counts over a reload that keeps its name. */
struct rn_value_stats *rn_value_stats_ref(struct rn_value_stats *v);
void rn_value_stats_unref(struct rn_value_stats *v);

/* Counts in the row of the key, whose parts are names and values in turn. The rule has values
 * (rule->values). Any thread; takes a lock only to add a row. */
void rn_value_stats_add(const struct rn_book *book, const struct rn_rule *rule,
                        const struct rn_slice *key, bool allowed, uint64_t decisions,
                        uint64_t units);

/* Calls `see` for each row of each rule in force; a reload waits meanwhile. */
void rn_value_stats_each(struct ration *r,
                         void (*see)(void *arg, struct rn_slice rule, struct rn_slice descriptor,
                                     const struct rn_value_totals *totals),
                         void *arg);

#endif
