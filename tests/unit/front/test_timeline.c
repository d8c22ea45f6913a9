/* SPDX-License-Identifier: Apache-2.0 */
/* The last hour by the second and the last day by the minute. No test reads a clock. */
#include "../limiter/rules_fixture.h"

#include <stdio.h>
#include <stdlib.h>

#include "front/admin/timeline.h"

#define BOOT (1000 * SECOND)

static struct ration *limiter;
static struct rn_timeline *timeline;
static struct rn_histogram latency;
static int64_t passed_ns; /* since the beginning, half a second into a second */

static void open_with(const char *rules)
{
    limiter = open_rules(rules);
    latency = (struct rn_histogram){.sum_ns = 0};
    passed_ns = 0;
    timeline = rn_timeline_new(limiter, BOOT, T0 + SECOND / 2);
    assert_non_null(timeline);
}

static int begin(void **state)
{
    (void)state;
    open_with("limits:\n"
              "  - {name: api, when: {path: /api}, key: ip, limit: 4 per hour}\n"
              "  - {name: web, when: {path: /web}, key: ip, limit: 4 per hour}\n");
    return 0;
}

static int end(void **state)
{
    (void)state;
    rn_timeline_free(timeline);
    ration_close(limiter);
    return 0;
}

/* Some time later, with the wall clock that much off. */
static void pass_off(int64_t ns, int64_t off_ns)
{
    passed_ns += ns;
    rn_timeline_sample(timeline, BOOT + passed_ns, T0 + SECOND / 2 + passed_ns + off_ns, &latency);
}

static void pass(int64_t ns)
{
    pass_off(ns, 0);
}

static void ask(const char *words, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        decide(limiter, words, T0);
}

/* The total of the second that ended `ago` seconds before the last. */
static uint32_t total(enum rn_timeline_kind kind, int64_t ago)
{
    return rn_timeline_second(&timeline->total[kind], timeline->end - ago);
}

static uint32_t of_rule(const char *name, enum rn_timeline_kind kind, int64_t ago)
{
    const struct rn_timeline_rule *rule = rn_timeline_find(timeline, rn_slice_of(name));

    if (!rule)
        fail_msg("%s has no history", name);
    return rn_timeline_second(&rule->series[kind], timeline->end - ago);
}

static void each_second_has_its_numbers(void **state)
{
    (void)state;
    assert_int_equal(timeline->end, T0 / SECOND);
    ask("path=/api ip=192.0.2.1", 6);
    ask("path=/none", 2);
    pass(SECOND / 4);
    assert_int_equal(timeline->end, T0 / SECOND); /* the second is not over */
    pass(SECOND);
    assert_int_equal(timeline->end, T0 / SECOND + 1);
    assert_int_equal(timeline->fresh, 1);
    ask("path=/web ip=192.0.2.1", 1);
    pass(SECOND);
    pass(SECOND);
    assert_int_equal(rn_timeline_unix(timeline, timeline->end), T0 / SECOND + 3);
    assert_int_equal(total(RN_TIMELINE_ALLOWED, 2), 6);
    assert_int_equal(total(RN_TIMELINE_REFUSED, 2), 2);
    assert_int_equal(total(RN_TIMELINE_NEAR, 2), 1);
    assert_int_equal(total(RN_TIMELINE_UNMATCHED, 2), 2);
    assert_int_equal(total(RN_TIMELINE_ALLOWED, 1), 1);
    assert_int_equal(total(RN_TIMELINE_ALLOWED, 0), 0);
    assert_int_equal(total(RN_TIMELINE_ALLOWED, 3), RN_TIMELINE_NONE); /* before it began */
    assert_int_equal(of_rule("api", RN_TIMELINE_ALLOWED, 2), 4);
    assert_int_equal(of_rule("api", RN_TIMELINE_REFUSED, 2), 2);
    assert_int_equal(of_rule("web", RN_TIMELINE_ALLOWED, 1), 1);
    assert_int_equal(of_rule("web", RN_TIMELINE_ALLOWED, 2), RN_TIMELINE_NONE); /* not busy then */
}

static void what_was_counted_before_is_no_step(void **state)
{
    (void)state;
    end(NULL);
    limiter = open_rules("limits:\n  - {name: api, key: ip, limit: 4 per hour}\n");
    ask("ip=192.0.2.1", 3);
    timeline = rn_timeline_new(limiter, BOOT, T0 + SECOND / 2);
    passed_ns = 0;
    pass(SECOND);
    assert_int_equal(total(RN_TIMELINE_ALLOWED, 0), 0);
}

static void a_late_sample_shares_its_counts(void **state)
{
    (void)state;
    pass(SECOND);
    ask("path=/api ip=192.0.2.1", 4);
    ask("path=/none", 4);
    pass(3 * SECOND);
    assert_int_equal(timeline->fresh, 3);
    assert_int_equal(total(RN_TIMELINE_ALLOWED, 2), 2);
    assert_int_equal(total(RN_TIMELINE_ALLOWED, 1), 2);
    assert_int_equal(total(RN_TIMELINE_ALLOWED, 0), 4);
    assert_int_equal(of_rule("api", RN_TIMELINE_ALLOWED, 2), 1);
    assert_int_equal(of_rule("api", RN_TIMELINE_ALLOWED, 0), 2);
}

static void a_gap_has_no_data(void **state)
{
    (void)state;
    ask("path=/api ip=192.0.2.1", 2);
    pass(SECOND);
    ask("path=/api ip=192.0.2.2", 3);
    pass(10 * SECOND);
    assert_int_equal(timeline->fresh, 0);
    for (int64_t ago = 0; ago < 10; ago++) {
        assert_int_equal(total(RN_TIMELINE_ALLOWED, ago), RN_TIMELINE_NONE);
        assert_int_equal(of_rule("api", RN_TIMELINE_ALLOWED, ago), RN_TIMELINE_NONE);
    }
    assert_int_equal(total(RN_TIMELINE_ALLOWED, 10), 2);
    ask("path=/api ip=192.0.2.3", 1);
    pass(SECOND);
    assert_int_equal(total(RN_TIMELINE_ALLOWED, 0), 1);
    assert_int_equal(of_rule("api", RN_TIMELINE_ALLOWED, 0), 1);
    pass(40 * 24 * 60 * MINUTE); /* longer than all of it */
    for (int64_t ago = 0; ago < RN_TIMELINE_SECONDS; ago++)
        assert_int_equal(total(RN_TIMELINE_ALLOWED, ago), RN_TIMELINE_NONE);
    int64_t last = rn_timeline_minute_end(timeline);

    for (int64_t ago = 0; ago < RN_TIMELINE_MINUTES; ago++)
        assert_int_equal(rn_timeline_minute(&timeline->total[0], last - 60 * ago),
                         RN_TIMELINE_NONE);
}

static void an_hour_and_a_day_are_kept(void **state)
{
    (void)state;
    for (int i = 0; i < 100000; i++) { /* more than a day, a request in every tenth second */
        if (i % 10 == 0)
            ask("path=/none", 1);
        pass(SECOND);
    }
    uint64_t hour = 0;

    for (int64_t ago = 0; ago < RN_TIMELINE_SECONDS; ago++)
        hour += total(RN_TIMELINE_ALLOWED, ago);
    assert_int_equal(hour, RN_TIMELINE_SECONDS / 10);
    int64_t last = rn_timeline_minute_end(timeline);

    assert_in_range(timeline->end - last, 0, 59);
    for (int64_t ago = 0; ago < RN_TIMELINE_MINUTES; ago++)
        assert_int_equal(rn_timeline_minute(&timeline->total[RN_TIMELINE_ALLOWED], last - 60 * ago),
                         6);
}

static void a_step_of_the_wall_clock_opens_no_gap(void **state)
{
    (void)state;
    ask("path=/none", 1);
    pass(SECOND);
    pass_off(SECOND, SECOND / 2); /* adjusted a little */
    assert_int_equal(rn_timeline_unix(timeline, timeline->end), T0 / SECOND + 2);
    pass_off(SECOND, -100 * SECOND);
    assert_int_equal(timeline->fresh, 1);
    assert_int_equal(rn_timeline_unix(timeline, timeline->end), T0 / SECOND + 3 - 100);
    pass_off(SECOND, 3600 * SECOND);
    assert_int_equal(rn_timeline_unix(timeline, timeline->end), T0 / SECOND + 4 + 3600);
    assert_int_equal(total(RN_TIMELINE_ALLOWED, 3), 1);
    assert_int_equal(total(RN_TIMELINE_ALLOWED, 2), 0);
}

/* As of a machine that does not know the time until it has asked another one. */
static void a_clock_at_1970_has_a_past(void **state)
{
    (void)state;
    rn_timeline_free(timeline);
    timeline = rn_timeline_new(limiter, BOOT, 5 * SECOND);
    ask("path=/api ip=192.0.2.1", 3);
    rn_timeline_sample(timeline, BOOT + SECOND, 6 * SECOND, &latency);
    assert_int_equal(rn_timeline_unix(timeline, timeline->end), 6);
    assert_int_equal(total(RN_TIMELINE_ALLOWED, 0), 3);
    for (int64_t ago = 1; ago < RN_TIMELINE_SECONDS; ago++)
        assert_int_equal(total(RN_TIMELINE_ALLOWED, ago), RN_TIMELINE_NONE);
    for (int64_t i = 0; i < RN_TIMELINE_MINUTES; i++)
        assert_int_equal(rn_timeline_minute(&timeline->total[RN_TIMELINE_ALLOWED],
                                            rn_timeline_minute_end(timeline) - i * 60),
                         RN_TIMELINE_NONE);
    rn_timeline_sample(timeline, BOOT + 2 * SECOND, T0, &latency);
    assert_int_equal(rn_timeline_unix(timeline, timeline->end), T0 / SECOND);
    assert_int_equal(total(RN_TIMELINE_ALLOWED, 1), 3);
}

static void times_are_those_of_the_second(void **state)
{
    (void)state;
    pass(SECOND);
    assert_int_equal(total(RN_TIMELINE_P50, 0), RN_TIMELINE_NONE);
    rn_metrics_histogram_add_many(&latency, 15000, 98); /* between 10 and 20 us */
    rn_metrics_histogram_add_many(&latency, 700000, 2); /* between 500 us and 1 ms */
    pass(SECOND);
    assert_in_range(total(RN_TIMELINE_P50, 0), 15000, 15200);
    assert_in_range(total(RN_TIMELINE_P99, 0), 700000, 800000);
    rn_metrics_histogram_add_many(&latency, 7000000000, 1); /* beyond all bounds */
    pass(SECOND);
    assert_int_equal(total(RN_TIMELINE_P50, 0), 1000000000);
    pass(SECOND);
    assert_int_equal(total(RN_TIMELINE_P99, 0), RN_TIMELINE_NONE);
    int64_t minute = rn_timeline_minute_end(timeline) + 60; /* the one that is not over */

    assert_in_range(rn_timeline_minute(&timeline->total[RN_TIMELINE_P50], minute), 15000, 15300);
}

static void the_busiest_rules_have_a_history(void **state)
{
    char *text = malloc(80 * 160), *to = text, words[64], name[16];

    (void)state;
    end(NULL);
    to += sprintf(to, "limits:\n");
    for (int i = 0; i < 150; i++)
        to +=
            sprintf(to, "  - {name: r%d, when: {path: /r%d}, key: ip, limit: 1 per hour}\n", i, i);
    open_with(text);
    free(text);
    for (int round = 0; round < 300; round++) {
        for (int i = 0; i < 150; i++) { /* first the former hundred, then the others are busy */
            bool busy = round < 100 ? i < 100 : i >= 50;

            snprintf(words, sizeof words, "path=/r%d ip=192.0.2.1", i);
            ask(words, busy ? 5 : 1);
        }
        pass(SECOND);
        if (round == 50) { /* the 50 others have a fifth of their requests */
            assert_non_null(rn_timeline_find(timeline, RN_SLICE("r0")));
            assert_null(rn_timeline_find(timeline, RN_SLICE("r120")));
        }
    }
    for (int i = 50; i < 150; i++) {
        snprintf(name, sizeof name, "r%d", i);
        assert_int_equal(of_rule(name, RN_TIMELINE_REFUSED, 0), 5);
    }
    assert_int_equal(of_rule("r60", RN_TIMELINE_REFUSED, 250), 5);
    assert_int_equal(of_rule("r149", RN_TIMELINE_REFUSED, 250), RN_TIMELINE_NONE);
    assert_null(rn_timeline_find(timeline, RN_SLICE("r0")));
}

/* Rules that are about as busy as each other must not take turns: each turn costs a history. */
static void places_are_not_taken_for_a_little_more(void **state)
{
    char *text = malloc(80 * 120), *to = text, words[64];

    (void)state;
    end(NULL);
    to += sprintf(to, "limits:\n");
    for (int i = 0; i < 110; i++)
        to +=
            sprintf(to, "  - {name: r%d, when: {path: /r%d}, key: ip, limit: 1 per hour}\n", i, i);
    open_with(text);
    free(text);
    for (int round = 0; round < 200; round++) {
        for (int i = 0; i < 110; i++) {
            snprintf(words, sizeof words, "path=/r%d ip=192.0.2.1", i);
            ask(words, i < 100 ? 4 : round < 20 ? 3 : 5);
        }
        pass(SECOND);
    }
    for (int i = 0; i < 110; i++) {
        snprintf(words, sizeof words, "r%d", i);
        assert_int_equal(rn_timeline_find(timeline, rn_slice_of(words)) != NULL, i < 100);
    }
}

static void a_rule_keeps_its_history_over_reloads(void **state)
{
    (void)state;
    ask("path=/api ip=192.0.2.1", 2);
    pass(SECOND);
    rules_at(limiter, "limits:\n  - {name: other, key: ip, limit: 1 per hour}\n", T0);
    pass(SECOND);
    rules_at(limiter,
             "limits:\n"
             "  - {name: other, key: ip, limit: 1 per hour}\n"
             "  - {name: api, when: {path: /api}, key: ip, limit: 4 per hour}\n",
             T0);
    ask("path=/api ip=192.0.2.7", 1);
    pass(SECOND);
    assert_int_equal(of_rule("api", RN_TIMELINE_ALLOWED, 2), 2);
    assert_int_equal(of_rule("api", RN_TIMELINE_ALLOWED, 1), RN_TIMELINE_NONE);
    assert_int_equal(of_rule("api", RN_TIMELINE_ALLOWED, 0), 1);
    size_t places = 0;

    for (size_t i = 0; i < RN_TIMELINE_RULES; i++)
        places +=
            timeline->rules[i].name_len == 3 && memcmp(timeline->rules[i].name, "api", 3) == 0;
    assert_int_equal(places, 1);
}

static void memory_is_bounded(void **state)
{
    (void)state;
    assert_in_range(rn_timeline_bytes(), 8 << 20, 16 << 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
        TEST(each_second_has_its_numbers),
        TEST(what_was_counted_before_is_no_step),
        TEST(a_late_sample_shares_its_counts),
        TEST(a_gap_has_no_data),
        TEST(an_hour_and_a_day_are_kept),
        TEST(a_step_of_the_wall_clock_opens_no_gap),
        TEST(a_clock_at_1970_has_a_past),
        TEST(times_are_those_of_the_second),
        TEST(the_busiest_rules_have_a_history),
        TEST(places_are_not_taken_for_a_little_more),
        TEST(a_rule_keeps_its_history_over_reloads),
        TEST(memory_is_bounded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
