/* SPDX-License-Identifier: Apache-2.0 */
#include "redis/local_keys.h"

#include <stdlib.h>
#include <string.h>

/* How many of the oldest keys an eviction looks at. Those that cannot be spared become the newest,
 * so that the next eviction looks at others. */
#define TRIES 4

bool rn_local_keys_init(struct rn_local_keys *keys, uint32_t capacity, size_t size,
                        rn_local_keys_spares *spares)
{
    uint64_t heads = 16;

    while (heads < capacity)
        heads *= 2;
    *keys = (struct rn_local_keys){
        .spares = spares, .size = size, .capacity = capacity, .head_mask = heads - 1};
    keys->all = calloc(capacity, size);
    keys->heads = calloc(heads, sizeof(struct rn_local_key *));
    return keys->all && keys->heads;
}

void rn_local_keys_done(struct rn_local_keys *keys)
{
    free(keys->all);
    free(keys->heads);
}

static void unlink_by_age(struct rn_local_keys *keys, struct rn_local_key *k)
{
    *(k->older ? &k->older->newer : &keys->oldest) = k->newer;
    *(k->newer ? &k->newer->older : &keys->newest) = k->older;
}

static void make_newest(struct rn_local_keys *keys, struct rn_local_key *k)
{
    k->older = keys->newest;
    k->newer = NULL;
    *(k->older ? &k->older->newer : &keys->oldest) = k;
    keys->newest = k;
}

static void touch(struct rn_local_keys *keys, struct rn_local_key *k)
{
    if (keys->newest == k)
        return;
    unlink_by_age(keys, k);
    make_newest(keys, k);
}

void *rn_local_keys_find(struct rn_local_keys *keys, uint64_t key)
{
    struct rn_local_key *k = keys->heads[key & keys->head_mask];

    while (k && k->key != key)
        k = k->chained;
    if (k)
        touch(keys, k);
    return k;
}

void rn_local_keys_remove(struct rn_local_keys *keys, struct rn_local_key *k)
{
    struct rn_local_key **at = &keys->heads[k->key & keys->head_mask];

    while (*at != k)
        at = &(*at)->chained;
    *at = k->chained;
    unlink_by_age(keys, k);
    k->chained = keys->spare;
    keys->spare = k;
    keys->count--;
}

static void evict_one(struct rn_local_keys *keys, int64_t now_ns)
{
    for (unsigned i = 0; i < TRIES && keys->oldest; i++) {
        struct rn_local_key *k = keys->oldest;

        if (keys->spares(k, now_ns)) {
            rn_local_keys_remove(keys, k);
            return;
        }
        touch(keys, k);
    }
}

void *rn_local_keys_add(struct rn_local_keys *keys, uint64_t key, int64_t now_ns)
{
    struct rn_local_key **head = &keys->heads[key & keys->head_mask];

    if (keys->count == keys->capacity && keys->spares)
        evict_one(keys, now_ns);
    if (keys->count == keys->capacity)
        return NULL;
    struct rn_local_key *k = keys->spare;

    if (k)
        keys->spare = k->chained;
    else
        k = (struct rn_local_key *)(void *)(keys->all + keys->size * keys->used++);
    memset(k, 0, keys->size);
    k->key = key;
    k->chained = *head;
    *head = k;
    make_newest(keys, k);
    keys->count++;
    return k;
}

size_t rn_local_keys_index(const struct rn_local_keys *keys, const struct rn_local_key *key)
{
    return (size_t)((const char *)key - keys->all) / keys->size;
}
