/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All clients of a log: how many requests each made, and how many were refused. A client is what a
 * rule counts by, under that rule, or one attribute of the log. Exact until the memory is full;
 * clients that come after that have no row.
 */
#ifndef RN_CLI_REPLAY_POPULATION_H
#define RN_CLI_REPLAY_POPULATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RN_SIDES 2 /* the rules, and those that they are compared with */

/* A client of the log, not of a rule, has this bit in its hash. */
#define RN_POPULATION_WHOLE (UINT64_C(1) << 63)

struct rn_population_row {
    uint64_t hash; /* 0: unused */
    uint32_t requests;
    uint32_t refused[RN_SIDES];
};

struct rn_population {
    bool full;    /* a client had no room */
    size_t count; /* of rows in use */

    struct rn_population_row *rows; /* private from here on */
    size_t size, size_most;         /* of rows; the size is a power of two */
};

/* False: out of memory. */
bool rn_population_init(struct rn_population *population, uint64_t bytes);
void rn_population_done(struct rn_population *population);

static inline void rn_population_prefetch(const struct rn_population *p, uint64_t hash)
{
    __builtin_prefetch(&p->rows[hash & (p->size - 1)], 1);
}
/* The row of a client; a new one is zero but for its hash. NULL: there is no room for it. */
struct rn_population_row *rn_population_get(struct rn_population *population, uint64_t hash);
/* NULL: it has none. */
const struct rn_population_row *rn_population_find(const struct rn_population *population,
                                                   uint64_t hash);

#endif
