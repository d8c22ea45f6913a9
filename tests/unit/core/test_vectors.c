/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worked examples of the requirements that concern arithmetic, one test a
 * row. Rows about rules, headers and stores are tested in their rooms.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../model/subject.h"

#define MS INT64_C(1000000)
#define NOON (INT64_C(1790035200) * SECOND) /* 12:00:00 UTC: on a minute and an hour */

static struct subject bucket(uint64_t amount, int64_t period_ns, uint64_t burst)
{
    return subject_new(&(struct ration_limit){RATION_TOKEN_BUCKET, .amount = amount,
                                              .period_ns = period_ns, .burst = burst});
}

static struct subject queue(uint64_t amount, int64_t period_ns, uint64_t waiting)
{
    return subject_new(&(struct ration_limit){RATION_LEAKY_BUCKET, .amount = amount,
                                              .period_ns = period_ns, .queue = waiting});
}

static struct subject window(enum ration_algorithm algorithm, uint64_t amount, int64_t period_ns)
{
    return subject_new(&(struct ration_limit){algorithm, .amount = amount, .period_ns = period_ns});
}

static uint64_t take_singly(struct subject *s, int64_t now, uint64_t tries)
{
    uint64_t taken = 0;

    while (tries-- > 0)
        taken += take(s, now, 1).allowed;
    return taken;
}

/* ---- token bucket */

static void bucket_of_100_admits_100_and_not_the_101st(void **unused)
{
    struct subject s = bucket(10, SECOND, 100);

    (void)unused;
    assert_int_equal(take_singly(&s, BASE, 100), 100);
    assert_false(take(&s, BASE, 1).allowed);
    assert_int_equal(take_singly(&s, BASE + SECOND, 11), 10);
    subject_free(&s);
}

static void bucket_keeps_half_units(void **unused)
{
    struct subject s = bucket(5, SECOND, 10);

    (void)unused;
    assert_true(take(&s, BASE + 100 * MS, 5).allowed);
    assert_int_equal(peek(&s, BASE + SECOND, 10).remaining, 9); /* 9.5 */
    assert_int_equal(peek(&s, BASE + SECOND, 10).retry_after_ns, 100 * MS);
    assert_true(take(&s, BASE + 1100 * MS, 10).allowed);
    assert_int_equal(peek(&s, BASE + 2 * SECOND, 5).remaining, 4); /* 4.5 */
    assert_int_equal(peek(&s, BASE + 2 * SECOND, 5).retry_after_ns, 100 * MS);
    subject_free(&s);
}

static void empty_bucket_says_retry_after_missing_by_rate(void **unused)
{
    struct subject s = bucket(10, SECOND, 100);

    (void)unused;
    take(&s, BASE, 100);
    for (uint64_t n = 1; n <= 100; n++)
        assert_int_equal(take(&s, BASE, n).retry_after_ns, (int64_t)n * 100 * MS);
    assert_int_equal(take(&s, BASE + 250 * MS, 4).retry_after_ns, 150 * MS);
    subject_free(&s);
}

static void hundred_per_minute_when_empty_retries_in_600_ms(void **unused)
{
    struct subject s = bucket(100, MINUTE, 0);

    (void)unused;
    assert_int_equal(take_singly(&s, BASE, 200), 100);
    assert_int_equal(take(&s, BASE, 1).retry_after_ns, 600 * MS);
    assert_int_equal(take(&s, BASE, 1).reset_after_ns, MINUTE);
    subject_free(&s);
}

static void polling_every_1900_ms_loses_no_fractions(void **unused)
{
    struct subject s = bucket(1, SECOND, 100);
    uint64_t taken = 0;

    (void)unused;
    take(&s, BASE, 100);
    for (int i = 1; i <= 10; i++)
        taken += take_singly(&s, BASE + i * 1900 * MS, 10);
    assert_int_equal(taken, 19);
    subject_free(&s);
}

static void bucket_script_leaves_9_8_7_7(void **unused)
{
    static const struct {
        int64_t ms;
        uint64_t left;
    } steps[] = {{1000, 9}, {1000, 8}, {1100, 7}, {1300, 7}};
    struct subject s = bucket(5, SECOND, 10);

    (void)unused;
    for (size_t i = 0; i < 4; i++) {
        struct rn_answer answer = take(&s, BASE + steps[i].ms * MS, 1);

        assert_true(answer.allowed);
        assert_int_equal(answer.remaining, steps[i].left);
    }
    subject_free(&s);
}

static void capacity_2_at_5_a_second_answers_1_1_0_0_1(void **unused)
{
    static const int64_t at_ms[] = {1000, 1000, 1000, 1199, 1200};
    static const bool allowed[] = {true, true, false, false, true};
    struct subject s = bucket(5, SECOND, 2);

    (void)unused;
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(take(&s, BASE + at_ms[i] * MS, 1).allowed, allowed[i]);
    subject_free(&s);
}

/* A lone arrival time cannot tell a step back from a debt, so the step counts
 * as spent: at most 8 are left, never more. (That the clock does not step back
 * in the first place is the clock's affair, tested there.) */
static void clock_stepping_back_neither_refuses_nor_mints(void **unused)
{
    struct subject s = bucket(10, MINUTE, 0);

    (void)unused;
    assert_int_equal(take(&s, BASE, 1).remaining, 9);
    struct rn_answer answer = take(&s, BASE - 2 * SECOND, 1);

    assert_true(answer.allowed);
    assert_in_range(answer.remaining, 7, 8);
    assert_int_equal(peek(&s, BASE, 0).remaining, 8);
    assert_int_equal(peek(&s, BASE + 11 * SECOND, 0).remaining, 9);
    subject_free(&s);
}

static void slow_bucket_idle_for_an_hour_holds_36(void **unused)
{
    struct subject s = bucket(1, 100 * SECOND, 100);

    (void)unused;
    take(&s, BASE, 100);
    assert_int_equal(peek(&s, BASE + HOUR, 0).remaining, 36);
    assert_true(rn_limit_idle_at(s.limit.form, s.state[0]) >= BASE + 10000 * SECOND);
    subject_free(&s);
}

/* ---- leaky bucket */

static void queue_lets_one_leave_every_100_ms(void **unused)
{
    struct subject s = queue(10, SECOND, 100);

    (void)unused;
    for (int i = 0; i <= 100; i++) {
        struct rn_answer answer = take(&s, BASE, 1);

        assert_true(answer.allowed);
        assert_int_equal(answer.delay_ns, i * 100 * MS);
    }
    assert_int_equal(take(&s, BASE, 1).retry_after_ns, 100 * MS);
    subject_free(&s);
}

static void flooded_queue_of_4_lets_15_leave_in_10_s(void **unused)
{
    struct subject s = queue(1, SECOND, 4);
    uint64_t admitted = 0, left = 0;

    (void)unused;
    for (int64_t ms = 0; ms <= 10000; ms += 10) {
        struct rn_answer answer = take(&s, BASE + ms * MS, 1);

        admitted += answer.allowed;
        left += answer.allowed && ms * MS + answer.delay_ns <= 10 * SECOND;
    }
    assert_in_range(admitted, 14, 15);
    assert_int_equal(left, 11);
    subject_free(&s);
}

static void of_25_at_once_21_pass_and_4_are_refused(void **unused)
{
    struct subject s = queue(10, SECOND, 20);

    (void)unused;
    for (int i = 0; i < 25; i++) {
        struct rn_answer answer = take(&s, BASE, 1);

        assert_int_equal(answer.allowed, i < 21);
        assert_int_equal(answer.delay_ns, i < 21 ? i * 100 * MS : 0);
    }
    subject_free(&s);
}

/* ---- fixed window, and the others at its boundary */

static uint64_t ten_at_59_s_and_at_60_s(struct subject *s)
{
    return take_singly(s, NOON + 59 * SECOND, 10) + take_singly(s, NOON + 60 * SECOND, 10);
}

static void window_on_the_clock_admits_20_around_its_boundary(void **unused)
{
    struct subject s = window(RATION_FIXED_WINDOW, 10, MINUTE);

    (void)unused;
    assert_int_equal(ten_at_59_s_and_at_60_s(&s), 20);
    subject_free(&s);
}

static void window_from_first_request_and_log_admit_10(void **unused)
{
    struct subject first = subject_new(&(struct ration_limit){
        RATION_FIXED_WINDOW, .amount = 10, .period_ns = MINUTE, .from_first = true});
    struct subject log = window(RATION_SLIDING_LOG, 10, MINUTE);

    (void)unused;
    assert_int_equal(ten_at_59_s_and_at_60_s(&first), 10);
    assert_int_equal(ten_at_59_s_and_at_60_s(&log), 10);
    subject_free(&first);
    subject_free(&log);
}

static void counter_admits_10_and_the_next_at_66_s(void **unused)
{
    struct subject s = window(RATION_SLIDING_WINDOW, 10, MINUTE);

    (void)unused;
    assert_int_equal(ten_at_59_s_and_at_60_s(&s), 10);
    assert_int_equal(take(&s, NOON + 60 * SECOND, 1).retry_after_ns, 6 * SECOND);
    assert_false(take(&s, NOON + 66 * SECOND - 1, 1).allowed);
    assert_true(take(&s, NOON + 66 * SECOND, 1).allowed);
    assert_false(take(&s, NOON + 66 * SECOND, 1).allowed);
    subject_free(&s);
}

static void at_99_of_100_one_of_two_is_allowed(void **unused)
{
    struct subject s = window(RATION_FIXED_WINDOW, 100, MINUTE);

    (void)unused;
    take(&s, NOON, 99);
    assert_int_equal(take_singly(&s, NOON + SECOND, 2), 1);
    subject_free(&s);
}

static void window_from_first_request_renews_at_exactly_1_s(void **unused)
{
    struct subject s = subject_new(&(struct ration_limit){RATION_FIXED_WINDOW, .amount = 10,
                                                          .period_ns = SECOND, .from_first = true});

    (void)unused;
    assert_int_equal(take(&s, BASE, 1).remaining, 9);
    assert_int_equal(take(&s, BASE, 9).reset_after_ns, SECOND);
    assert_false(take(&s, BASE + SECOND - 1, 1).allowed);
    assert_int_equal(take(&s, BASE + SECOND, 1).remaining, 9);
    subject_free(&s);
}

/* ---- log */

static void log_across_the_minute_has_94_left(void **unused)
{
    static const int64_t at[] = {15, 23, 45, 58, 62, 70};
    struct subject s = window(RATION_SLIDING_LOG, 100, MINUTE);
    struct rn_answer answer = {0};

    (void)unused;
    for (size_t i = 0; i < 6; i++)
        answer = take(&s, NOON + at[i] * SECOND, 1);
    assert_int_equal(answer.remaining, 94);
    subject_free(&s);
}

static void log_of_5_admits_at_exactly_10_s(void **unused)
{
    struct subject s = window(RATION_SLIDING_LOG, 5, 10 * SECOND);

    (void)unused;
    assert_int_equal(take_singly(&s, BASE, 5), 5);
    struct rn_answer answer = take(&s, BASE + 5 * SECOND, 1);

    assert_false(answer.allowed);
    assert_int_equal(answer.retry_after_ns, 5 * SECOND);
    answer = take(&s, BASE + 10 * SECOND, 1);
    assert_true(answer.allowed);
    assert_int_equal(answer.remaining, 4);
    assert_int_equal(answer.reset_after_ns, 10 * SECOND);
    subject_free(&s);
}

static void log_counts_the_same_instant_twice_and_refusals_never(void **unused)
{
    struct subject s = window(RATION_SLIDING_LOG, 2, 10 * SECOND);

    (void)unused;
    assert_int_equal(take_singly(&s, BASE, 2), 2);
    assert_int_equal(take(&s, BASE, 0).remaining, 0);
    for (int64_t t = BASE; t < BASE + 10 * SECOND; t += 10 * MS)
        assert_false(take(&s, t, 1).allowed);
    assert_int_equal(take_singly(&s, BASE + 10 * SECOND, 3), 2);
    subject_free(&s);
}

/* ---- two-window counter: windows of 100 s, BASE on one */

static struct subject counter_with(uint64_t prev, uint64_t cur, int64_t into_s)
{
    struct subject s = window(RATION_SLIDING_WINDOW, 100, 100 * SECOND);

    assert_true(take(&s, BASE + SECOND, prev).allowed);
    assert_true(take(&s, BASE + (100 + into_s) * SECOND, cur).allowed);
    return s;
}

static void counter_weighs_the_previous_window(void **unused)
{
    static const struct {
        uint64_t prev, cur;
        int64_t into_s;
        uint64_t left;
    } rows[] = {{80, 20, 30, 24}, {80, 30, 70, 46}, {85, 20, 30, 20}};

    (void)unused;
    for (size_t i = 0; i < 3; i++) {
        struct subject s = counter_with(rows[i].prev, rows[i].cur, rows[i].into_s);

        assert_int_equal(take_singly(&s, BASE + (100 + rows[i].into_s) * SECOND, 60), rows[i].left);
        subject_free(&s);
    }
}

static void counter_forgets_windows_long_gone(void **unused)
{
    struct subject s = window(RATION_SLIDING_WINDOW, 100, 100 * SECOND);

    (void)unused;
    take(&s, BASE, 100);
    assert_int_equal(peek(&s, BASE + 1008 * SECOND, 0).remaining, 100);
    assert_true(take(&s, BASE + 1008 * SECOND, 100).allowed);
    subject_free(&s);
}

/* ---- sizes */

static void states_are_as_small_as_promised(void **unused)
{
    struct subject fixed = window(RATION_FIXED_WINDOW, 100, MINUTE);
    struct subject log = window(RATION_SLIDING_LOG, 500, MINUTE);
    struct subject subs = subject_new(&(struct ration_limit){RATION_SLIDING_WINDOW, .amount = 1000,
                                                             .period_ns = HOUR, .sub_windows = 60});

    (void)unused;
    assert_int_equal(fixed.limit.words_full, 0);
    assert_true(8 * log.limit.words_full <= 1100);
    assert_true(8 * subs.limit.words_full <= 130);
    subject_free(&fixed);
    subject_free(&log);
    subject_free(&subs);
}

/* A smaller amount than is owed must not let more be owed, or the log would read as damaged. */
static void a_log_that_owes_more_than_a_smaller_limit_forgets_nothing(void **state)
{
    struct ration_limit spec = {RATION_SLIDING_LOG, .amount = 10, .period_ns = MINUTE};
    struct subject s = subject_new(&spec);
    struct rn_limit wide = s.limit;

    (void)state;
    assert_int_equal(subject_do(&s, RN_DEBIT, BASE, 18).uncollected, 0);
    spec.amount = 4;
    rn_limit_init(&s.limit, &spec);
    assert_int_equal(subject_do(&s, RN_DEBIT, BASE + SECOND, 5).uncollected, 5);
    s.limit = wide;
    assert_int_equal(peek(&s, BASE + 2 * SECOND, 0).remaining, 0);
    assert_int_equal(peek(&s, BASE + MINUTE + SECOND, 0).remaining, 2);
    subject_free(&s);
}

/* ---- draining and giving back, by every form */

static const struct ration_limit every_form[] = {
    {RATION_TOKEN_BUCKET, .amount = 10, .period_ns = MINUTE},
    {RATION_TOKEN_BUCKET, .amount = 7000, .period_ns = SECOND, .burst = 10}, /* FINE */
    {RATION_TOKEN_BUCKET, .amount = 10, .period_ns = MINUTE, .step_ns = 6 * SECOND},
    {RATION_LEAKY_BUCKET, .amount = 10, .period_ns = MINUTE, .queue = 9},
    {RATION_FIXED_WINDOW, .amount = 10, .period_ns = MINUTE},
    {RATION_FIXED_WINDOW, .amount = 10, .period_ns = SECOND / 10, .from_first = true}, /* WIDE */
    {RATION_SLIDING_WINDOW, .amount = 10, .period_ns = MINUTE},
    {RATION_SLIDING_WINDOW, .amount = 10, .period_ns = MINUTE, .sub_windows = 6},
    {RATION_SLIDING_LOG, .amount = 10, .period_ns = MINUTE},
};

static void each_form(void (*test)(struct subject *s))
{
    for (size_t i = 0; i < sizeof every_form / sizeof *every_form; i++) {
        struct subject s = subject_new(&every_form[i]);

        test(&s);
        subject_free(&s);
    }
}

static void drain_5_of_3(struct subject *s)
{
    take(s, NOON, 7);
    struct rn_answer answer = subject_do(s, RN_DRAIN, NOON, 5);

    assert_false(answer.allowed);
    assert_int_equal(answer.drained, 3);
    assert_int_equal(answer.remaining, 0);
    assert_true(peek(s, NOON + answer.retry_after_ns, 5).allowed);
    assert_false(peek(s, NOON + answer.retry_after_ns - 1, 5).allowed);
    assert_int_equal(peek(s, NOON, 0).remaining, 0);
    assert_int_equal(subject_do(s, RN_DRAIN, NOON, 1).drained, 0);
}

static void draining_5_of_3_is_refused_and_leaves_nothing(void **unused)
{
    (void)unused;
    each_form(drain_5_of_3);
}

static void drain_what_fits(struct subject *s)
{
    struct rn_answer drained = subject_do(s, RN_DRAIN, NOON, 10);

    assert_true(drained.allowed);
    assert_int_equal(drained.remaining, 0);
    struct rn_answer back = give_back(s, NOON, 10, NOON, drained.mark);

    assert_int_equal(back.remaining, 10);
    assert_int_equal(subject_do(s, RN_DRAIN, NOON, UINT64_MAX).retry_after_ns, RN_NEVER);
    assert_int_equal(peek(s, NOON, 0).remaining, 0);
}

static void draining_what_fits_is_a_take(void **unused)
{
    (void)unused;
    each_form(drain_what_fits);
}

static void drained_comes_back(struct subject *s)
{
    take(s, NOON, 7);
    struct rn_answer answer = subject_do(s, RN_DRAIN, NOON, 5);

    assert_int_equal(give_back(s, NOON, answer.drained, NOON, answer.mark).remaining, 3);
}

static void what_was_drained_can_be_given_back_by_its_receipt(void **unused)
{
    (void)unused;
    each_form(drained_comes_back);
}

static void credit_4_of_7(struct subject *s)
{
    take(s, NOON, 7);
    struct rn_answer answer = subject_do(s, RN_CREDIT, NOON, 4);

    assert_true(answer.allowed);
    assert_int_equal(answer.remaining, 7);
    assert_int_equal(take_singly(s, NOON, 8), 7);
}

static void credit_more_than_is_spent(struct subject *s)
{
    take(s, NOON, 2);
    assert_int_equal(subject_do(s, RN_CREDIT, NOON, UINT64_MAX).remaining, 10);
    assert_false(subject_do(s, RN_CREDIT, NOON, 1).allowed);
    assert_int_equal(take_singly(s, NOON, 11), 10);
}

static void credit_of_debts(struct subject *s)
{
    assert_int_equal(subject_do(s, RN_DEBIT, NOON, 15).uncollected, 0);
    assert_int_equal(subject_do(s, RN_CREDIT, NOON, 5).remaining, 0);
    assert_int_equal(subject_do(s, RN_CREDIT, NOON, 3).remaining, 3);
}

static void a_credit_gives_back_what_is_spent_and_never_more(void **unused)
{
    (void)unused;
    each_form(credit_4_of_7);
    each_form(credit_more_than_is_spent);
    each_form(credit_of_debts);
}

static void a_credit_is_of_the_present_window_only(void **unused)
{
    struct subject s = window(RATION_FIXED_WINDOW, 10, MINUTE);

    (void)unused;
    take(&s, NOON, 10);
    take(&s, NOON + MINUTE, 1);
    assert_int_equal(subject_do(&s, RN_CREDIT, NOON + MINUTE, 5).remaining, 10);
    assert_int_equal(take_singly(&s, NOON + MINUTE, 11), 10);
    subject_free(&s);
}

/* In the last 320 microseconds before its rounded end it is unclear whether the window has ended:
 * a late debit is then owed, even if nothing else is spent. */
static void a_credit_forgives_what_is_owed_when_nothing_is_spent(void **unused)
{
    struct subject s = subject_new(&(struct ration_limit){
        .algorithm = RATION_FIXED_WINDOW, .amount = 10, .period_ns = MINUTE, .from_first = true});
    int64_t unclear = NOON + MINUTE + 2;

    (void)unused;
    assert_true(take(&s, NOON + 1, 1).allowed);
    assert_int_equal(peek(&s, unclear, 1).remaining, 0);
    assert_true(subject_do(&s, RN_CREDIT, unclear, 1).allowed);
    assert_int_equal(subject_do(&s, RN_DEBIT, unclear, 8).uncollected, 0);
    assert_true(subject_do(&s, RN_CREDIT, unclear, 3).allowed);
    assert_int_equal(peek(&s, unclear + SECOND, 0).remaining, 5);
    subject_free(&s);
}

static void a_credit_takes_the_youngest_out_of_a_log(void **unused)
{
    struct subject s = window(RATION_SLIDING_LOG, 3, 10 * SECOND);

    (void)unused;
    take(&s, NOON, 1);
    take(&s, NOON + 5 * SECOND, 2);
    assert_int_equal(subject_do(&s, RN_CREDIT, NOON + 6 * SECOND, 2).remaining, 2);
    assert_int_equal(peek(&s, NOON + 6 * SECOND, 0).reset_after_ns, 4 * SECOND);
    subject_free(&s);
}

/* The two windows of the counter: 4 of the current one, then of the one before, as it counts. */
static void a_credit_of_a_counter_reaches_the_window_before(void **unused)
{
    struct subject s = window(RATION_SLIDING_WINDOW, 100, MINUTE);

    (void)unused;
    take(&s, NOON, 80);
    take(&s, NOON + 90 * SECOND, 4);
    assert_int_equal(peek(&s, NOON + 90 * SECOND, 0).remaining, 56);
    assert_int_equal(subject_do(&s, RN_CREDIT, NOON + 90 * SECOND, 14).remaining, 65);
    subject_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bucket_of_100_admits_100_and_not_the_101st),
        cmocka_unit_test(a_log_that_owes_more_than_a_smaller_limit_forgets_nothing),
        cmocka_unit_test(bucket_keeps_half_units),
        cmocka_unit_test(empty_bucket_says_retry_after_missing_by_rate),
        cmocka_unit_test(hundred_per_minute_when_empty_retries_in_600_ms),
        cmocka_unit_test(polling_every_1900_ms_loses_no_fractions),
        cmocka_unit_test(bucket_script_leaves_9_8_7_7),
        cmocka_unit_test(capacity_2_at_5_a_second_answers_1_1_0_0_1),
        cmocka_unit_test(clock_stepping_back_neither_refuses_nor_mints),
        cmocka_unit_test(slow_bucket_idle_for_an_hour_holds_36),
        cmocka_unit_test(queue_lets_one_leave_every_100_ms),
        cmocka_unit_test(flooded_queue_of_4_lets_15_leave_in_10_s),
        cmocka_unit_test(of_25_at_once_21_pass_and_4_are_refused),
        cmocka_unit_test(window_on_the_clock_admits_20_around_its_boundary),
        cmocka_unit_test(window_from_first_request_and_log_admit_10),
        cmocka_unit_test(counter_admits_10_and_the_next_at_66_s),
        cmocka_unit_test(at_99_of_100_one_of_two_is_allowed),
        cmocka_unit_test(window_from_first_request_renews_at_exactly_1_s),
        cmocka_unit_test(log_across_the_minute_has_94_left),
        cmocka_unit_test(log_of_5_admits_at_exactly_10_s),
        cmocka_unit_test(log_counts_the_same_instant_twice_and_refusals_never),
        cmocka_unit_test(counter_weighs_the_previous_window),
        cmocka_unit_test(counter_forgets_windows_long_gone),
        cmocka_unit_test(states_are_as_small_as_promised),
        cmocka_unit_test(draining_5_of_3_is_refused_and_leaves_nothing),
        cmocka_unit_test(draining_what_fits_is_a_take),
        cmocka_unit_test(what_was_drained_can_be_given_back_by_its_receipt),
        cmocka_unit_test(a_credit_gives_back_what_is_spent_and_never_more),
        cmocka_unit_test(a_credit_is_of_the_present_window_only),
        cmocka_unit_test(a_credit_forgives_what_is_owed_when_nothing_is_spent),
        cmocka_unit_test(a_credit_takes_the_youngest_out_of_a_log),
        cmocka_unit_test(a_credit_of_a_counter_reaches_the_window_before),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
