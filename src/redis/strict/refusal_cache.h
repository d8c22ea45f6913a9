/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Refusals that still hold: a take of n units that was refused for a time R is
 * refused for that long whoever asks, and so is every larger one; so the store need
 * not be asked again. For a second at most: somebody may have reset the key elsewhere.
 *
 * Only takes are remembered and answered. Not those of places, which may be released
 * at any time. A key that is refunded or reset here is forgotten, and so is a refusal
 * by a limit that has changed. Memory of fixed size: a newer refusal may take the
 * place of an older one.
 */
#ifndef RN_REDIS_REFUSAL_CACHE_H
#define RN_REDIS_REFUSAL_CACHE_H

#include "store/store.h"

#define RN_REFUSAL_CACHE_SIZE 4096 /* a power of two */
#define RN_REFUSAL_CACHE_MAX_NS (INT64_C(1) * 1000000000)

struct rn_cached_refusal {
    uint64_t key, cost, remaining;
    uint64_t amount, cap;
    int64_t period_ns;
    int64_t until_ns;           /* it is believed; 0: there is none */
    int64_t retry_ns, reset_ns; /* when the units and all of them are there */
};

struct rn_refusal_cache {
    struct rn_cached_refusal places[RN_REFUSAL_CACHE_SIZE];
};

/* Looks at a charge that is about to be sent at `now_ns`. True: refused, the answer is
 * filled. For a cost above the one refused, retry_after is the least it can be. */
bool rn_refusal_cache_find(struct rn_refusal_cache *refusals, struct rn_charge *charge,
                           int64_t now_ns);

/* Looks at a charge that was answered, and sent at `sent_ns`: time counts from there,
 * so that the refusal never outlives the reason for it. */
void rn_refusal_cache_note(struct rn_refusal_cache *refusals, const struct rn_charge *charge,
                           int64_t sent_ns);

#endif
