/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A histogram of latencies, to three significant digits, in fixed memory.
 *
 * Buckets are log-linear: each power of two is cut into 1024, so that a bucket is never
 * wider than 1/1024 of its values. Below 2048 ns each ns has its own bucket.
 *
 *   index = 1024 * e + (ns >> e), where e makes ns >> e less than 2048
 */
#ifndef RN_CLI_BENCH_LATENCY_H
#define RN_CLI_BENCH_LATENCY_H

#include <stdint.h>

#define RN_LATENCY_FINE 1024
#define RN_LATENCY_SHIFTS 30 /* up to 2^41 ns, 36 minutes; longer times count as that */
#define RN_LATENCY_BUCKETS (RN_LATENCY_FINE * (RN_LATENCY_SHIFTS + 2))

struct rn_latency {
    uint64_t count;
    int64_t min_ns, max_ns; /* exact; 0 without values */
    uint64_t buckets[RN_LATENCY_BUCKETS];
};

static inline uint32_t rn_latency_index(int64_t ns)
{
    uint64_t value = ns < 0 ? 0 : (uint64_t)ns;
    unsigned shift = value < 2 * RN_LATENCY_FINE ? 0 : 53 - (unsigned)__builtin_clzll(value);

    if (shift > RN_LATENCY_SHIFTS)
        return RN_LATENCY_BUCKETS - 1;
    return (uint32_t)(RN_LATENCY_FINE * shift + (value >> shift));
}

/* Counts `times` values of `ns`. All zero bytes is an empty histogram. */
static inline void rn_latency_add(struct rn_latency *h, int64_t ns, uint64_t times)
{
    h->buckets[rn_latency_index(ns)] += times;
    if (h->count == 0 || ns < h->min_ns)
        h->min_ns = ns;
    if (ns > h->max_ns)
        h->max_ns = ns;
    h->count += times;
}

void rn_latency_merge(struct rn_latency *into, const struct rn_latency *from);

/* The smallest time that `percent` of all do not exceed, rounded up to the end of its
 * bucket, and never more than the maximum. 0 without values. */
int64_t rn_latency_quantile(const struct rn_latency *h, double percent);

#endif
