/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/replay/distinct.h"

#include <math.h>

uint64_t rn_distinct_count(const struct rn_distinct *d)
{
    const double m = 1 << RN_DISTINCT_BITS, alpha = 0.7213 / (1 + 1.079 / m);
    double sum = 0, estimate;
    unsigned zeros = 0;

    for (unsigned i = 0; i < sizeof d->registers; i++) {
        sum += ldexp(1, -d->registers[i]);
        zeros += d->registers[i] == 0;
    }
    estimate = alpha * m * m / sum;
    if (estimate < 2.5 * m && zeros != 0) /* few hashes: linear counting */
        estimate = m * log(m / zeros);
    return (uint64_t)(estimate + 0.5);
}
