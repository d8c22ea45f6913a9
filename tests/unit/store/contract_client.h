/* SPDX-License-Identifier: Apache-2.0 */
/* A store of any kind and a client that charges it. */
#ifndef TEST_STORE_CONTRACT_CLIENT_H
#define TEST_STORE_CONTRACT_CLIENT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "every_form.h"
#include "store/store.h"

struct plugged_store {
    const char *name;
    struct rn_store *(*open)(struct plugged_store *self); /* an empty one */
    void (*close)(struct plugged_store *self);
    void *handle;
    /* Idle states may be gone, and the next one of another form of the same limit: what it says
     * of a forced charge, which is never refused, may differ. */
    bool forgets_idle;
};

static void apply_batch(struct rn_store *store, struct rn_charge *batch, size_t n)
{
    for (size_t i = 0; i < n; i++)
        batch[i].error = 12345;
    rn_store_apply(store, batch, n);
}

/* One key under one limit, asked one thing at a time. */
struct client {
    struct rn_store *store;
    struct rn_limit limit;
    uint64_t key;
    int64_t now;
};

static struct rn_answer ask_store(struct client *c, const struct rn_ask *ask)
{
    struct rn_charge charge = {.limit = &c->limit, .key = c->key, .ask = *ask};

    apply_batch(c->store, &charge, 1);
    assert_int_equal(charge.error, 0);
    return charge.answer;
}

static struct rn_answer ask_now(struct client *c, enum rn_op op, uint64_t cost)
{
    return ask_store(
        c, &(struct rn_ask){.op = op, .now_ns = c->now, .cost = cost, .id = 1, .lease_ns = MINUTE});
}

static struct client new_client(struct rn_store *store, unsigned kind, uint64_t key)
{
    return (struct client){store, compiled(&every_form[kind].spec[0]), key_of(key), BASE};
}

#endif
