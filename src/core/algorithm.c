/* SPDX-License-Identifier: Apache-2.0 */
#include "core/algorithm.h"

#include <ration/algorithm.h>

const struct rn_algorithm rn_algorithms[] = {
    {RATION_TOKEN_BUCKET, "token-bucket", .is_rate = true},
    {RATION_LEAKY_BUCKET, "leaky-bucket", .word = "queue", .is_rate = true, .needs_each = true},
    {RATION_FIXED_WINDOW, "fixed-window", .is_rate = true},
    {RATION_SLIDING_LOG, "sliding-log", .is_rate = true, .needs_each = true},
    {RATION_SLIDING_WINDOW, "sliding-window", .is_rate = true},
    {RATION_CONCURRENCY, "concurrency", .word = "concurrent", .needs_each = true},
    {RATION_UNLIMITED, "unlimited", .word = "unlimited"},
    {.name = NULL},
};

_Static_assert(sizeof rn_algorithms / sizeof *rn_algorithms <= RN_ALGORITHMS_MAX + 1,
               "raise RN_ALGORITHMS_MAX");

const struct rn_algorithm *rn_algorithm_find(uint64_t number)
{
    for (const struct rn_algorithm *a = rn_algorithms; a->name; a++)
        if ((uint64_t)a->algorithm == number)
            return a;
    return NULL;
}

const char *rn_algorithm_name_of(const struct ration_limit *spec)
{
    const struct rn_algorithm *found = rn_algorithm_find((uint64_t)spec->algorithm);

    return spec->own ? spec->own->name : found ? found->name : "unknown";
}

size_t rn_algorithm_rates(const char *names[RN_ALGORITHMS_MAX])
{
    size_t n = 0;

    for (const struct rn_algorithm *a = rn_algorithms; a->name; a++)
        if (a->is_rate)
            names[n++] = a->name;
    return n;
}
