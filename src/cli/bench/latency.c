/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/bench/latency.h"

void rn_latency_merge(struct rn_latency *into, const struct rn_latency *from)
{
    if (from->count == 0)
        return;
    for (uint32_t i = 0; i < RN_LATENCY_BUCKETS; i++)
        into->buckets[i] += from->buckets[i];
    if (into->count == 0 || from->min_ns < into->min_ns)
        into->min_ns = from->min_ns;
    if (from->max_ns > into->max_ns)
        into->max_ns = from->max_ns;
    into->count += from->count;
}

/* The largest value that goes into a bucket: the inverse of rn_latency_index. */
static int64_t end_of(uint32_t index)
{
    uint32_t shift = index < 2 * RN_LATENCY_FINE ? 0 : index / RN_LATENCY_FINE - 1;
    int64_t value = index - (int64_t)shift * RN_LATENCY_FINE;

    return ((value + 1) << shift) - 1;
}

int64_t rn_latency_quantile(const struct rn_latency *h, double percent)
{
    double exact = percent / 100 * (double)h->count;
    uint64_t wanted = (uint64_t)exact, seen = 0;

    wanted += (double)wanted < exact || wanted == 0; /* rounded up, at least the first */
    for (uint32_t i = 0; i < RN_LATENCY_BUCKETS; i++) {
        seen += h->buckets[i];
        if (seen >= wanted && seen > 0)
            return end_of(i) < h->max_ns ? end_of(i) : h->max_ns;
    }
    return h->max_ns;
}
