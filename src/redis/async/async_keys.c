/* SPDX-License-Identifier: Apache-2.0 */
#include "redis/async/async_keys.h"

#include <stdlib.h>

/* How many of the oldest are asked for their place; those that cannot go are not asked
 * again soon. */
#define TRIES 4

bool rn_async_keys_init(struct rn_async_keys *keys, uint32_t capacity)
{
    uint64_t heads = 16;

    while (heads < capacity)
        heads *= 2;
    *keys = (struct rn_async_keys){.capacity = capacity, .head_mask = heads - 1};
    keys->all = calloc(capacity, sizeof *keys->all);
    keys->heads = calloc(heads, sizeof *keys->heads);
    return keys->all && keys->heads;
}

void rn_async_keys_done(struct rn_async_keys *keys)
{
    free(keys->all);
    free(keys->heads);
}

static struct rn_async_key **head_of(const struct rn_async_keys *keys, uint64_t key)
{
    return &keys->heads[key & keys->head_mask];
}

static void take_out(struct rn_async_keys *keys, struct rn_async_key *k)
{
    *(k->older ? &k->older->newer : &keys->oldest) = k->newer;
    *(k->newer ? &k->newer->older : &keys->newest) = k->older;
}

static void put_first(struct rn_async_keys *keys, struct rn_async_key *k)
{
    k->older = keys->newest;
    k->newer = NULL;
    *(k->older ? &k->older->newer : &keys->oldest) = k;
    keys->newest = k;
}

static void touch(struct rn_async_keys *keys, struct rn_async_key *k)
{
    if (keys->newest == k)
        return;
    take_out(keys, k);
    put_first(keys, k);
}

struct rn_async_key *rn_async_keys_find(struct rn_async_keys *keys, uint64_t key)
{
    struct rn_async_key *k = *head_of(keys, key);

    while (k && k->key != key)
        k = k->chained;
    if (k)
        touch(keys, k);
    return k;
}

static void forget(struct rn_async_keys *keys, struct rn_async_key *k)
{
    struct rn_async_key **at = head_of(keys, k->key);

    while (*at != k)
        at = &(*at)->chained;
    *at = k->chained;
    take_out(keys, k);
}

static struct rn_async_key *make_room(struct rn_async_keys *keys, int64_t now_ns)
{
    for (unsigned i = 0; i < TRIES; i++) {
        struct rn_async_key *k = keys->oldest;

        if (!k->link && rn_local_budget_is_idle(&k->budget, now_ns, k->most)) {
            forget(keys, k);
            return k;
        }
        touch(keys, k);
    }
    return NULL;
}

struct rn_async_key *rn_async_keys_add(struct rn_async_keys *keys, uint64_t key, int64_t now_ns)
{
    struct rn_async_key *k =
        keys->used < keys->capacity ? &keys->all[keys->used++] : make_room(keys, now_ns);

    if (!k)
        return NULL;
    *k = (struct rn_async_key){.key = key, .chained = *head_of(keys, key)};
    *head_of(keys, key) = k;
    put_first(keys, k);
    return k;
}
