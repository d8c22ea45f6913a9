/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The short way to an admission, which most requests take: one rule applies, by one limit,
 * and there is room. No other limit has to agree, so nothing is gathered, looked at before
 * or undone. All else, refusals as well, is left to the long way (gather.h), which comes to
 * the same outcome where both can be taken.
 */
#ifndef RN_LIMITER_DECIDE_FAST_PATH_H
#define RN_LIMITER_DECIDE_FAST_PATH_H

#include <ration/rules.h>

#include "limiter/rulebook/book.h"
#include "rules/match/match.h"

/* For rn_compiled.fast_path: whether the limit, which is the rule's and linked, can be charged
 * this way, for whoever the rule applies to. */
bool rn_fast_path_fits(const struct rn_book *book, const struct rn_rule *rule,
                       const struct rn_rule_limit *limit);

/* The limit to try this way; NULL: there is none. Overrides and bans (a client index), modes and
 * terms of the request are for the caller to know. */
static inline const struct rn_compiled *rn_fast_path_find(const struct rn_book *book,
                                                          const struct rn_matches *matches)
{
    const struct rn_match *match = &matches->items[0];

    if (matches->outcome != RN_MATCH_LIMITS || matches->count != 1 || match->tier->limit_count != 1)
        return NULL;
    const struct rn_compiled *l = &book->limits[match->tier->limits[0]->id];

    return l->fast_path ? l : NULL;
}

/* Whether there was room: then the limit has been charged, `out` is filled and the admission
 * counted. Else nothing was done. `now_ns` may be RATION_NOW. */
bool rn_fast_path_admit(struct ration *r, const struct rn_book *book, const struct rn_match *match,
                        const struct rn_compiled *l, int64_t now_ns, struct ration_outcome *out);

#endif
