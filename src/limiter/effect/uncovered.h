/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What no rule covers: the methods and beginnings of paths of requests that no rule, list or ban
 * decided, with about how many there were. A Space-Saving sketch, as of the keys refused most
 * (limiter/top.h): a flood of made-up paths cannot grow it, nor push out a path that is frequent.
 *
 * Paths may have secrets: of each only two segments are kept, without those that look like an id,
 * and without the query.
 */
#ifndef RN_LIMITER_EFFECT_UNCOVERED_H
#define RN_LIMITER_EFFECT_UNCOVERED_H

#include <ration/rules.h>

#include "limiter/stats.h"

#define RN_UNCOVERED_ENTRIES 64
#define RN_UNCOVERED_EXACT 1024 /* after so many, a thread notes one request in 16 */
#define RN_UNCOVERED_TEXT 96

struct rn_hash_key;
struct rn_uncovered;

struct rn_uncovered_path {
    char text[RN_UNCOVERED_TEXT]; /* "GET /users/{id}", with two stars after it if there is more;
                                     printable ASCII; method or path may be missing */
    uint64_t requests;            /* about, rather too many */
};

/* NULL: out of memory. The key outlives it. */
struct rn_uncovered *rn_uncovered_new(const struct rn_hash_key *secret);
void rn_uncovered_free(struct rn_uncovered *u);

/* Notes a request that is counted in the stripe already. Never waits. */
void rn_uncovered_note(struct rn_uncovered *u, const struct ration_request *request,
                       const struct rn_stripe *stripe);

/* Fills up to `max`, the most frequent first, and returns how many. `u` may be NULL. */
size_t rn_uncovered_list(struct rn_uncovered *u, struct rn_uncovered_path *out, size_t max);

#endif
