/* SPDX-License-Identifier: Apache-2.0 */
/* Quantiles, compared with those of a sorted array. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "cli/bench/latency.h"

#define SAMPLES 20000

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

    return (x > y) - (x < y);
}

static uint64_t next(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return *state >> 20;
}

/* The least value that `percent` of all do not exceed. */
static int64_t exact(const int64_t *sorted, double percent)
{
    double rank = percent / 100 * SAMPLES;
    size_t at = (size_t)rank;

    at += (double)at < rank;
    return sorted[at == 0 ? 0 : at - 1];
}

static void quantiles_are_within_a_thousandth_of_the_exact_ones(void **state)
{
    static const double percents[] = {0, 1, 10, 50, 90, 99, 99.9, 99.99, 100};
    struct rn_latency *h = calloc(1, sizeof *h);
    int64_t *values = calloc(SAMPLES, sizeof *values);
    uint64_t seed = 7;

    (void)state;
    for (int spread = 8; spread <= 40; spread += 8) {
        *h = (struct rn_latency){0};
        for (int i = 0; i < SAMPLES; i++) {
            values[i] =
                (int64_t)(next(&seed) >> (next(&seed) % 20) & ((UINT64_C(1) << spread) - 1));
            rn_latency_add(h, values[i], 1);
        }
        qsort(values, SAMPLES, sizeof *values, by_value);
        assert_int_equal(h->count, SAMPLES);
        assert_int_equal(h->min_ns, values[0]);
        assert_int_equal(h->max_ns, values[SAMPLES - 1]);
        for (size_t p = 0; p < sizeof percents / sizeof percents[0]; p++) {
            int64_t wanted = exact(values, percents[p]);
            int64_t found = rn_latency_quantile(h, percents[p]);

            assert_true(found >= wanted);
            assert_true(found - wanted <= wanted / 1024);
        }
    }
    free(values);
    free(h);
}

static void every_bucket_begins_where_the_one_before_ends(void **state)
{
    uint32_t before = 0;

    (void)state;
    for (int64_t ns = 0; ns < 100000; ns++) {
        uint32_t index = rn_latency_index(ns);

        assert_true(index == before || index == before + 1);
        before = index;
    }
    for (int64_t end = 1 << 16; end < INT64_C(1) << 41; end *= 2)
        assert_int_equal(rn_latency_index(end - 1) + 1, rn_latency_index(end));
    assert_int_equal(rn_latency_index(-5), 0);
    assert_int_equal(rn_latency_index(INT64_MAX), RN_LATENCY_BUCKETS - 1);
}

static void merged_histograms_equal_one(void **state)
{
    struct rn_latency *parts = calloc(3, sizeof *parts);
    uint64_t seed = 3;

    (void)state;
    for (int i = 0; i < SAMPLES; i++) {
        int64_t value = (int64_t)(next(&seed) & 0xFFFFF);

        rn_latency_add(&parts[i % 2], value, 1);
        rn_latency_add(&parts[2], value, 1);
    }
    rn_latency_merge(&parts[0], &parts[1]);
    assert_memory_equal(&parts[0], &parts[2], sizeof parts[0]);
    free(parts);
}

static void an_empty_histogram_has_no_quantiles(void **state)
{
    struct rn_latency *h = calloc(1, sizeof *h);

    (void)state;
    assert_int_equal(rn_latency_quantile(h, 50), 0);
    rn_latency_merge(h, h);
    rn_latency_add(h, 1234567, 3);
    assert_int_equal(rn_latency_quantile(h, 0), 1234567);
    assert_int_equal(rn_latency_quantile(h, 100), 1234567);
    free(h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quantiles_are_within_a_thousandth_of_the_exact_ones),
        cmocka_unit_test(every_bucket_begins_where_the_one_before_ends),
        cmocka_unit_test(merged_histograms_equal_one),
        cmocka_unit_test(an_empty_histogram_has_no_quantiles),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
