/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys that a worker decides itself: a hash table of fixed size, in the order of their last
 * use. When it is full, the key that was not used for the longest time makes room, if the owner
 * can spare it. One thread.
 */
#ifndef RN_REDIS_LOCAL_KEYS_H
#define RN_REDIS_LOCAL_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The first member of the owner's struct. Only `key` is for others to read. */
struct rn_local_key {
    uint64_t key;
    struct rn_local_key *chained, *older, *newer;
};

/* Whether the owner can spare the key. */
typedef bool rn_local_keys_spares(const struct rn_local_key *key, int64_t now_ns);

struct rn_local_keys {
    rn_local_keys_spares *spares; /* NULL: none is evicted, only removed by its owner */
    size_t size;                  /* of the owner's struct */
    uint32_t capacity, used, count;
    uint64_t head_mask;
    struct rn_local_key **heads; /* a power of two */
    struct rn_local_key *oldest, *newest, *spare;
    char *all;
};

/* False: out of memory; call rn_local_keys_done all the same. */
bool rn_local_keys_init(struct rn_local_keys *keys, uint32_t capacity, size_t size,
                        rn_local_keys_spares *spares);
void rn_local_keys_done(struct rn_local_keys *keys);

/* The key becomes the newest. NULL: not there. */
void *rn_local_keys_find(struct rn_local_keys *keys, uint64_t key);
/* Adds a key that was not found; the rest of the struct is zero. NULL: no room, for now. */
void *rn_local_keys_add(struct rn_local_keys *keys, uint64_t key, int64_t now_ns);
void rn_local_keys_remove(struct rn_local_keys *keys, struct rn_local_key *key);
/* The position of a key in the memory of the table, below its capacity. */
size_t rn_local_keys_index(const struct rn_local_keys *keys, const struct rn_local_key *key);

#endif
