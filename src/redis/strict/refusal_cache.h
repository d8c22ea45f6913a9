/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Refusals that still hold. If Redis refused a take of n units for a time R, every take of n or
 * more units of that key will be refused until then, without asking Redis again. The cache keeps a
 * refusal for a second at most: another node may reset the key.
 *
 * The cache is for takes only, and not for places, which may be released at any time. A refund or a
 * reset of the key on this node drops its refusal, and so does a change of the limit or its factor.
 * Each loop has a cache, and refunds come in by any of them: so all share the numbers of returns,
 * and a refusal that was asked for before the last return of its key is not believed. Fixed memory:
 * a newer refusal may replace an older one.
 */
#ifndef RN_REDIS_REFUSAL_CACHE_H
#define RN_REDIS_REFUSAL_CACHE_H

#include "store/store.h"

#define RN_REFUSAL_CACHE_SIZE 4096 /* a power of two */
#define RN_REFUSAL_CACHE_MAX_NS (INT64_C(1) * 1000000000)

/* Units that came back, on all loops of a process. Atomically. */
struct rn_returns {
    uint64_t count;                       /* of returns so far */
    uint64_t last[RN_REFUSAL_CACHE_SIZE]; /* the number of the last return of keys of this place */
};

struct rn_cached_refusal {
    uint64_t asked; /* how many returns there were when it was asked for */
    uint64_t key, cost, remaining;
    uint64_t amount, cap;
    int64_t period_ns;
    uint16_t percent;           /* the factor */
    int64_t until_ns;           /* valid until; 0: empty */
    int64_t retry_ns, reset_ns; /* when the units are back; when all units are */
};

struct rn_refusal_cache {
    struct rn_returns *returns; /* NULL: this cache sees all of them itself */
    struct rn_cached_refusal places[RN_REFUSAL_CACHE_SIZE];
};

/* To be handed to rn_refusal_cache_note for charges that are sent from now on. */
uint64_t rn_refusal_cache_asked(const struct rn_refusal_cache *refusals);
/* Units of this key have come back, or may have. */
void rn_refusal_cache_returned(struct rn_refusal_cache *refusals, uint64_t key);

/* Looks at a charge that is about to be sent at `now_ns`. True: it is refused, and its answer is
 * filled in. For a larger cost than the one refused, retry_after is a lower bound. */
bool rn_refusal_cache_find(struct rn_refusal_cache *refusals, struct rn_charge *charge,
                           int64_t now_ns);

/* Notes the answer to a charge sent at `sent_ns`. Time counts from the sending, so that the refusal
 * never outlives its reason. */
void rn_refusal_cache_note(struct rn_refusal_cache *refusals, const struct rn_charge *charge,
                           int64_t sent_ns, uint64_t asked);

#endif
