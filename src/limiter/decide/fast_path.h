/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fast path of most requests: a few limits apply, which only count, and no override or ban
 * concerns the client. Nothing is gathered: the limits are charged, all or none, with one call of
 * the table. Everything else goes through gather.h, which gives the same outcome where both can be
 * used.
 */
#ifndef RN_LIMITER_DECIDE_FAST_PATH_H
#define RN_LIMITER_DECIDE_FAST_PATH_H

#include <ration/rules.h>

#include "limiter/rulebook/book.h"
#include "rules/match/match.h"
#include "store/table.h"

/* The limits of one request, those of a rule side by side. */
struct rn_fast_path {
    uint32_t n;
    bool allowed;
    const struct rn_match *matches[RN_TABLE_ALL_MAX];
    const struct rn_compiled *limits[RN_TABLE_ALL_MAX];
    bool opens[RN_TABLE_ALL_MAX]; /* with extras: an admission opens a period of `earn` */
    struct rn_charge charges[RN_TABLE_ALL_MAX];
};

/* For rn_compiled.fast_path: whether the limit of the rule can be charged this way, for every
 * request. The limit is linked. */
bool rn_fast_path_fits(const struct rn_book *book, const struct rn_rule *rule,
                       const struct rn_rule_limit *limit);

/* How many limits to charge this way; 0: the request must be decided at length. The caller has
 * ruled out shadow mode and terms of the request. */
uint32_t rn_fast_path_count(const struct rn_book *book, const struct rn_matches *matches);

/* True: the request is decided, `out` is filled, the decision is counted. False: nothing was done,
 * the request must be decided at length. `now_ns` may be RATION_NOW. */
bool rn_fast_path_decide(struct ration *r, const struct rn_book *book,
                         const struct ration_request *request, struct rn_matches *matches,
                         int64_t now_ns, struct ration_outcome *out);

#endif
