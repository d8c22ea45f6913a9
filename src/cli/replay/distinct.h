/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts different hashes in 4 KB, whatever their number: HyperLogLog (Flajolet and others, 2007)
 * with 4096 registers. Its standard error is 1.04 / sqrt(4096), 1.6 %.
 */
#ifndef RN_CLI_REPLAY_DISTINCT_H
#define RN_CLI_REPLAY_DISTINCT_H

#include "limiter/effect/sketch.h"

#define RN_DISTINCT_BITS 12
#define RN_DISTINCT_ERROR "1.6 %"

struct rn_distinct {
    uint8_t registers[1 << RN_DISTINCT_BITS];
};

static inline void rn_distinct_add(struct rn_distinct *d, uint64_t hash)
{
    uint64_t rest = hash << RN_DISTINCT_BITS | UINT64_C(1) << (RN_DISTINCT_BITS - 1);
    uint8_t rank = (uint8_t)(__builtin_clzll(rest) + 1);
    uint8_t *r = &d->registers[hash >> (64 - RN_DISTINCT_BITS)];

    *r = *r > rank ? *r : rank;
}

static inline uint64_t rn_distinct_count(const struct rn_distinct *d)
{
    return rn_sketch_estimate_registers(d->registers, sizeof d->registers);
}

#endif
