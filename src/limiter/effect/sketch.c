/* SPDX-License-Identifier: Apache-2.0 */
#include "limiter/effect/sketch.h"

#include <stddef.h>

/* log2(x) for x of 1 or more: the whole part by halving, then one bit for each squaring. (Without
 * libm, which the library does not link.) */
static double log2_of(double x)
{
    double result = 0, bit = 1;

    for (; x >= 2; x /= 2)
        result++;
    for (int i = 0; i < 30; i++) {
        bit /= 2;
        x *= x;
        if (x >= 2) {
            x /= 2;
            result += bit;
        }
    }
    return result;
}

void rn_sketch_merge(struct rn_sketch *d, const struct rn_sketch *other)
{
    for (size_t i = 0; i < RN_SKETCH_REGISTERS; i++) {
        uint8_t rank = __atomic_load_n(&other->registers[i], __ATOMIC_RELAXED);

        if (__atomic_load_n(&d->registers[i], __ATOMIC_RELAXED) < rank)
            __atomic_store_n(&d->registers[i], rank, __ATOMIC_RELAXED);
    }
}

/* E = alpha m^2 / sum(2^-register), alpha = 0.7213 / (1 + 1.079 / m). While registers are empty and
 * E is below 2.5 m, m ln(m / empty) is closer. 64-bit hashes need no correction for large E. */
uint64_t rn_sketch_estimate_registers(const uint8_t *registers, unsigned count)
{
    const double m = count, ln2 = 0.69314718055994531;
    double sum = 0;
    unsigned empty = 0;

    for (unsigned i = 0; i < count; i++) {
        uint8_t rank = __atomic_load_n(&registers[i], __ATOMIC_RELAXED);

        empty += rank == 0;
        sum += 1.0 / (double)(UINT64_C(1) << rank);
    }
    double estimate = 0.7213 / (1 + 1.079 / m) * m * m / sum;

    if (empty != 0 && estimate <= 2.5 * m)
        estimate = m * ln2 * log2_of(m / empty);
    return (uint64_t)(estimate + 0.5);
}

uint64_t rn_sketch_estimate(const struct rn_sketch *d)
{
    return rn_sketch_estimate_registers(d->registers, RN_SKETCH_REGISTERS);
}
