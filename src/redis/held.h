/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys of which a worker holds something, and those that may become such: a table
 * of fixed size. One thread.
 */
#ifndef RN_REDIS_HELD_H
#define RN_REDIS_HELD_H

#include "redis/holder.h"
#include "redis/waiting.h"

#define RN_HELD_MAX 4096     /* keys held at once; others are strict. A power of two */
#define RN_HELD_WATCHED 4096 /* a power of two */

struct rn_leased;

struct rn_held {
    struct rn_leased *leased; /* whose it is */
    uint64_t key;
    struct rn_holder holder;
    struct rn_held *next;          /* in its chain, or among the unused */
    struct rn_held *older, *newer; /* by last use */
    int64_t used_ns;
    struct rn_queue queue; /* charges that wait for the call in flight */
    uint64_t call;         /* the number of the last one */

    /* The limit, as calls tell it. */
    uint64_t amount;
    int64_t period_ns;
    enum rn_script script;
    char name[RN_CODE_NAME], params[RN_CODE_PARAMS];
    size_t name_len, params_len;
};

/* A key that is not held, and what is asked of it. A newer one may take its place. */
struct rn_watched {
    uint64_t key;
    struct rn_demand demand;
};

struct rn_held_table {
    struct rn_held *chains[RN_HELD_MAX];
    struct rn_held *spare, *oldest, *newest;
    size_t count;
    struct rn_held pool[RN_HELD_MAX];
    struct rn_watched watched[RN_HELD_WATCHED];
};

/* Of a zeroed one. */
void rn_held_init(struct rn_held_table *table, struct rn_leased *leased);

/* NULL: it is not held. */
struct rn_held *rn_held_find(struct rn_held_table *table, uint64_t key);
/* It is the one used last. */
void rn_held_touch(struct rn_held_table *table, struct rn_held *held, int64_t now_ns);
/* A key that is not held. NULL: too many are. */
struct rn_held *rn_held_add(struct rn_held_table *table, uint64_t key, int64_t now_ns);
/* Nothing may be in flight, and nobody wait. */
void rn_held_drop(struct rn_held_table *table, struct rn_held *held);

/* Notes what is asked of a key that is not held. */
struct rn_demand *rn_held_watch(struct rn_held_table *table, uint64_t key, uint64_t units,
                                int64_t now_ns);

#endif
