/* SPDX-License-Identifier: Apache-2.0 */
/* The text format of Prometheus, and the buckets of histograms. */
#include "wire/metrics.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

static const char *const types[] = {"counter", "gauge", "histogram"};

void rn_metrics_begin(struct rn_buf *out, const char *name, enum rn_metrics_type type,
                      const char *help)
{
    rn_buf_putf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, types[type]);
}

/* --- samples ------------------------------------------------------------------------------- */

static void put_text(struct rn_buf *out, const char *text)
{
    rn_buf_put_slice(out, rn_slice_of(text));
}

static void put_series(struct rn_buf *out, const char *name, const char *suffix,
                       const struct rn_metrics_label *labels, size_t count)
{
    put_text(out, name);
    put_text(out, suffix);
    for (size_t i = 0; i < count; i++) {
        struct rn_slice value = labels[i].value;

        rn_buf_put_char(out, i == 0 ? '{' : ',');
        put_text(out, labels[i].name);
        rn_buf_put_literal(out, "=\"");
        for (size_t at = 0; at < value.len;) {
            uint32_t point = 0;
            size_t size = rn_utf8_decode(value.data + at, value.len - at, &point);

            if (size == 0)
                rn_buf_put_literal(out, "\xef\xbf\xbd");
            else if (point == '\n')
                rn_buf_put_literal(out, "\\n");
            else if (point == '"' || point == '\\')
                rn_buf_put(out, (char[]){'\\', (char)point}, 2);
            else
                rn_buf_put(out, value.data + at, size);
            at += size == 0 ? 1 : size;
        }
        rn_buf_put_char(out, '"');
    }
    if (count > 0)
        rn_buf_put_char(out, '}');
    rn_buf_put_char(out, ' ');
}

void rn_metrics_put(struct rn_buf *out, const char *name, const struct rn_metrics_label *labels,
                    size_t count, uint64_t value)
{
    put_series(out, name, "", labels, count);
    rn_buf_put_u64(out, value);
    rn_buf_put_char(out, '\n');
}

void rn_metrics_put_double(struct rn_buf *out, const char *name,
                           const struct rn_metrics_label *labels, size_t count, double value)
{
    char text[32];

    put_series(out, name, "", labels, count);
    if (isnan(value)) {
        rn_buf_put_literal(out, "NaN");
    } else if (isinf(value)) {
        put_text(out, value > 0 ? "+Inf" : "-Inf");
    } else { /* 15 digits, or 17 if those do not read back as the same number */
        snprintf(text, sizeof text, "%.15g", value);
        if (strtod(text, NULL) < value || strtod(text, NULL) > value)
            snprintf(text, sizeof text, "%.17g", value);
        put_text(out, text);
    }
    rn_buf_put_char(out, '\n');
}

void rn_metrics_put_gauge(struct rn_buf *out, const char *name, const char *help, uint64_t value)
{
    rn_metrics_begin(out, name, RN_METRICS_GAUGE, help);
    rn_metrics_put(out, name, NULL, 0, value);
}

void rn_metrics_put_counter(struct rn_buf *out, const char *name, const char *help, uint64_t value)
{
    rn_metrics_begin(out, name, RN_METRICS_COUNTER, help);
    rn_metrics_put(out, name, NULL, 0, value);
}

void rn_metrics_put_number(struct rn_buf *out, const char *name, enum rn_metrics_type type,
                           const char *help, double value)
{
    rn_metrics_begin(out, name, type, help);
    rn_metrics_put_double(out, name, NULL, 0, value);
}

/* --- times --------------------------------------------------------------------------------- */

const int64_t rn_metrics_histogram_bounds_ns[] = {
    1000,     2000,      5000,      10000,     20000,     50000,    100000,
    200000,   500000,    1000000,   2000000,   5000000,   10000000, 20000000,
    50000000, 100000000, 200000000, 500000000, 1000000000};

const uint8_t rn_metrics_histogram_first[] = {
    0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  0,  1,  2,  2,  3,  4,  5,  6,  7,  8,  9,  10,
    11, 11, 12, 13, 14, 15, 16, 17, 18, 19, 19, 19, 19, 19, 19, 19, 19, 19, 19, 19, 19, 19,
    19, 19, 19, 19, 19, 19, 19, 19, 19, 19, 19, 19, 19, 19, 19, 19, 19, 19, 19, 19, 19};

/* The bounds in seconds. */
static const char *const bounds_text[] = {"0.000001", "0.000002", "0.000005", "0.00001", "0.00002",
                                          "0.00005",  "0.0001",   "0.0002",   "0.0005",  "0.001",
                                          "0.002",    "0.005",    "0.01",     "0.02",    "0.05",
                                          "0.1",      "0.2",      "0.5",      "1",       "+Inf"};

void rn_metrics_histogram_merge(struct rn_histogram *into, const struct rn_histogram *from)
{
    for (size_t i = 0; i < RN_HISTOGRAM_BUCKETS; i++)
        into->counts[i] += __atomic_load_n(&from->counts[i], __ATOMIC_RELAXED);
    into->sum_ns += __atomic_load_n(&from->sum_ns, __ATOMIC_RELAXED);
}

void rn_metrics_put_times(struct rn_buf *out, const char *name,
                          const struct rn_metrics_label *labels, size_t count,
                          const struct rn_metrics_times *times)
{
    struct rn_metrics_label all[RN_METRICS_LABELS_MAX + 1];
    uint64_t sum = 0, part = times->sum_ns % 1000000000;

    assert(count <= RN_METRICS_LABELS_MAX);
    for (size_t i = 0; i < count; i++)
        all[i] = labels[i];
    for (size_t i = 0; i < times->bucket_count; i++) {
        sum += times->counts[i];
        all[count] = (struct rn_metrics_label){"le", rn_slice_of(times->bounds[i])};
        put_series(out, name, "_bucket", all, count + 1);
        rn_buf_put_u64(out, sum);
        rn_buf_put_char(out, '\n');
    }
    put_series(out, name, "_sum", labels, count);
    rn_buf_put_u64(out, times->sum_ns / 1000000000);
    if (part != 0)
        rn_buf_put_char(out, '.');
    for (uint64_t place = 100000000; part != 0; part %= place, place /= 10)
        rn_buf_put_char(out, (char)('0' + part / place));
    rn_buf_put_char(out, '\n');
    put_series(out, name, "_count", labels, count);
    rn_buf_put_u64(out, sum);
    rn_buf_put_char(out, '\n');
}

void rn_metrics_put_histogram(struct rn_buf *out, const char *name,
                              const struct rn_metrics_label *labels, size_t count,
                              const struct rn_histogram *h)
{
    const struct rn_metrics_times times = {bounds_text, h->counts, RN_HISTOGRAM_BUCKETS, h->sum_ns};

    rn_metrics_put_times(out, name, labels, count, &times);
}
