/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each rule has decided: in the last second, and lately. The counters of all rules are read
 * once a second, outside of decisions. Rules are followed by name from one set of rules to the
 * next. For one thread; memory is reserved at the start.
 */
#ifndef RN_LIMITER_RULEBOOK_ACTIVITY_H
#define RN_LIMITER_RULEBOOK_ACTIVITY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

#define RN_ACTIVITY_RULES_MAX 40000 /* rules beyond that are not followed */

struct ration;

enum rn_activity_kind {
    RN_ACTIVITY_ALLOWED,
    RN_ACTIVITY_REFUSED,
    RN_ACTIVITY_DELAYED,  /* of those allowed, as are */
    RN_ACTIVITY_SHADOWED, /* those that would have been refused but for shadow mode, */
    RN_ACTIVITY_NEAR,     /* and those that left less than a fifth of the limit */
    RN_ACTIVITY_KINDS
};

struct rn_activity_rule {
    uint64_t hash;                       /* of its name */
    uint64_t seen[RN_ACTIVITY_KINDS];    /* its counters at the last sample */
    float rates[RN_ACTIVITY_KINDS];      /* per second: averages, see rn_activity_sample */
    uint32_t counted[RN_ACTIVITY_KINDS]; /* between the last two samples */
    bool kept;                           /* the caller's; false of a new rule */
};

struct rn_activity {
    struct rn_activity_rule *rules; /* in the order of the rules in force */
    uint32_t count;
    /* The rest is private. */
    struct ration *limiter;
    struct rn_activity_rule *spare; /* as large as `rules` */
    uint32_t *index;                /* by hash: 1 + the place in `rules`; 0: none */
    uint64_t version;               /* of the rules that are followed, */
    bool begun;                     /* if there are any */
    uint64_t decided[2];            /* decisions of all at the last two samples */
};

/* NULL: out of memory. */
struct rn_activity *rn_activity_new(struct ration *limiter);
void rn_activity_free(struct rn_activity *activity);
/* The memory that it has reserved. */
size_t rn_activity_bytes(void);

/* Reads the counters. `seconds` have passed since the last sample; 0: nobody knows what happened
 * since, so nothing counts as decided, and averages stay. An average forgets: what was decided a
 * minute ago has 1/e (37 %) of the weight of what is decided now. */
void rn_activity_sample(struct rn_activity *activity, unsigned seconds);

/* Brings `rules` into the order of the rules that are in force now, if these have changed. */
void rn_activity_follow(struct rn_activity *activity);

/* The rule with this name, after rn_activity_follow or a sample; NULL: it is not followed. */
struct rn_activity_rule *rn_activity_find(const struct rn_activity *activity, uint64_t hash);
uint64_t rn_activity_hash(const struct rn_activity *activity, struct rn_slice name);

#endif
