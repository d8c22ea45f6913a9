/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store over Redis, as the layers of this folder see each other: async in front of leased in
 * front of strict. A backend may answer later, so that the parts of a batch that different
 * layers decide are under way at the same time. To all others it is a store
 * (store/store.h): rn_store_apply begins, and parks the fiber until the answer is there.
 */
#ifndef RN_REDIS_BACKEND_H
#define RN_REDIS_BACKEND_H

#include "store/store.h"

enum rn_progress {
    RN_DONE = 0,    /* every charge is answered; `done` is not called */
    RN_PENDING = 1, /* `done` will be called once, from the loop */
};

typedef void rn_backend_done(void *arg, struct rn_charge *batch, size_t n);

struct rn_backend;
struct rn_backend_ops {
    /* done NULL: the caller cannot wait; what cannot be answered at once has RATION_ESTORE. */
    enum rn_progress (*begin)(struct rn_backend *backend, struct rn_charge *batch, size_t n,
                              rn_backend_done *done, void *arg);
    /* As rn_store_ops.disown. */
    void (*disown)(struct rn_backend *backend, const struct rn_charge *charge, uint64_t late);
};

struct rn_backend {
    struct rn_store store; /* first */
    const struct rn_backend_ops *ops;
};

void rn_backend_init(struct rn_backend *backend, const struct rn_backend_ops *ops);

static inline enum rn_progress rn_backend_begin(struct rn_backend *backend, struct rn_charge *batch,
                                                size_t n, rn_backend_done *done, void *arg)
{
    return backend->ops->begin(backend, batch, n, done, arg);
}

#endif
