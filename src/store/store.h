/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The contract of every store: apply a batch of operations to states, each
 * atomically, and answer before the call returns. A store that nodes share may
 * park the fiber that it is called on (base/fiber.h) until it has an answer.
 */
#ifndef RN_STORE_STORE_H
#define RN_STORE_STORE_H

#include "core/limit.h"

enum rn_charge_flags {
    RN_CHARGE_KEEP = 1, /* at capacity refuse with RATION_EFULL; never evicted by others */

    /* How a store that many nodes share may decide; neither: strictly. */
    RN_CHARGE_LEASED = 2,
    RN_CHARGE_ASYNC = 4,
    /* And what holds if it does not answer; neither: this node's share of the limit. */
    RN_CHARGE_ELSE_ALLOW = 8,
    RN_CHARGE_ELSE_REFUSE = 16,

    /* Of a reset: such a store remembers it for as long as a charge before it would have
     * counted. Of a refund: what was charged before such a reset is not given back. */
    RN_CHARGE_RESET_LOG = 32,

    /* At capacity keys without this are evicted first, and then those that have spent least. */
    RN_CHARGE_EVICT_LAST = 64,
};

/* One operation on the state of one key under one limit. `limit` is borrowed
 * until the charge is done. */
struct rn_charge {
    const struct rn_limit *limit;
    uint64_t key; /* hash of limit name, shape and key parts */
    unsigned flags;
    struct rn_ask ask;
    struct rn_answer answer; /* out, when error is 0 */
    int error;               /* out: 0 or RATION_E* */
    /* Out, with RATION_ESTORE, of a shared store: the charge was sent, and may yet be made. Its
     * name for rn_store_disown, up to RN_CHARGE_LATE_MAX; 0: it is not, or has none. */
    uint64_t late;
};
#define RN_CHARGE_LATE_MAX (UINT64_C(1) << 62)

struct rn_store;

struct rn_store_ops {
    /* Charges of one batch are independent: one may fail and others not. The
     * same key may occur several times; they are then applied in order. */
    void (*apply)(struct rn_store *store, struct rn_charge *batch, size_t n);
    /* The request of a charge that is late was refused: if the charge is made, it is given
     * back, once. Its key and cost are as they were. NULL: no charge is ever late. */
    void (*disown)(struct rn_store *store, const struct rn_charge *charge, uint64_t late);
};

struct rn_store {
    const struct rn_store_ops *ops;
};

static inline void rn_store_apply(struct rn_store *store, struct rn_charge *batch, size_t n)
{
    store->ops->apply(store, batch, n);
}

static inline void rn_store_disown(struct rn_store *store, const struct rn_charge *charge,
                                   uint64_t late)
{
    if (late != 0 && store->ops->disown)
        store->ops->disown(store, charge, late);
}

#endif
