/* SPDX-License-Identifier: Apache-2.0 */
#include "core/algorithm.h"

const struct rn_algorithm rn_algorithms[RN_ALGORITHMS] = {
    {RATION_TOKEN_BUCKET, "token-bucket", .is_rate = true},
    {RATION_LEAKY_BUCKET, "leaky-bucket", .is_rate = true, .needs_each = true},
    {RATION_FIXED_WINDOW, "fixed-window", .is_rate = true},
    {RATION_SLIDING_LOG, "sliding-log", .is_rate = true, .needs_each = true},
    {RATION_SLIDING_WINDOW, "sliding-window", .is_rate = true},
    {RATION_CONCURRENCY, "concurrency", .needs_each = true},
    {RATION_UNLIMITED, "unlimited", .is_rate = false},
};

const struct rn_algorithm *rn_algorithm_find(uint64_t number)
{
    for (size_t i = 0; i < RN_ALGORITHMS; i++)
        if ((uint64_t)rn_algorithms[i].algorithm == number)
            return &rn_algorithms[i];
    return NULL;
}

size_t rn_algorithm_rates(const char *names[RN_ALGORITHMS])
{
    size_t n = 0;

    for (size_t i = 0; i < RN_ALGORITHMS; i++)
        if (rn_algorithms[i].is_rate)
            names[n++] = rn_algorithms[i].name;
    return n;
}
