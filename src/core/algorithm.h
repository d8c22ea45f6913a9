/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one table of algorithms: their names, and what other rooms must know of each.
 * The rules parser, messages and the API read it; tests compare the JSON schema with it.
 */
#ifndef RN_CORE_ALGORITHM_H
#define RN_CORE_ALGORITHM_H

#include <ration/limit.h>

#define RN_ALGORITHMS_MAX 16

/* The last row has no name. */
extern const struct rn_algorithm {
    enum ration_algorithm algorithm;
    const char *name;
    const char *word; /* in the text of a limit: it implies this algorithm; NULL: none does */
    bool is_rate;     /* can decide a limit such as 100 per minute */
    bool needs_each;  /* must see each request before it is admitted: never async */
} rn_algorithms[];

/* NULL if there is no such algorithm. */
const struct rn_algorithm *rn_algorithm_find(uint64_t number);

/* The name of a limit's algorithm, also of one of the embedder's. */
const char *rn_algorithm_name_of(const struct ration_limit *spec);

/* The names of those that can decide a rate. Returns how many. */
size_t rn_algorithm_rates(const char *names[RN_ALGORITHMS_MAX]);

#endif
