/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SipHash-1-3: a keyed hash. Without the key, inputs that collide cannot be found.
 */
#ifndef RN_BASE_SIPHASH_H
#define RN_BASE_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

struct rn_hash_key {
    uint64_t k0, k1;
};

uint64_t rn_siphash(const struct rn_hash_key *key, const void *data, size_t len);

/* Several pieces as one input. The length of each piece is hashed, too: moving a byte from
 * one piece to the next changes the hash. */
struct rn_siphash {
    uint64_t v0, v1, v2, v3;
    uint64_t tail;
    uint64_t len;
};
void rn_siphash_init(struct rn_siphash *state, const struct rn_hash_key *key);
void rn_siphash_add(struct rn_siphash *state, const void *piece, size_t len);
uint64_t rn_siphash_done(struct rn_siphash *state);

#endif
