/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Metrics in the text format of Prometheus, version 0.0.4:
 *
 *     rn_metrics_begin(out, "ration_decisions_total", RN_METRICS_COUNTER, "Decisions.");
 *     rn_metrics_put(out, "ration_decisions_total", labels, 2, n);
 *
 * and histograms of times, to which a thread adds in a few instructions.
 */
#ifndef RN_WIRE_METRICS_H
#define RN_WIRE_METRICS_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"

enum rn_metrics_type { RN_METRICS_COUNTER, RN_METRICS_GAUGE, RN_METRICS_HISTOGRAM };

/* The name is a constant that suits the format; the value may be any text. */
struct rn_metrics_label {
    const char *name;
    struct rn_slice value;
};

#define RN_METRICS_LABEL(name_, text_)                                                             \
    (struct rn_metrics_label)                                                                      \
    {                                                                                              \
        .name = (name_), .value = (text_)                                                          \
    }

/* Writes HELP and TYPE. All samples of the family must follow. */
void rn_metrics_begin(struct rn_buf *out, const char *name, enum rn_metrics_type type,
                      const char *help);
/* Writes one sample. Bytes that are not UTF-8 in a label's value become U+FFFD. */
void rn_metrics_put(struct rn_buf *out, const char *name, const struct rn_metrics_label *labels,
                    size_t count, uint64_t value);
void rn_metrics_put_double(struct rn_buf *out, const char *name,
                           const struct rn_metrics_label *labels, size_t count, double value);
/* A family of one sample without labels. */
void rn_metrics_put_gauge(struct rn_buf *out, const char *name, const char *help, uint64_t value);
void rn_metrics_put_counter(struct rn_buf *out, const char *name, const char *help, uint64_t value);
void rn_metrics_put_number(struct rn_buf *out, const char *name, enum rn_metrics_type type,
                           const char *help, double value);

/* --- times ------------------------------------------------------------------------------- */

/* Buckets up to 1, 2, 5, 10 µs, and so on to 1 s, and one for longer times. */
#define RN_HISTOGRAM_BUCKETS 20

/* Zeroed is ready. One thread writes; others may call rn_metrics_histogram_merge meanwhile. */
struct rn_histogram {
    uint64_t counts[RN_HISTOGRAM_BUCKETS]; /* not cumulative */
    uint64_t sum_ns;
};

/* The upper bounds of all buckets but the last, in ns. */
extern const int64_t rn_metrics_histogram_bounds_ns[RN_HISTOGRAM_BUCKETS - 1];
/* By number of bits: the bucket of the shortest time with that many bits. Longer times with as
 * many bits are in it or in the next, since each bound is at least twice the one before. */
extern const uint8_t rn_metrics_histogram_first[65];

static inline void rn_metrics_histogram_count(uint64_t *counter, uint64_t more)
{
    __atomic_store_n(counter, __atomic_load_n(counter, __ATOMIC_RELAXED) + more, __ATOMIC_RELAXED);
}

/* Adds `count` equal times. */
static inline void rn_metrics_histogram_add_many(struct rn_histogram *h, int64_t ns, uint64_t count)
{
    uint64_t time = ns > 0 ? (uint64_t)ns : 0;
    unsigned at = rn_metrics_histogram_first[time == 0 ? 0 : 64 - __builtin_clzll(time)];

    at += at < RN_HISTOGRAM_BUCKETS - 1 && (int64_t)time > rn_metrics_histogram_bounds_ns[at];
    rn_metrics_histogram_count(&h->counts[at], count);
    rn_metrics_histogram_count(&h->sum_ns, time * count);
}

void rn_metrics_histogram_merge(struct rn_histogram *into, const struct rn_histogram *from);
/* Times in other buckets. */
struct rn_metrics_times {
    const char *const *bounds; /* of all buckets, in seconds; the last is "+Inf" */
    const uint64_t *counts;    /* not cumulative */
    size_t bucket_count;
    uint64_t sum_ns;
};

/* Writes the samples NAME_bucket with the label le, cumulative, NAME_sum in seconds and
 * NAME_count. At most RN_METRICS_LABELS_MAX labels. */
#define RN_METRICS_LABELS_MAX 7
void rn_metrics_put_histogram(struct rn_buf *out, const char *name,
                              const struct rn_metrics_label *labels, size_t count,
                              const struct rn_histogram *h);
void rn_metrics_put_times(struct rn_buf *out, const char *name,
                          const struct rn_metrics_label *labels, size_t count,
                          const struct rn_metrics_times *times);

#endif
