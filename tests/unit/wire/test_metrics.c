/* SPDX-License-Identifier: Apache-2.0 */
/* Metrics as text, word for word, and where times go in a histogram. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "wire/metrics.h"

static void demand(struct rn_buf *out, const char *expected)
{
    rn_buf_put_char(out, '\0');
    assert_false(out->failed);
    assert_string_equal(out->data, expected);
    rn_buf_done(out);
}

static void a_family_has_help_and_type_and_samples(void **state)
{
    const struct rn_metrics_label labels[] = {{"rule", RN_SLICE_INIT("api")},
                                              {"result", RN_SLICE_INIT("allowed")}};
    struct rn_buf out = {0};

    (void)state;
    rn_metrics_begin(&out, "ration_decisions_total", RN_METRICS_COUNTER, "Decisions by rule.");
    rn_metrics_put(&out, "ration_decisions_total", labels, 2, UINT64_MAX);
    rn_metrics_put(&out, "ration_decisions_total", labels, 1, 0);
    rn_metrics_begin(&out, "ration_ready", RN_METRICS_GAUGE, "Ready.");
    rn_metrics_put(&out, "ration_ready", NULL, 0, 1);
    demand(&out, "# HELP ration_decisions_total Decisions by rule.\n"
                 "# TYPE ration_decisions_total counter\n"
                 "ration_decisions_total{rule=\"api\",result=\"allowed\"} 18446744073709551615\n"
                 "ration_decisions_total{rule=\"api\"} 0\n"
                 "# HELP ration_ready Ready.\n"
                 "# TYPE ration_ready gauge\n"
                 "ration_ready 1\n");
}

static void labels_cannot_break_the_format(void **state)
{
    const struct rn_metrics_label label = {"rule",
                                           RN_SLICE_INIT("a\"b\\c\nd} 1\xc3\xa9\xff\xe2\x82")};
    struct rn_buf out = {0};

    (void)state;
    rn_metrics_put(&out, "x", &label, 1, 7);
    demand(&out, "x{rule=\"a\\\"b\\\\c\\nd} 1\xc3\xa9\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\"} 7\n");
}

static void doubles_survive_a_round_trip(void **state)
{
    struct rn_buf out = {0};

    (void)state;
    rn_metrics_put_double(&out, "x", NULL, 0, 0.1);
    rn_metrics_put_double(&out, "x", NULL, 0, 1.0 / 3);
    rn_metrics_put_double(&out, "x", NULL, 0, 1e300);
    rn_metrics_put_double(&out, "x", NULL, 0, NAN);
    rn_metrics_put_double(&out, "x", NULL, 0, INFINITY);
    rn_metrics_put_double(&out, "x", NULL, 0, -INFINITY);
    demand(&out, "x 0.1\nx 0.33333333333333331\nx 1e+300\nx NaN\nx +Inf\nx -Inf\n");
}

/* The definition: the first bound that is not below. */
static size_t bucket_of(int64_t ns)
{
    size_t i = 0;

    while (i < RN_HISTOGRAM_BUCKETS - 1 && ns > rn_metrics_histogram_bounds_ns[i])
        i++;
    return i;
}

static void demand_bucket(int64_t ns)
{
    struct rn_histogram h = {0};

    rn_metrics_histogram_add_many(&h, ns, 1);
    if (h.counts[bucket_of(ns)] != 1)
        fail_msg("%lld ns belong to bucket %zu", (long long)ns, bucket_of(ns));
}

static void times_are_counted_below_the_bound_they_do_not_exceed(void **state)
{
    uint64_t random = 1;

    (void)state;
    for (size_t i = 0; i < RN_HISTOGRAM_BUCKETS - 1; i++)
        for (int64_t near = -1; near <= 1; near++)
            demand_bucket(rn_metrics_histogram_bounds_ns[i] + near);
    for (int bit = 0; bit < 63; bit++)
        for (int64_t near = -1; near <= 1; near++)
            demand_bucket((INT64_C(1) << bit) + near);
    for (int i = 0; i < 100000; i++) {
        random = random * UINT64_C(6364136223846793005) + 1442695040888963407;
        demand_bucket((int64_t)((random >> 1) >> (random >> 58)));
    }
    demand_bucket(0);
    demand_bucket(-5);
    demand_bucket(INT64_MAX);
}

static void a_histogram_is_cumulative(void **state)
{
    const struct rn_metrics_label label = {"port", RN_SLICE_INIT("http")};
    struct rn_histogram h = {0}, other = {0};
    struct rn_buf out = {0};

    (void)state;
    rn_metrics_histogram_add_many(&h, 1000, 1);
    rn_metrics_histogram_add_many(&h, 1001, 1);
    rn_metrics_histogram_add_many(&h, 30000000, 1);
    rn_metrics_histogram_add_many(&other, 2500000000, 1);
    rn_metrics_histogram_merge(&h, &other);
    rn_metrics_begin(&out, "t_seconds", RN_METRICS_HISTOGRAM, "Time.");
    rn_metrics_put_histogram(&out, "t_seconds", &label, 1, &h);
    demand(&out, "# HELP t_seconds Time.\n"
                 "# TYPE t_seconds histogram\n"
                 "t_seconds_bucket{port=\"http\",le=\"0.000001\"} 1\n"
                 "t_seconds_bucket{port=\"http\",le=\"0.000002\"} 2\n"
                 "t_seconds_bucket{port=\"http\",le=\"0.000005\"} 2\n"
                 "t_seconds_bucket{port=\"http\",le=\"0.00001\"} 2\n"
                 "t_seconds_bucket{port=\"http\",le=\"0.00002\"} 2\n"
                 "t_seconds_bucket{port=\"http\",le=\"0.00005\"} 2\n"
                 "t_seconds_bucket{port=\"http\",le=\"0.0001\"} 2\n"
                 "t_seconds_bucket{port=\"http\",le=\"0.0002\"} 2\n"
                 "t_seconds_bucket{port=\"http\",le=\"0.0005\"} 2\n"
                 "t_seconds_bucket{port=\"http\",le=\"0.001\"} 2\n"
                 "t_seconds_bucket{port=\"http\",le=\"0.002\"} 2\n"
                 "t_seconds_bucket{port=\"http\",le=\"0.005\"} 2\n"
                 "t_seconds_bucket{port=\"http\",le=\"0.01\"} 2\n"
                 "t_seconds_bucket{port=\"http\",le=\"0.02\"} 2\n"
                 "t_seconds_bucket{port=\"http\",le=\"0.05\"} 3\n"
                 "t_seconds_bucket{port=\"http\",le=\"0.1\"} 3\n"
                 "t_seconds_bucket{port=\"http\",le=\"0.2\"} 3\n"
                 "t_seconds_bucket{port=\"http\",le=\"0.5\"} 3\n"
                 "t_seconds_bucket{port=\"http\",le=\"1\"} 3\n"
                 "t_seconds_bucket{port=\"http\",le=\"+Inf\"} 4\n"
                 "t_seconds_sum{port=\"http\"} 2.530002001\n"
                 "t_seconds_count{port=\"http\"} 4\n");
}

static void times_may_have_other_buckets(void **state)
{
    static const char *const bounds[] = {"0.5", "10", "+Inf"};
    const uint64_t counts[] = {2, 0, 1};
    struct rn_buf out = {0};

    (void)state;
    rn_metrics_put_times(&out, "t_seconds", NULL, 0,
                         &(struct rn_metrics_times){bounds, counts, 3, 12000000000});
    demand(&out, "t_seconds_bucket{le=\"0.5\"} 2\n"
                 "t_seconds_bucket{le=\"10\"} 2\n"
                 "t_seconds_bucket{le=\"+Inf\"} 3\n"
                 "t_seconds_sum 12\n"
                 "t_seconds_count 3\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_family_has_help_and_type_and_samples),
        cmocka_unit_test(labels_cannot_break_the_format),
        cmocka_unit_test(doubles_survive_a_round_trip),
        cmocka_unit_test(times_are_counted_below_the_bound_they_do_not_exceed),
        cmocka_unit_test(a_histogram_is_cumulative),
        cmocka_unit_test(times_may_have_other_buckets),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
