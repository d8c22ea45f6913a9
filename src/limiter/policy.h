/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store of a limiter whose limits many nodes share. It asks the shared store,
 * and decides what holds if there is no answer: the only place that
 * does.
 *
 *   nothing said  this node's share of the limit, counted in its own table
 *   ELSE_ALLOW    admitted, uncounted
 *   ELSE_REFUSE   refused, to be tried again in a second
 *
 * Nothing that was decided so can be given back: the shared store never had it. It may get it
 * late, though: if the request is refused, it is told to give that back. What changes a state
 * otherwise (give back, renew, release, reset) fails with RATION_ESTORE.
 */
#ifndef RN_LIMITER_POLICY_H
#define RN_LIMITER_POLICY_H

#include <stdatomic.h>

#include "base/siphash.h"
#include "limiter/reload.h"
#include "store/table.h"

/* Decided without the shared store, which did not answer. */
struct rn_policy_counts {
    _Atomic uint64_t local, allowed, refused;
    _Atomic uint64_t lost; /* changes that could not be made */
};

struct rn_policy {
    struct rn_store store; /* first */
    struct rn_table *table;
    struct rn_hash_key secret; /* the table's, for the keys that every node knows */
    rn_limit_judge *judge;     /* which limits the shared store can hold */
    _Atomic unsigned nodes;    /* among which a limit is shared out; 0 is 1 */
    struct rn_policy_counts counts;
};

void rn_policy_init(struct rn_policy *policy, struct rn_table *table, rn_limit_judge *judge);

/* Marks of what was decided here: no store answers with them. From RN_POLICY_MARK on it is
 * rn_charge.late of the charge. */
#define RN_POLICY_MARK INT64_MIN
static inline bool rn_policy_has_decided(int64_t mark)
{
    return mark <= RN_POLICY_MARK + (int64_t)RN_CHARGE_LATE_MAX;
}

/* The shared store as this thread reaches it, from now on; NULL: not at all. */
void rn_policy_use(struct rn_store *shared);

#endif
