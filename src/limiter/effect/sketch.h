/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many different keys there were, about: HyperLogLog (Flajolet et al., 2007) with linear
 * counting for few of them (Whang et al., 1990). 512 bytes, whatever the number; the standard error
 * is 1.04 / sqrt(512) = 4.6 %, and less below a thousand keys.
 *
 * A register keeps the longest run of zero bits that a hash has had. Hashes are keyed, so no client
 * can choose them.
 */
#ifndef RN_LIMITER_EFFECT_SKETCH_H
#define RN_LIMITER_EFFECT_SKETCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hints.h"

#define RN_SKETCH_BITS 9
#define RN_SKETCH_REGISTERS (1 << RN_SKETCH_BITS)

/* Accessed atomically. Two threads that raise one register at once may lose the lower of the two
 * values, or keep it until that key comes again. */
struct rn_sketch {
    uint8_t registers[RN_SKETCH_REGISTERS];
};

/* True: the key was probably not seen before. False says little once there are many. */
static inline bool rn_sketch_add(struct rn_sketch *d, uint64_t hash)
{
    uint8_t *at = &d->registers[hash & (RN_SKETCH_REGISTERS - 1)];
    int zeros = __builtin_ctzll(hash >> RN_SKETCH_BITS | UINT64_C(1) << 55);

    if (rn_likely(__atomic_load_n(at, __ATOMIC_RELAXED) > zeros))
        return false;
    __atomic_store_n(at, (uint8_t)(zeros + 1), __ATOMIC_RELAXED);
    return true;
}

/* Adds all keys of another. */
void rn_sketch_merge(struct rn_sketch *d, const struct rn_sketch *other);

/* Other threads may add meanwhile. */
uint64_t rn_sketch_estimate(const struct rn_sketch *d);
/* The same for any array of `count` registers, 128 or more: each has the longest run of zero bits,
 * plus 1, of the hashes that fell to it, or 0. */
uint64_t rn_sketch_estimate_registers(const uint8_t *registers, unsigned count);

#endif
