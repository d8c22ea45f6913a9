/* SPDX-License-Identifier: Apache-2.0 */
/* What clients earn, by hand; test_reputation_model.c has the random histories. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/earn.h"
#include "model/subject.h"

/* earn: {every: 24h, add: 10%, up_to: 125%, lost_by: 3 refusals within 1h, forget: 30d} */
static const struct rn_earn_plan plan = {.every_ns = DAY,
                                         .add = 10,
                                         .up_to = 125,
                                         .lost_after = 3,
                                         .lost_within_ns = HOUR,
                                         .forget_ns = 30 * DAY};

static unsigned percent(uint64_t word, int64_t now_ns)
{
    return rn_earn_percent(&plan, word, now_ns);
}

/* The record of a client that has earned everything, in a period that opened at *at_ns. */
static uint64_t earn_all(int64_t *at_ns)
{
    uint64_t word = 0;

    for (int i = 0; i < 4; i++) {
        word = rn_earn_admit(&plan, word, *at_ns);
        *at_ns += i < 3 ? DAY : 0;
    }
    assert_int_equal(percent(word, *at_ns), 125);
    return word;
}

static void a_period_with_admissions_earns_a_step(void **state)
{
    uint64_t word;

    (void)state;
    assert_int_equal(percent(0, BASE), 100);
    word = rn_earn_admit(&plan, 0, BASE);
    assert_int_equal(percent(word, BASE), 100);
    assert_true(rn_earn_admit(&plan, word, BASE + HOUR) == word); /* nothing to write */
    assert_true(rn_earn_admit(&plan, word, BASE + DAY - RN_RECORD_TICK_NS) == word);
    word = rn_earn_admit(&plan, word, BASE + DAY);
    assert_int_equal(percent(word, BASE + DAY), 110);
    word = rn_earn_admit(&plan, word, BASE + 2 * DAY);
    assert_int_equal(percent(word, BASE + 2 * DAY), 120);
    word = rn_earn_admit(&plan, word, BASE + 3 * DAY);
    assert_int_equal(percent(word, BASE + 3 * DAY), 125);
    word = rn_earn_admit(&plan, word, BASE + 4 * DAY);
    assert_int_equal(percent(word, BASE + 4 * DAY), 125);
}

static void time_without_admissions_earns_nothing(void **state)
{
    uint64_t word = rn_earn_admit(&plan, 0, BASE);

    (void)state;
    word = rn_earn_admit(&plan, word, BASE + 20 * DAY);
    assert_int_equal(percent(word, BASE + 20 * DAY), 110); /* one step for twenty days */
    assert_true(rn_earn_admit(&plan, word, BASE + 20 * DAY + HOUR) == word);
}

static void a_client_that_stays_away_is_forgotten(void **state)
{
    int64_t now_ns = BASE;
    uint64_t word = earn_all(&now_ns);

    (void)state;
    assert_int_equal(percent(word, now_ns + 31 * DAY), 125);
    assert_int_equal(percent(word, now_ns + 31 * DAY + HOUR), 100);
    word = rn_earn_admit(&plan, word, now_ns + 31 * DAY + HOUR);
    assert_int_equal(percent(word, now_ns + 31 * DAY + HOUR), 100);
}

static void refusals_in_one_window_lose_all_steps(void **state)
{
    int64_t now_ns = BASE;
    uint64_t word = earn_all(&now_ns), lapses = rn_earn_refuse(&plan, 0, now_ns);

    (void)state;
    assert_int_not_equal(lapses, 0);
    lapses = rn_earn_refuse(&plan, lapses, now_ns + HOUR); /* a window later */
    lapses = rn_earn_refuse(&plan, lapses, now_ns + HOUR + MINUTE);
    assert_int_not_equal(lapses, 0);
    lapses = rn_earn_refuse(&plan, lapses, now_ns + 2 * HOUR - SECOND);
    assert_int_equal(lapses, 0);
    now_ns += 2 * HOUR;
    word = rn_earn_lose(&plan, word, now_ns);
    assert_int_equal(percent(word, now_ns), 100);
    assert_true(rn_earn_admit(&plan, word, now_ns + DAY - SECOND) == word); /* a whole period */
    word = rn_earn_admit(&plan, word, now_ns + DAY);
    assert_int_equal(percent(word, now_ns + DAY), 110);
}

static void a_single_refusal_may_be_one_too_many(void **state)
{
    struct rn_earn_plan strict = plan;

    (void)state;
    strict.lost_after = 1;
    assert_int_equal(rn_earn_refuse(&strict, 0, BASE), 0);
}

static void a_client_that_is_not_known_has_nothing_to_lose(void **state)
{
    (void)state;
    assert_int_equal(rn_earn_lose(&plan, 0, BASE), 0);
}

static void a_clock_that_steps_back_costs_the_time_since_the_period_opened_at_most(void **state)
{
    uint64_t word = rn_earn_admit(&plan, 0, BASE);

    (void)state;
    word = rn_earn_admit(&plan, word, BASE - 100 * DAY);
    assert_int_equal(percent(word, BASE - 100 * DAY), 100);
    word = rn_earn_admit(&plan, word, BASE - 99 * DAY);
    assert_int_equal(percent(word, BASE - 99 * DAY), 110);
}

static void a_clock_that_steps_back_opens_another_window(void **state)
{
    uint64_t lapses = rn_earn_refuse(&plan, 0, BASE);

    (void)state;
    lapses = rn_earn_refuse(&plan, lapses, BASE + SECOND);
    lapses = rn_earn_refuse(&plan, lapses, BASE - MINUTE);
    assert_int_not_equal(lapses, 0);
    lapses = rn_earn_refuse(&plan, lapses, BASE - MINUTE);
    assert_int_not_equal(lapses, 0);
    assert_int_equal(rn_earn_refuse(&plan, lapses, BASE - MINUTE), 0);
}

static void a_smaller_plan_counts_at_once(void **state)
{
    struct rn_earn_plan smaller = plan;
    int64_t now_ns = BASE;
    uint64_t word = earn_all(&now_ns);

    (void)state;
    smaller.up_to = 105;
    assert_int_equal(rn_earn_percent(&smaller, word, now_ns), 105);
    assert_int_equal(percent(word, now_ns), 125); /* and back again */
    word = rn_earn_admit(&smaller, word, now_ns + DAY);
    assert_int_equal(percent(word, now_ns + DAY), 105); /* unless a period has ended */
}

static void words_say_without_a_plan_what_they_are(void **state)
{
    struct rn_record_view view;
    int64_t now_ns = BASE;
    uint64_t word = earn_all(&now_ns), lapses = rn_earn_refuse(&plan, 0, now_ns);

    (void)state;
    lapses = rn_earn_refuse(&plan, lapses, now_ns);
    rn_record_view(word, now_ns + 31 * DAY, &view);
    assert_int_equal(view.kind, RN_RECORD_EARNED);
    assert_true(view.live);
    assert_int_equal(view.percent, 125);
    rn_record_view(word, now_ns + 31 * DAY + HOUR, &view);
    assert_false(view.live);
    assert_int_equal(view.percent, 100);
    rn_record_view(lapses, now_ns + HOUR - SECOND, &view);
    assert_int_equal(view.kind, RN_RECORD_LAPSES);
    assert_true(view.live);
    assert_int_equal(view.refusals, 2);
    rn_record_view(lapses, now_ns + HOUR + 20 * SECOND, &view);
    assert_false(view.live);
    assert_int_equal(rn_record_rank(lapses, now_ns + HOUR + 20 * SECOND), 0);
    assert_true(rn_record_rank(lapses, now_ns) < rn_record_rank(word, now_ns));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_period_with_admissions_earns_a_step),
        cmocka_unit_test(time_without_admissions_earns_nothing),
        cmocka_unit_test(a_client_that_stays_away_is_forgotten),
        cmocka_unit_test(refusals_in_one_window_lose_all_steps),
        cmocka_unit_test(a_single_refusal_may_be_one_too_many),
        cmocka_unit_test(a_client_that_is_not_known_has_nothing_to_lose),
        cmocka_unit_test(a_clock_that_steps_back_costs_the_time_since_the_period_opened_at_most),
        cmocka_unit_test(a_clock_that_steps_back_opens_another_window),
        cmocka_unit_test(a_smaller_plan_counts_at_once),
        cmocka_unit_test(words_say_without_a_plan_what_they_are),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
