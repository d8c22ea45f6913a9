/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open addressing, at most half used: most keys that are looked up are not there, and such a search
 * goes on to the next unused slot. One thread at a time in here.
 */
#include "limiter/clients/map.h"

#include <stdlib.h>

#define SLOTS_MIN 64

char rn_map_deleted;

static struct rn_map_slot *find_slot(struct rn_map_table *t, uint64_t hash)
{
    for (uint64_t i = hash;; i++) {
        struct rn_map_slot *slot = &t->slots[i & t->mask];

        if (!slot->item || slot->hash == hash)
            return slot;
    }
}

/* A full table is replaced by one with room for as many items again. */
bool rn_map_reserve(struct rn_map *map)
{
    uint64_t slots = map->table ? map->table->mask + 1 : 0;
    struct rn_map_table *old = map->table, *t;

    if (2 * ((uint64_t)map->used + 1) <= slots)
        return true;
    for (slots = SLOTS_MIN; slots < 3 * ((uint64_t)map->live + 1);)
        slots *= 2;
    t = calloc(1, sizeof *t + slots * sizeof *t->slots);
    if (!t)
        return false;
    t->mask = slots - 1;
    t->older = old;
    for (uint64_t at = 0; old && at <= old->mask; at++)
        if (old->slots[at].item && old->slots[at].item != &rn_map_deleted)
            *find_slot(t, old->slots[at].hash) = old->slots[at];
    map->used = map->live;
    __atomic_store_n(&map->table, t, __ATOMIC_RELEASE);
    return true;
}

void *rn_map_put(struct rn_map *map, uint64_t hash, void *item)
{
    struct rn_map_slot *slot = find_slot(map->table, hash);
    void *before = slot->item;

    if (!before) {
        map->used++;
        __atomic_store_n(&slot->hash, hash, __ATOMIC_RELAXED);
    }
    if (!before || before == &rn_map_deleted) {
        map->live++;
        before = NULL;
    }
    __atomic_store_n(&slot->item, item, __ATOMIC_RELEASE);
    return before;
}

void *rn_map_remove(struct rn_map *map, uint64_t hash)
{
    void *before = rn_map_find(map, hash);

    if (before) {
        __atomic_store_n(&find_slot(map->table, hash)->item, (void *)&rn_map_deleted,
                         __ATOMIC_RELEASE);
        map->live--;
    }
    return before;
}

void *rn_map_next(const struct rn_map *map, uint64_t *at)
{
    while (map->table && *at <= map->table->mask) {
        void *item = map->table->slots[(*at)++].item;

        if (item && item != &rn_map_deleted)
            return item;
    }
    return NULL;
}

void rn_map_trim(struct rn_map *map)
{
    struct rn_map_table *t = map->table ? map->table->older : NULL;

    while (t) {
        struct rn_map_table *older = t->older;

        free(t);
        t = older;
    }
    if (map->table)
        map->table->older = NULL;
}

void rn_map_done(struct rn_map *map)
{
    rn_map_trim(map);
    free(map->table);
    *map = (struct rn_map){.table = NULL};
}
