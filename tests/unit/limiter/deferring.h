/* SPDX-License-Identifier: Apache-2.0 */
#ifndef RN_TESTS_LIMITER_DEFERRING_H
#define RN_TESTS_LIMITER_DEFERRING_H

#include <cmocka.h>

#include "store/store.h"

/* A store that puts every batch aside until it is pumped. */
struct deferring {
    struct rn_store store;
    struct rn_store *real;
    struct rn_charge *batch;
    size_t n;
    rn_store_done *done;
    void *arg;
    enum rn_op fail_op; /* answers this one with an error, */
    uint64_t fail_cost; /* when it has this cost */
    int fail_with;      /* 0: never */
};

static inline enum rn_progress defer(struct rn_store *store, struct rn_charge *batch, size_t n,
                                     rn_store_done *done, void *arg)
{
    struct deferring *d = (struct deferring *)(void *)store;

    assert_null(d->batch);
    d->batch = batch;
    d->n = n;
    d->done = done;
    d->arg = arg;
    return RN_PENDING;
}

static const struct rn_store_ops deferring_ops = {.apply = defer};

static inline void pump(struct deferring *d)
{
    struct rn_charge *batch = d->batch;

    assert_non_null(batch);
    assert_int_equal(rn_store_apply(d->real, batch, d->n, NULL, NULL), RN_DONE);
    for (size_t i = 0; i < d->n; i++)
        if (d->fail_with != 0 && batch[i].ask.op == d->fail_op && batch[i].ask.cost == d->fail_cost)
            batch[i].error = d->fail_with;
    d->batch = NULL;
    d->done(d->arg, batch, d->n);
}

#endif
