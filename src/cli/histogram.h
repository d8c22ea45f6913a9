/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long many things took, to three significant digits, in fixed memory.
 *
 * Buckets are log-linear: each power of two is cut into 1024, so that a bucket
 * is never wider than 1/1024 of what is in it. Below 2048 ns each ns has its
 * own.
 *
 *   index = 1024 * e + (ns >> e), where e makes ns >> e less than 2048
 */
#ifndef RN_CLI_HISTOGRAM_H
#define RN_CLI_HISTOGRAM_H

#include <stdint.h>

#define RN_HISTOGRAM_FINE 1024
#define RN_HISTOGRAM_SHIFTS 30 /* up to 2^41 ns, 36 minutes; what is longer counts as that */
#define RN_HISTOGRAM_BUCKETS (RN_HISTOGRAM_FINE * (RN_HISTOGRAM_SHIFTS + 2))

struct rn_histogram {
    uint64_t count;
    int64_t min_ns, max_ns; /* exact; of nothing, 0 */
    uint64_t buckets[RN_HISTOGRAM_BUCKETS];
};

static inline uint32_t rn_histogram_index(int64_t ns)
{
    uint64_t value = ns < 0 ? 0 : (uint64_t)ns;
    unsigned shift = value < 2 * RN_HISTOGRAM_FINE ? 0 : 53 - (unsigned)__builtin_clzll(value);

    if (shift > RN_HISTOGRAM_SHIFTS)
        return RN_HISTOGRAM_BUCKETS - 1;
    return (uint32_t)(RN_HISTOGRAM_FINE * shift + (value >> shift));
}

/* `times` of the same length. All zero bytes is an empty histogram. */
static inline void rn_histogram_add(struct rn_histogram *h, int64_t ns, uint64_t times)
{
    h->buckets[rn_histogram_index(ns)] += times;
    if (h->count == 0 || ns < h->min_ns)
        h->min_ns = ns;
    if (ns > h->max_ns)
        h->max_ns = ns;
    h->count += times;
}

void rn_histogram_merge(struct rn_histogram *into, const struct rn_histogram *from);

/* The least length that `percent` of all do not exceed, rounded up to the end of
 * its bucket, and never more than the maximum. 0 of nothing. */
int64_t rn_histogram_quantile(const struct rn_histogram *h, double percent);

#endif
