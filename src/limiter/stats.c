/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stripes of counters: where they are, and their sums.
 */
#include "limiter/stats.h"

#include <stdlib.h>

#include "limiter/limiter.h"

#define LINE ((size_t)64)

static struct rn_stripe *stripe_at(const struct rn_stats *stats, unsigned thread)
{
    return (struct rn_stripe *)(void *)(stats->stripes + thread * stats->stride);
}

int rn_stats_init(struct rn_stats *stats, size_t limits)
{
    size_t bytes = sizeof(struct rn_stripe) + (limits + 1) * sizeof(struct rn_counts);

    stats->stride = (bytes + LINE - 1) / LINE * LINE;
    /* calloc, not aligned_alloc: pages of threads that never come stay untouched. */
    stats->memory = calloc(1, RN_THREADS * stats->stride + LINE);
    if (!stats->memory)
        return RATION_ENOMEM;
    stats->stripes = (char *)(((uintptr_t)stats->memory + LINE - 1) / LINE * LINE);
    stripe_at(stats, RN_THREAD_SHARED)->shared = true;
    return 0;
}

void rn_stats_done(struct rn_stats *stats)
{
    free(stats->memory);
}

static void add_counts(struct ration_totals *totals, const struct rn_counts *counts)
{
    totals->allowed += __atomic_load_n(&counts->allowed, __ATOMIC_RELAXED);
    totals->refused += __atomic_load_n(&counts->refused, __ATOMIC_RELAXED);
    totals->shadowed += __atomic_load_n(&counts->shadowed, __ATOMIC_RELAXED);
    totals->errors += __atomic_load_n(&counts->errors, __ATOMIC_RELAXED);
}

static void set_block_rate(struct ration_totals *totals)
{
    uint64_t decided = totals->allowed + totals->refused;

    totals->block_rate = decided ? (double)totals->refused / (double)decided : 0;
}

void ration_totals(const struct ration *r, struct ration_totals *totals)
{
    *totals = (struct ration_totals){0};
    for (unsigned i = 0; i < RN_THREADS; i++)
        add_counts(totals, &stripe_at(&r->stats, i)->total);
    set_block_rate(totals);
}

int ration_limit_totals(const struct ration *r, uint32_t limit, struct ration_totals *totals)
{
    if (limit >= r->limit_count && limit != RN_AD_HOC)
        return RATION_EINVAL;
    *totals = (struct ration_totals){0};
    for (unsigned i = 0; i < RN_THREADS; i++)
        add_counts(totals, rn_stats_row(stripe_at(&r->stats, i), limit));
    set_block_rate(totals);
    return 0;
}
