/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The clients that were refused or delayed, each under the rule that did so: how often, when, and
 * for how long. Exact until the memory is full; then those with the fewest refusals are forgotten,
 * and what comes later of them is counted from 0 again: a count is short by `floor` at most.
 */
#ifndef RN_CLI_REPLAY_TOUCHED_H
#define RN_CLI_REPLAY_TOUCHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

#define RN_TOUCHED_NAME 64
#define RN_TOUCHED_NO_RULE UINT32_MAX /* a deny list, or a ban */

struct rn_touched {
    uint64_t hash; /* as in the population; 0: unused */
    uint32_t rule; /* its index in the ruleset */
    uint32_t name_len;
    uint64_t refused, delayed;
    uint64_t missed;            /* at most so many are not counted here */
    int64_t first_ns, last_ns;  /* of refusals and delays */
    int64_t until_ns;           /* the client was told to come back then */
    int64_t limited_ns;         /* how long it was told to stay away, in all */
    char name[RN_TOUCHED_NAME]; /* any bytes, cut to fit */
};

struct rn_touched_table {
    uint64_t floor;

    struct rn_touched *rows; /* private from here on */
    size_t size, count;
};

/* False: out of memory. */
bool rn_touched_init(struct rn_touched_table *table, uint64_t bytes);
void rn_touched_done(struct rn_touched_table *table);

/* The row of a client under a rule. A new one has no name yet: name_len is UINT32_MAX. */
struct rn_touched *rn_touched_get(struct rn_touched_table *table, uint64_t hash, uint32_t rule,
                                  int64_t now_ns);
/* Notes that the client has to wait for a while. Returns how much longer that makes it. */
int64_t rn_touched_wait(struct rn_touched *row, int64_t now_ns, int64_t wait_ns);

/* Sorts the rows: most refused first, then most delayed. Nothing may be added after that. Returns
 * how many there are. */
size_t rn_touched_sort(struct rn_touched_table *table);

#endif
