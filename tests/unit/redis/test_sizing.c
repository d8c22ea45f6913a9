/* SPDX-License-Identifier: Apache-2.0 */
/* The demand for a key, and how many units to lease for how long. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "redis/leased/sizing.h"

#define MS INT64_C(1000000)
#define SECOND (1000 * MS)

static struct rn_sizing sizing_of(uint64_t amount, int64_t period_ns, uint64_t burst)
{
    struct ration_limit spec = {
        .algorithm = RATION_TOKEN_BUCKET, .amount = amount, .period_ns = period_ns, .burst = burst};
    struct rn_limit limit;

    assert_null(rn_limit_fault(&spec));
    rn_limit_init(&limit, &spec);
    return rn_sizing_of(&limit, true);
}

/* `rate` units a second for a while, one by one; returns the time after. */
static int64_t ask_for(struct rn_demand *demand, int64_t now_ns, int64_t ns, int64_t rate)
{
    for (int64_t t = 0; t < ns; t += SECOND / rate)
        rn_sizing_note(demand, 1, now_ns + t);
    return now_ns + ns;
}

static void a_steady_demand_is_known_after_two_seconds(void **state)
{
    static const int64_t rates[] = {10, 50, 1000, 20000};

    (void)state;
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        struct rn_demand demand = {0};
        int64_t now = ask_for(&demand, 77 * SECOND, 2 * SECOND, rates[i]);

        assert_in_range(rn_sizing_rate(&demand, now), rates[i] * 9 / 10, rates[i] * 11 / 10);
    }
}

static void two_in_a_row_are_not_yet_a_demand(void **state)
{
    struct rn_demand demand = {0};

    (void)state;
    rn_sizing_note(&demand, 1, SECOND);
    rn_sizing_note(&demand, 1, SECOND + 1);
    assert_true(rn_sizing_rate(&demand, SECOND + 150 * MS) < RN_SIZING_HOT);
}

/* `n` at once. */
static void rush(struct rn_demand *demand, int n, uint64_t units, int64_t now_ns)
{
    while (n-- > 0)
        rn_sizing_note(demand, units, now_ns);
}

static void a_rush_is_a_demand_at_once(void **state)
{
    struct rn_demand demand = {0};

    (void)state;
    rush(&demand, RN_SIZING_RUSH - 1, 1, SECOND);
    assert_false(rn_sizing_is_hot(&demand, 10000, SECOND));
    assert_true(rn_sizing_is_cold(&demand, SECOND));
    rush(&demand, 1, 1, SECOND + 99 * MS);
    assert_true(rn_sizing_is_hot(&demand, 10000, SECOND + 99 * MS));
    assert_false(rn_sizing_is_cold(&demand, SECOND + 99 * MS));
    /* And then it is known as the demand of the time before. */
    assert_true(rn_sizing_is_hot(&demand, 10000, SECOND + 100 * MS));
    assert_true(rn_sizing_is_cold(&demand, 4 * SECOND));
}

static void a_few_large_costs_are_no_rush(void **state)
{
    struct rn_demand demand = {0};

    (void)state;
    rush(&demand, 3, 100000, SECOND);
    assert_false(rn_sizing_is_hot(&demand, 1000000, SECOND));
}

static void a_rush_that_uses_up_much_of_the_limit_is_none(void **state)
{
    struct rn_demand demand = {0};

    (void)state;
    rush(&demand, 1000, 1, SECOND);
    assert_false(rn_sizing_is_hot(&demand, 1000, SECOND));
    assert_true(rn_sizing_is_hot(&demand, 1024, SECOND));
    assert_true(rn_sizing_is_hot(&demand, 1000, SECOND + 100 * MS));
}

static void the_demand_for_an_unused_key_fades(void **state)
{
    struct rn_demand demand = {0};
    int64_t now = ask_for(&demand, 0, 2 * SECOND, 1000);

    (void)state;
    assert_true(rn_sizing_rate(&demand, now) >= RN_SIZING_HOT);
    assert_true(rn_sizing_rate(&demand, now + 2 * SECOND) < RN_SIZING_COLD);
    assert_int_equal(rn_sizing_rate(&demand, now + 1000000 * SECOND), 0);
}

static void huge_costs_do_not_overflow(void **state)
{
    struct rn_sizing sizing = sizing_of(1000, SECOND, 4000);
    struct rn_demand demand = {0};

    (void)state;
    for (int i = 0; i < 10; i++)
        rn_sizing_note(&demand, UINT64_MAX, SECOND + i * 50 * MS);
    assert_true(rn_sizing_rate(&demand, 2 * SECOND) > UINT64_C(1) << 50);
    assert_int_equal(rn_sizing_want(&sizing, &demand, SECOND, 1, 2 * SECOND), 2000);
}

static void a_lease_lasts_a_quarter_of_the_time_to_full_a_second_at_most(void **state)
{
    (void)state;
    assert_int_equal(sizing_of(100, SECOND, 100).lease_ns, 250 * MS);
    assert_int_equal(sizing_of(100, SECOND, 20).lease_ns, 50 * MS);
    assert_int_equal(sizing_of(100, 60 * SECOND, 100).lease_ns, SECOND);
    assert_int_equal(sizing_of(100, 60 * SECOND, 4).lease_ns, 600 * MS);
    assert_int_equal(sizing_of(1000, SECOND, UINT64_C(1) << 30).lease_ns, SECOND);
}

/* What is unused of it counts until the window has passed. */
static void a_lease_that_ends_with_a_window_is_a_small_part_of_it(void **state)
{
    struct ration_limit spec = {
        .algorithm = RATION_SLIDING_WINDOW, .amount = 100, .period_ns = 8 * SECOND};
    struct rn_limit limit;

    (void)state;
    rn_limit_init(&limit, &spec);
    assert_int_equal(rn_sizing_of(&limit, true).lease_ns, 500 * MS);
    spec.sub_windows = 4;
    rn_limit_init(&limit, &spec);
    assert_int_equal(rn_sizing_of(&limit, true).lease_ns, 125 * MS);
    spec = (struct ration_limit){
        .algorithm = RATION_FIXED_WINDOW, .amount = 100, .period_ns = 2 * SECOND};
    rn_limit_init(&limit, &spec);
    assert_int_equal(rn_sizing_of(&limit, true).lease_ns, 500 * MS);
}

static void little_is_held_of_limits_that_last_if_a_kill_would_lose_it(void **state)
{
    struct ration_limit spec = {
        .algorithm = RATION_FIXED_WINDOW, .amount = 1500, .period_ns = 3600 * SECOND};
    struct rn_demand demand = {0};
    struct rn_limit limit;
    int64_t now = ask_for(&demand, 0, 2 * SECOND, 1000);

    (void)state;
    rn_limit_init(&limit, &spec);
    struct rn_sizing survives = rn_sizing_of(&limit, true), dies = rn_sizing_of(&limit, false);

    assert_int_equal(rn_sizing_want(&survives, &demand, SECOND, 1, now), 750);
    assert_int_equal(rn_sizing_want(&dies, &demand, SECOND, 1, now), 15);
    assert_int_equal(rn_sizing_want(&dies, &demand, SECOND, 40, now), 40); /* waited for */
    spec.amount = 50;
    rn_limit_init(&limit, &spec);
    assert_int_equal(rn_sizing_of(&limit, false).most, 1);
    spec = (struct ration_limit){
        .algorithm = RATION_FIXED_WINDOW, .amount = 1500, .period_ns = 30 * SECOND};
    rn_limit_init(&limit, &spec);
    assert_int_equal(rn_sizing_of(&limit, false).most, 750);
}

static void limits_of_which_a_lease_would_be_a_moment_or_nothing_have_none(void **state)
{
    (void)state;
    assert_int_equal(sizing_of(1000, SECOND, 10).lease_ns, 0);
    assert_int_equal(sizing_of(1, 60 * SECOND, 3).lease_ns, 0);
}

static void where_there_is_little_leases_are_short(void **state)
{
    struct rn_sizing wide = sizing_of(100, 60 * SECOND, 100), narrow = sizing_of(100, SECOND, 20);

    (void)state;
    assert_int_equal(rn_sizing_lease_ns(&wide, false), SECOND);
    assert_int_equal(rn_sizing_lease_ns(&wide, true), 250 * MS);
    assert_int_equal(rn_sizing_lease_ns(&narrow, true), 50 * MS);
    assert_int_equal(rn_sizing_pause_ns(&narrow), 25 * MS);
}

static void as_much_is_wanted_as_is_likely_to_be_spent(void **state)
{
    struct rn_sizing sizing = sizing_of(1000, SECOND, 4000);
    struct rn_demand demand = {0};
    int64_t now = ask_for(&demand, 0, 2 * SECOND, 200);

    (void)state;
    assert_in_range(rn_sizing_want(&sizing, &demand, SECOND, 0, now), 190, 210);
    assert_in_range(rn_sizing_want(&sizing, &demand, SECOND / 4, 0, now), 47, 53);
    assert_int_equal(rn_sizing_want(&sizing, &demand, SECOND, 700, now), 700);
    /* A sudden rush is met by what was asked for in the last tenth of a second. */
    now = ask_for(&demand, now, 100 * MS, 1500);
    assert_in_range(rn_sizing_want(&sizing, &demand, SECOND, 0, now), 1450, 1510);
    now = ask_for(&demand, now, 200 * MS, 100000);
    assert_int_equal(rn_sizing_want(&sizing, &demand, SECOND, 0, now), 2000);
}

/* Of 60 units in each millisecond: as much as has come, several times over, so that the calls
 * of the first tenth of a second are few. */
static void a_rush_is_met_by_more_with_each_call(void **state)
{
    struct rn_sizing sizing = sizing_of(500000, SECOND, 500000);
    struct rn_demand demand = {0};
    uint64_t held = 0;
    int calls = 0;

    (void)state;
    for (int64_t now = SECOND; now < SECOND + 100 * MS; now += MS) {
        rush(&demand, 60, 1, now);
        for (; held < 60; calls++)
            held += rn_sizing_want(&sizing, &demand, sizing.lease_ns, 60, now);
        held -= 60;
    }
    assert_in_range(calls, 2, 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_steady_demand_is_known_after_two_seconds),
        cmocka_unit_test(two_in_a_row_are_not_yet_a_demand),
        cmocka_unit_test(a_rush_is_a_demand_at_once),
        cmocka_unit_test(a_few_large_costs_are_no_rush),
        cmocka_unit_test(a_rush_that_uses_up_much_of_the_limit_is_none),
        cmocka_unit_test(the_demand_for_an_unused_key_fades),
        cmocka_unit_test(huge_costs_do_not_overflow),
        cmocka_unit_test(a_lease_lasts_a_quarter_of_the_time_to_full_a_second_at_most),
        cmocka_unit_test(a_lease_that_ends_with_a_window_is_a_small_part_of_it),
        cmocka_unit_test(little_is_held_of_limits_that_last_if_a_kill_would_lose_it),
        cmocka_unit_test(limits_of_which_a_lease_would_be_a_moment_or_nothing_have_none),
        cmocka_unit_test(where_there_is_little_leases_are_short),
        cmocka_unit_test(as_much_is_wanted_as_is_likely_to_be_spent),
        cmocka_unit_test(a_rush_is_met_by_more_with_each_call),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
