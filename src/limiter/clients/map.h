/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A map from 64-bit hashes to items: any thread reads it without a lock while one thread changes
 * it. Hashes are keyed, and equal hashes mean the same item.
 *
 * A slot once used for a hash belongs to it until the table is replaced by a larger or cleaner one;
 * deleting leaves a marker. A reader may go on with a table or an item that has just been replaced:
 * the owner frees them when it knows that no reader is left.
 */
#ifndef RN_LIMITER_CLIENTS_MAP_H
#define RN_LIMITER_CLIENTS_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct rn_map_slot {
    uint64_t hash;
    void *item; /* NULL: never used; rn_map_deleted: deleted */
};

struct rn_map_table {
    uint64_t mask;
    struct rn_map_table *older; /* replaced tables, to be freed later */
    struct rn_map_slot slots[];
};

/* All zeros is an empty one. */
struct rn_map {
    struct rn_map_table *table;
    uint32_t used, live; /* slots, and those with an item */
};

extern char rn_map_deleted;

static inline void *rn_map_find(const struct rn_map *map, uint64_t hash)
{
    const struct rn_map_table *t = __atomic_load_n(&map->table, __ATOMIC_ACQUIRE);

    if (!t)
        return NULL;
    for (uint64_t i = hash;; i++) {
        const struct rn_map_slot *slot = &t->slots[i & t->mask];
        void *item = __atomic_load_n(&slot->item, __ATOMIC_ACQUIRE);

        if (!item)
            return NULL;
        if (__atomic_load_n(&slot->hash, __ATOMIC_RELAXED) == hash)
            return item == &rn_map_deleted ? NULL : item;
    }
}

/* Room for one more, so that the next put cannot fail. */
bool rn_map_reserve(struct rn_map *map);
/* Returns the item that was there before, or NULL. */
void *rn_map_put(struct rn_map *map, uint64_t hash, void *item);
void *rn_map_remove(struct rn_map *map, uint64_t hash);

/* The next item at or behind slot *at, which is moved on; NULL: no more. */
void *rn_map_next(const struct rn_map *map, uint64_t *at);

/* Frees tables that were replaced; or all, not the items. No thread may read. */
void rn_map_trim(struct rn_map *map);
void rn_map_done(struct rn_map *map);

#endif
