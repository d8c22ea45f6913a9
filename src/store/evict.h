/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to store/: which key goes when the table is full.
 */
#ifndef RN_STORE_EVICT_H
#define RN_STORE_EVICT_H

#include "store/slots.h"

/* A slot that may be taken. Rank: 0 empty, 1 idle, 2 idle since very recently, 3 live,
 * 4 live and never evicted. */
struct rn_candidate {
    struct rn_found found;
    unsigned rank;
    uint64_t cost; /* of its loss */
};

struct rn_candidate rn_evict_judge(const struct rn_table *table, struct rn_slot *slot, int64_t now);

/* Whether `a` should be evicted before `b`; true if `b` has no slot. */
bool rn_evict_better(const struct rn_candidate *a, const struct rn_candidate *b);

/* The version of a block's state after a change at this time. It differs from the one before,
 * and between keys of one limit it tells which changed last. */
uint64_t rn_evict_version(const struct rn_limit *limit, struct rn_slot_value old, int64_t now);

/* Evicts a live key that has a block, the one whose loss costs least among those that a search
 * finds; if its block has another class, perhaps also the best of this class. Idle keys go as
 * they are met. `spared` is the tag of a key that stays. Returns the words freed: 0 if there is
 * no key to evict.
 *
 * Each search goes on where the last one ended, and remembers the best that it left. So it is
 * short, and still chooses among many. */
uint64_t rn_evict_block(struct rn_table *table, unsigned class, uint64_t spared, int64_t now);

#endif
