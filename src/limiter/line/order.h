/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of one line: a treap of waiters by rank and arrival, with counts and sums, so that a
 * place in line and the units ahead are found in O(log n). The links are in the waiters: nothing is
 * allocated.
 */
#ifndef RN_LIMITER_LINE_ORDER_H
#define RN_LIMITER_LINE_ORDER_H

#include "limiter/line/estimate.h"
#include "limiter/line/line_internal.h"

/* Whether `w` comes before a request of this rank and arrival number. */
static inline bool rn_order_is_before(const struct rn_waiter *w, uint32_t rank, uint64_t arrival)
{
    return w->rank != rank ? w->rank < rank : w->arrival < arrival;
}

void rn_order_insert(struct rn_waiter **root, struct rn_waiter *w);
/* `w` must stand in this order. */
void rn_order_remove(struct rn_waiter **root, struct rn_waiter *w);
/* After the state or the end of `w` has changed. */
void rn_order_update(struct rn_waiter *root, struct rn_waiter *w);

/* The first, the first whose state is STANDS, and the last; NULL: there is none. */
struct rn_waiter *rn_order_first(struct rn_waiter *root);
struct rn_waiter *rn_order_first_standing(struct rn_waiter *root);
struct rn_waiter *rn_order_last(struct rn_waiter *root);
/* The one after `w`, or NULL. */
struct rn_waiter *rn_order_next(struct rn_waiter *root, const struct rn_waiter *w);

/* How many come before a request of this rank and arrival number, and their units. */
struct rn_order_ahead {
    uint64_t count, units;
};
struct rn_order_ahead rn_order_ahead(const struct rn_waiter *root, uint32_t rank, uint64_t arrival);

/* The first that stands and whose turn, by the estimate, cannot come before its time is over. */
struct rn_waiter *rn_order_find_late(struct rn_waiter *root, const struct rn_estimate *estimate);

#endif
