/* SPDX-License-Identifier: Apache-2.0 */
/* A view of a state after some time, against the state itself. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "redis/async/view.h"
#include "store_model.h"

#define SECOND INT64_C(1000000000)
#define STEPS 20000

static const struct ration_limit limits[] = {
    {.algorithm = RATION_TOKEN_BUCKET, .amount = 100, .period_ns = 60 * SECOND},
    {.algorithm = RATION_TOKEN_BUCKET, .amount = 7, .period_ns = SECOND, .burst = 20},
    {.algorithm = RATION_TOKEN_BUCKET, .amount = 70001, .period_ns = SECOND, .burst = 50},
    {.algorithm = RATION_TOKEN_BUCKET,
     .amount = 60,
     .period_ns = 60 * SECOND,
     .step_ns = 6 * SECOND},
    {.algorithm = RATION_FIXED_WINDOW, .amount = 50, .period_ns = 10 * SECOND},
    {.algorithm = RATION_FIXED_WINDOW, .amount = 50, .period_ns = 7 * SECOND, .from_first = true},
    {.algorithm = RATION_SLIDING_WINDOW, .amount = 30, .period_ns = 5 * SECOND},
};
#define LIMITS (sizeof limits / sizeof limits[0])

static uint64_t seed = 20260101;

static uint64_t below(uint64_t n)
{
    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (seed >> 33) % n;
}

static struct rn_limit limit_at(size_t i)
{
    struct rn_limit l;

    rn_limit_init(&l, &limits[i]);
    return l;
}

/* A step of the clock of some meaning to the limit. */
static int64_t random_us(const struct rn_limit *l)
{
    int64_t period = l->period_ns / 1000;
    const int64_t most[] = {3, period / (int64_t)l->amount * 3 + 2, period, 3 * period};

    return (int64_t)below((uint64_t)most[below(4)]);
}

static void a_view_equals_the_state_while_no_other_worker_charges(void **state)
{
    (void)state;
    for (size_t i = 0; i < LIMITS; i++) {
        struct rn_limit l = limit_at(i);
        struct store_model store = store_model_of(&l);
        long long store_us = 1800000000000000, told_us = store_us;
        struct rn_view v;

        rn_view_init(&v, &l, store_us, 5);
        for (int step = 0; step < STEPS; step++) {
            store_us += random_us(&l);
            int64_t now_ns = 5 + (store_us - told_us) * 1000;

            assert_int_equal(rn_view_time(&v, now_ns), store_us);
            assert_int_equal(rn_view_left(&v, store_us), model_left(&store, store_us));
            if (below(4) == 0) {
                model_charge(&store, store_us, (long long)below(l.cap / 4 + 2));
                assert_true(rn_view_learn(&v, store.told, store_us, 5));
                told_us = store_us;
            }
        }
    }
}

static void the_wait_ends_when_the_units_are_there_and_not_before(void **state)
{
    int waited = 0;

    (void)state;
    for (size_t i = 0; i < LIMITS; i++) {
        struct rn_limit l = limit_at(i);
        struct store_model store = store_model_of(&l);
        long long now_us = 1800000000000000;

        for (int step = 0; step < STEPS; step++) {
            struct store_model later;
            struct rn_view v;
            uint64_t cost = below(l.cap) + 1, more = below(l.cap / 8 + 1);

            now_us += random_us(&l) / 2;
            model_charge(&store, now_us, (long long)below(l.cap / 3 + 2));
            rn_view_init(&v, &l, 0, 0);
            assert_true(rn_view_learn(&v, store.told, now_us, 0));
            int64_t wait = rn_view_wait(&v, &l, now_us, more, cost) / 1000;

            later = store;
            model_charge(&later, now_us, (long long)more);
            assert_true(model_left(&later, now_us + wait) >= (long long)cost);
            later = store;
            model_charge(&later, now_us, (long long)more);
            if (wait > 0)
                assert_true(model_left(&later, now_us + wait - 1) < (long long)cost);
            waited += wait > 0;
        }
    }
    assert_true(waited > STEPS);
}

static void a_view_never_ages_before_its_reply(void **state)
{
    struct rn_limit l = limit_at(0);
    struct rn_view v;

    (void)state;
    rn_view_init(&v, &l, 77, 1000000);
    assert_int_equal(rn_view_time(&v, 1), 77);
    assert_int_equal(rn_view_time(&v, 1000999), 77);
    assert_int_equal(rn_view_time(&v, 1001000), 78);
}

static void a_bucket_is_not_refilled_until_a_clock_set_back_has_caught_up(void **state)
{
    struct rn_limit l = limit_at(0);
    const long long spent[] = {60000000, 1000000000, 0}; /* all, a while ahead */
    struct rn_view v;

    (void)state;
    rn_view_init(&v, &l, 0, 0);
    assert_true(rn_view_learn(&v, spent, 900000000, 0));
    assert_int_equal(rn_view_left(&v, 950000000), 0);
    assert_int_equal(rn_view_left(&v, 1000000000), 0);
    assert_int_equal(rn_view_left(&v, 1000600000), 1);
    assert_int_equal(rn_view_wait(&v, &l, 900000000, 0, 1), INT64_C(100600000) * 1000);
}

static void numbers_that_no_state_has_are_not_learnt(void **state)
{
    struct rn_limit l = limit_at(0);
    const long long bad[][3] = {{-1, 0, 0}, {0, -1, 0}, {0, 0, -1}, {1LL << 53, 0, 0}};
    struct rn_view v;

    (void)state;
    rn_view_init(&v, &l, 5, 5);
    for (size_t i = 0; i < 4; i++)
        assert_false(rn_view_learn(&v, bad[i], 1, 1));
    assert_false(rn_view_learn(&v, (long long[3]){0}, -1, 1));
    assert_int_equal(rn_view_left(&v, 5), 100);
}

static void what_can_be_seen_is_buckets_windows_and_counters(void **state)
{
    struct rn_limit l;
    static const struct ration_limit others[] = {
        {.algorithm = RATION_LEAKY_BUCKET, .amount = 10, .period_ns = SECOND, .queue = 5},
        {.algorithm = RATION_SLIDING_LOG, .amount = 10, .period_ns = SECOND},
        {.algorithm = RATION_SLIDING_WINDOW, .amount = 10, .period_ns = SECOND, .sub_windows = 5},
        {.algorithm = RATION_CONCURRENCY, .amount = 10},
        {.algorithm = RATION_UNLIMITED},
    };

    (void)state;
    for (size_t i = 0; i < LIMITS; i++) {
        l = limit_at(i);
        assert_true(rn_view_serves(&l));
    }
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        rn_limit_init(&l, &others[i]);
        assert_false(rn_view_serves(&l));
    }
}

static void the_longest_waits_there_are_do_not_overflow(void **state)
{
    struct ration_limit slow = {.algorithm = RATION_TOKEN_BUCKET,
                                .amount = 1,
                                .period_ns = RATION_PERIOD_MAX_NS,
                                .burst = 14,
                                .step_ns = RATION_PERIOD_MAX_NS};
    struct rn_limit l;
    struct rn_view v;

    (void)state;
    rn_limit_init(&l, &slow);
    rn_view_init(&v, &l, 1800000000000000, 0);
    assert_true(rn_view_learn(&v, (long long[3]){(1LL << 53) - 1, 5, 0}, 1800000000000000, 0));
    assert_true(rn_view_wait(&v, &l, 1800000000000000, 0, 14) == RN_NEVER);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_view_equals_the_state_while_no_other_worker_charges),
        cmocka_unit_test(the_wait_ends_when_the_units_are_there_and_not_before),
        cmocka_unit_test(a_view_never_ages_before_its_reply),
        cmocka_unit_test(a_bucket_is_not_refilled_until_a_clock_set_back_has_caught_up),
        cmocka_unit_test(numbers_that_no_state_has_are_not_learnt),
        cmocka_unit_test(what_can_be_seen_is_buckets_windows_and_counters),
        cmocka_unit_test(the_longest_waits_there_are_do_not_overflow),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
