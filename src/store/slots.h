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
static inline struct rn_group *rn_group_second(const struct rn_table *table, uint64_t tag)
{
    return rn_group_first(table, tag * UINT64_C(0x9E3779B97F4A7C15));
}

/* A group is two cache lines. In either group a key is put into its home slot,
 * or else its home line, while there is room: filled to a load of 0.7, 57 of 100
 * keys are in the home slot of their first group, 76 in its home line, and 20 in
 * the home line of the second. */
#define RN_LINE_SLOTS (RN_GROUP_SLOTS / 2)

static inline unsigned rn_slot_home(uint64_t tag)
{
    return (unsigned)(tag >> 6) % RN_GROUP_SLOTS;
}

static inline unsigned rn_slot_home_line(uint64_t tag)
{
    return rn_slot_home(tag) & ~(RN_LINE_SLOTS - 1u);
}

static inline bool rn_same_key(uint64_t a, uint64_t b)
{
    return ((a ^ b) & RN_TAG_HASH) == 0;
}

static inline bool rn_is_pending(uint64_t tag)
{
    return (tag & RN_KIND_MASK) == RN_KIND_PENDING;
}

/* The committed slot of a key, when it is not at home. */
struct rn_found rn_slot_find_away(const struct rn_table *table, uint64_t tag);

/* The committed slot of a key; claims not yet committed count as none. */
static inline struct rn_found rn_slot_find(const struct rn_table *table, uint64_t tag)
{
    struct rn_slot *slot = &rn_group_first(table, tag)->slots[rn_slot_home(tag)];

    if (rn_same_key(__atomic_load_n(&slot->tag, __ATOMIC_RELAXED), tag)) {
        struct rn_slot_value value = rn_slot_load(slot);

        if (rn_same_key(value.tag, tag) && !rn_is_pending(value.tag))
            return (struct rn_found){slot, value};
    }
    return rn_slot_find_away(table, tag);
}

/* Makes a slot for a key that had none. On success `found` is either the slot
 * someone else has committed meanwhile, or a pending one that the caller
 * commits by swapping it for a charged state. RATION_EFULL if there is none to
 * be had: every candidate is live, and `keep` forbids to evict or all are kept. */
int rn_slot_claim(struct rn_table *table, uint64_t tag, int64_t now_ns, bool keep,
                  struct rn_found *found);

/* When the state in a slot is idle; INT64_MIN for an empty or unsound one. */
int64_t rn_slot_idle_at(const struct rn_table *table, const struct rn_found *found);

/* Starts fetching the blocks of a group from RAM, all at once. */
void rn_slots_group_fetch(const struct rn_table *table, const struct rn_group *group);

/* Swaps a slot for another value and frees the block it had. */
bool rn_slot_replace(struct rn_table *table, const struct rn_found *found,
                     struct rn_slot_value value);

#endif
