/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stripes of counters: where they are, and their sums.
 */
#include "limiter/stats.h"

#include <stdlib.h>

#include "limiter/limiter.h"

#define LINE ((size_t)128) /* two: they are fetched in pairs */

_Static_assert(sizeof(struct rn_counts) == 3 * RN_STATS_LINE, "three lines");

int rn_stats_init(struct rn_stats *stats, size_t limits)
{
    size_t bytes = sizeof(struct rn_stripe) + (limits + 1) * sizeof(struct rn_counts);

    stats->stride = (bytes + LINE - 1) / LINE * LINE;
    /* calloc, not aligned_alloc: pages of threads that never come stay untouched. */
    stats->memory = calloc(1, RN_THREADS * stats->stride + LINE);
    if (!stats->memory)
        return RATION_ENOMEM;
    stats->stripes = (char *)(((uintptr_t)stats->memory + LINE - 1) / LINE * LINE);
    rn_stats_at(stats, RN_THREAD_SHARED)->shared = true;
    return 0;
}

void rn_stats_done(struct rn_stats *stats)
{
    free(stats->memory);
}

RN_ASIDE void rn_stats_count_remarks(const struct rn_stripe *s, struct rn_counts *counts,
                                     unsigned result)
{
    if (result & RN_RESULT_SHADOWED)
        rn_stats_add(s, &counts->shadowed);
    if (result & RN_RESULT_DELAYED)
        rn_stats_add(s, &counts->delayed);
    if (result & RN_RESULT_SHADOW_DELAYED)
        rn_stats_add(s, &counts->shadow_delayed);
    if (result & RN_RESULT_SOFT)
        rn_stats_add(s, &counts->soft);
    if (result & RN_RESULT_NEAR)
        rn_stats_add(s, &counts->near);
}

/* All fields are 64-bit counters. */
void rn_stats_add_counts(struct rn_counts *sum, const struct rn_counts *counts)
{
    const uint64_t *from = (const uint64_t *)(const void *)counts;
    uint64_t *to = (uint64_t *)(void *)sum;

    for (size_t i = 0; i < sizeof *sum / sizeof *to; i++)
        to[i] += __atomic_load_n(&from[i], __ATOMIC_RELAXED);
}

void rn_stats_sum(const struct rn_stats *stats, uint32_t index, struct rn_counts *sum)
{
    *sum = (struct rn_counts){0};
    for (unsigned i = 0; i < RN_THREADS; i++)
        rn_stats_add_counts(sum, rn_stats_row(rn_stats_at(stats, i), index));
}

void rn_stats_set_totals(struct ration_totals *totals, const struct rn_counts *sum)
{
    uint64_t decided = sum->allowed + sum->refused;

    *totals = (struct ration_totals){.allowed = sum->allowed,
                                     .refused = sum->refused,
                                     .shadowed = sum->shadowed,
                                     .errors = sum->errors,
                                     .delayed = sum->delayed,
                                     .shadow_delayed = sum->shadow_delayed,
                                     .soft = sum->soft,
                                     .near = sum->near,
                                     .charged = sum->charged,
                                     .hits_allowed = sum->hits_allowed,
                                     .hits_refused = sum->hits_refused,
                                     .uncollected = sum->uncollected,
                                     .bans = sum->bans,
                                     .ban_refusals = sum->ban_refusals,
                                     .lifted = sum->lifted,
                                     .waited = sum->waited,
                                     .wait_timeouts = sum->wait_timeouts};
    totals->block_rate = decided ? (double)sum->refused / (double)decided : 0;
}

void ration_totals(const struct ration *r, struct ration_totals *totals)
{
    struct rn_counts sum = {0};
    uint64_t unmatched = 0;

    for (unsigned i = 0; i < RN_THREADS; i++) {
        const struct rn_stripe *s = rn_stats_at(&r->stats, i);

        rn_stats_add_counts(&sum, &s->total);
        unmatched += __atomic_load_n(&s->rowless.unmatched, __ATOMIC_RELAXED);
    }
    rn_stats_set_totals(totals, &sum);
    totals->unmatched = unmatched;
}

int ration_limit_totals(const struct ration *r, uint32_t limit, struct ration_totals *totals)
{
    struct rn_counts sum;

    if (limit >= r->limit_count && limit != RN_AD_HOC)
        return RATION_EINVAL;
    rn_stats_sum(&r->stats, limit, &sum);
    rn_stats_set_totals(totals, &sum);
    return 0;
}
