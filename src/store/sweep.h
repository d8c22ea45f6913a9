/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to store/: finding room for a block when slabs are scarce.
 *
 * A sweep goes over the slots in turn. It gives back the blocks of idle keys,
 * and moves blocks out of slabs that are being drained: sparse ones, whose
 * blocks fit into the free blocks of others of their class. At the end of a pass
 * these slabs are empty, and of use to every class.
 *
 * The sweep goes a little way with each slab taken when few are left, so that
 * it is done before there is none. When there is none, it goes on until there
 * is one, while idle keys are frequent or draining promises enough slabs to pay
 * for a pass. Only then a live key is evicted.
 */
#ifndef RN_STORE_SWEEP_H
#define RN_STORE_SWEEP_H

#include "store/layout.h"

struct rn_sweep_want {
    unsigned class;
    uint64_t tag; /* of the key it is for, which is not evicted */
    int64_t now_ns;
    bool evict; /* live keys, if nothing else helps */
};

#define RN_SWEEP_CREDIT_MAX 1024

/* Idle keys were found among groups visited: that tells how long to look for more. */
void rn_sweep_credit(struct rn_table *table, unsigned freed, uint64_t visited);

/* A block, or RN_NIL: live keys fill the arena, and none may be evicted. */
uint32_t rn_sweep_alloc(struct rn_table *table, struct rn_context *context,
                        const struct rn_sweep_want *want);

#endif
