/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fast path of most admissions: one rule applies, with one limit that has room. No other limit
 * must agree, so nothing is gathered, looked at before or undone. Everything else, refusals too,
 * goes through gather.h, which gives the same outcome where both can be used.
 */
#ifndef RN_LIMITER_DECIDE_FAST_PATH_H
#define RN_LIMITER_DECIDE_FAST_PATH_H

#include <ration/rules.h>

#include "limiter/factor.h"
#include "limiter/rulebook/book.h"
#include "rules/match/match.h"

/* For rn_compiled.fast_path: whether the limit of the rule can be charged this way, for every
 * request. The limit is linked. */
bool rn_fast_path_fits(const struct rn_book *book, const struct rn_rule *rule,
                       const struct rn_rule_limit *limit);

/* The limit to try this way; NULL: there is none. The caller has ruled out overrides, bans, shadow
 * mode and terms of the request. */
static inline const struct rn_compiled *rn_fast_path_find(const struct rn_book *book,
                                                          const struct rn_matches *matches)
{
    const struct rn_match *match = &matches->items[0];

    if (matches->outcome != RN_MATCH_LIMITS || matches->count != 1 || match->tier->limit_count != 1)
        return NULL;
    const struct rn_compiled *l = &book->limits[match->tier->limits[0]->id];

    if (rn_likely(l->fast_path))
        return l;
    l = rn_factor_step(l);
    return l->fast_path ? l : NULL;
}

/* Whether there was room: then the limit has been charged, `out` is filled and the admission
 * counted. Else nothing was done. `now_ns` may be RATION_NOW. */
bool rn_fast_path_admit(struct ration *r, const struct rn_book *book, const struct rn_match *match,
                        const struct rn_compiled *l, int64_t now_ns, struct ration_outcome *out);

#endif
