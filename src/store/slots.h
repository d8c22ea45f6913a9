/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to store/: finding and claiming the slot of a key.
 */
#ifndef RN_STORE_SLOTS_H
#define RN_STORE_SLOTS_H

#include "store/layout.h"

/* A slot and what was read there. slot NULL: the key has none. */
struct rn_found {
    struct rn_slot *slot;
    struct rn_slot_value value;
};

/* The part of a key that identifies it in a tag; never 0. */
static inline uint64_t rn_key_tag(uint64_t key)
{
    uint64_t tag = key & RN_TAG_HASH;

    return tag != 0 ? tag : ~RN_TAG_HASH + 1;
}

/* A key lives in one of two groups, which its tag alone determines, so that a
 * table can be rebuilt at another size. */
static inline struct rn_group *rn_group_first(const struct rn_table *table, uint64_t tag)
{
    __extension__ typedef unsigned __int128 wide;

    return &table->groups[(uint64_t)(((wide)tag * table->group_count) >> 64)];
}
struct rn_group *rn_group_second(const struct rn_table *table, uint64_t tag);

/* A quarter line of slots is looked at first: the one most keys are in. */
static inline unsigned rn_slot_home(uint64_t tag)
{
    return (unsigned)(tag >> 6 & 1) * (RN_GROUP_SLOTS / 2);
}

/* The committed slot of a key; claims not yet committed count as none. */
struct rn_found rn_slot_find(const struct rn_table *table, uint64_t tag);

/* Makes a slot for a key that had none. On success `found` is either the slot
 * someone else has committed meanwhile, or a pending one that the caller
 * commits by swapping it for a charged state. RATION_EFULL if there is none to
 * be had: every candidate is live, and `keep` forbids to evict or all are kept. */
int rn_slot_claim(struct rn_table *table, uint64_t tag, int64_t now_ns, bool keep,
                  struct rn_found *found);

/* When the state in a slot is idle; INT64_MIN for an empty or unsound one. */
int64_t rn_slot_idle_at(const struct rn_table *table, const struct rn_found *found);

/* Swaps a slot for another value and frees the block it had. */
bool rn_slot_replace(struct rn_table *table, const struct rn_found *found,
                     struct rn_slot_value value);

/* Frees blocks by emptying idle slots, or one live slot of this class if
 * `evict`. Looks at a bounded number of groups. */
bool rn_slots_reclaim(struct rn_table *table, unsigned class, int64_t now_ns, bool evict);

#endif
