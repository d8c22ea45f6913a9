/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When those in a line can go at the earliest, from the last answer of their limit. Never too late:
 * requests are refused by it before they have waited in vain. Pure.
 */
#ifndef RN_LIMITER_LINE_ESTIMATE_H
#define RN_LIMITER_LINE_ESTIMATE_H

#include <stdbool.h>

#include <ration/ration.h>

#include "core/limit.h"

/* Nothing of the line goes before at_ns. Then at most `room` units do; and from refill_ns on
 * `amount` more in each period, evenly, or, if `whole`, all of them where it begins. */
struct rn_estimate {
    int64_t at_ns; /* RN_ESTIMATE_UNKNOWN: nothing is known, anything may go at any time */
    int64_t refill_ns;
    int64_t period_ns; /* 0: nothing is known of later times */
    uint64_t room, amount;
    bool whole;
    bool exact; /* that is what will happen if nothing else is charged or given back */
};
#define RN_ESTIMATE_UNKNOWN INT64_MIN

/* After a refusal of `units`, when `before` units of the line may have been charged already or go
 * before those. */
struct rn_estimate rn_estimate_refused(const struct rn_limit *limit,
                                       const struct ration_verdict *verdict, uint64_t before,
                                       uint64_t units, int64_t now_ns);
/* After an admission, with its verdict. */
struct rn_estimate rn_estimate_admitted(const struct rn_limit *limit,
                                        const struct ration_verdict *verdict, int64_t now_ns);

/* The first of the line has gone uncharged, and the next asks for so many units. False: nothing is
 * known of when those fit, unless they are no fewer. */
bool rn_estimate_move(struct rn_estimate *estimate, uint64_t units);

/* The earliest time at which the last of so many units of the line can go; rises with them. */
int64_t rn_estimate_at(const struct rn_estimate *estimate, uint64_t units);

#endif
