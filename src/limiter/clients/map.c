/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open addressing, at most three quarters used. One thread at a time in here.
 */
#include "limiter/clients/map.h"

#include <stdlib.h>

#define SLOTS_MIN 64

char rn_roll_gone;

static struct rn_roll_slot *find_slot(struct rn_roll_table *t, uint64_t hash)
{
    for (uint64_t i = hash;; i++) {
        struct rn_roll_slot *slot = &t->slots[i & t->mask];

        if (!slot->item || slot->hash == hash)
            return slot;
    }
}

/* With room for as many items again. */
static bool replace_table(struct rn_roll *roll)
{
    uint64_t slots = SLOTS_MIN, at = 0;
    struct rn_roll_table *old = roll->table, *t;

    while (slots < 3 * ((uint64_t)roll->live + 1))
        slots *= 2;
    t = calloc(1, sizeof *t + slots * sizeof *t->slots);
    if (!t)
        return false;
    t->mask = slots - 1;
    t->older = old;
    for (; old && at <= old->mask; at++)
        if (old->slots[at].item && old->slots[at].item != &rn_roll_gone)
            *find_slot(t, old->slots[at].hash) = old->slots[at];
    roll->used = roll->live;
    __atomic_store_n(&roll->table, t, __ATOMIC_RELEASE);
    return true;
}

bool rn_roll_reserve(struct rn_roll *roll)
{
    uint64_t slots = roll->table ? roll->table->mask + 1 : 0;

    return 4 * ((uint64_t)roll->used + 1) <= 3 * slots || replace_table(roll);
}

void *rn_roll_put(struct rn_roll *roll, uint64_t hash, void *item)
{
    struct rn_roll_slot *slot = find_slot(roll->table, hash);
    void *before = slot->item;

    if (!before) {
        roll->used++;
        __atomic_store_n(&slot->hash, hash, __ATOMIC_RELAXED);
    }
    if (!before || before == &rn_roll_gone) {
        roll->live++;
        before = NULL;
    }
    __atomic_store_n(&slot->item, item, __ATOMIC_RELEASE);
    return before;
}

void *rn_roll_remove(struct rn_roll *roll, uint64_t hash)
{
    void *before = rn_roll_find(roll, hash);

    if (before) {
        __atomic_store_n(&find_slot(roll->table, hash)->item, (void *)&rn_roll_gone,
                         __ATOMIC_RELEASE);
        roll->live--;
    }
    return before;
}

void *rn_roll_next(const struct rn_roll *roll, uint64_t *at)
{
    while (roll->table && *at <= roll->table->mask) {
        void *item = roll->table->slots[(*at)++].item;

        if (item && item != &rn_roll_gone)
            return item;
    }
    return NULL;
}

void rn_roll_trim(struct rn_roll *roll)
{
    struct rn_roll_table *t = roll->table ? roll->table->older : NULL;

    while (t) {
        struct rn_roll_table *older = t->older;

        free(t);
        t = older;
    }
    if (roll->table)
        roll->table->older = NULL;
}

void rn_roll_done(struct rn_roll *roll)
{
    rn_roll_trim(roll);
    free(roll->table);
    *roll = (struct rn_roll){.table = NULL};
}
