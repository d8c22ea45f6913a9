/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers by splitmix64. A test that fails prints the seed; RATION_SEED repeats a run. */
#ifndef MODEL_RANDOM_H
#define MODEL_RANDOM_H

#include <inttypes.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static uint64_t random_seed, random_state;

static inline uint64_t random_next(void)
{
    uint64_t z = random_state += UINT64_C(0x9E3779B97F4A7C15);

    z = (z ^ z >> 30) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ z >> 27) * UINT64_C(0x94D049BB133111EB);
    return z ^ z >> 31;
}

/* 0 .. n - 1 */
static inline uint64_t random_below(uint64_t n)
{
    return n == 0 ? 0 : random_next() % n;
}

/* lo .. hi, all magnitudes alike */
static inline uint64_t random_scale(uint64_t lo, uint64_t hi)
{
    unsigned bits = 64 - (unsigned)__builtin_clzll(hi | 1);
    uint64_t value = random_next() >> (64 - bits) >> random_below(bits);

    return value < lo ? lo : value > hi ? hi : value;
}

static inline void random_init(void)
{
    const char *seed = getenv("RATION_SEED");

    random_seed = random_state = seed ? strtoull(seed, NULL, 0) : 20260101;
}

/* RATION_SOAK=1 runs a hundred times as long. */
static inline uint64_t soak_factor(void)
{
    const char *soak = getenv("RATION_SOAK");

    return soak && strcmp(soak, "0") != 0 ? 100 : 1;
}

#endif
