/* SPDX-License-Identifier: Apache-2.0 */
#include "redis/backend.h"

#include "base/fiber.h"

static void wake(void *fiber, struct rn_charge *batch, size_t n)
{
    (void)batch, (void)n;
    rn_fiber_wake(fiber);
}

/* Off a fiber there is nothing to park. */
static void apply(struct rn_store *store, struct rn_charge *batch, size_t n)
{
    struct rn_fiber *fiber = rn_fiber_current();

    if (rn_backend_begin((struct rn_backend *)(void *)store, batch, n, fiber ? wake : NULL,
                         fiber) == RN_PENDING)
        rn_fiber_wait();
}

static void disown(struct rn_store *store, const struct rn_charge *charge, uint64_t late)
{
    struct rn_backend *backend = (struct rn_backend *)(void *)store;

    backend->ops->disown(backend, charge, late);
}

void rn_backend_init(struct rn_backend *backend, const struct rn_backend_ops *ops)
{
    static const struct rn_store_ops store_ops = {.apply = apply, .disown = disown};

    *backend = (struct rn_backend){{&store_ops}, ops};
}
