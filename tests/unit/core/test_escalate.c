/* SPDX-License-Identifier: Apache-2.0 */
/* The offence record: examples by hand, then what must hold on random histories. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/escalate.h"

#define SECOND INT64_C(1000000000)
#define MINUTE (60 * SECOND)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)
#define START (INT64_C(1763442000) * SECOND) /* some time in November 2025 */

/* escalate: {after: 3 refusals within 10s, ban: 1m, grow: 4x, up_to: 1h, forget: 7d} */
static struct rn_escalate_plan plan = {
    .after = 3,
    .within_ns = 10 * SECOND,
    .ban_ns = {0, MINUTE, 4 * MINUTE, 16 * MINUTE},
    .forget_ns = 7 * DAY,
};

/* A whole number of ticks, so that nothing is rounded. */
static const int64_t even_ns = START / RN_RECORD_TICK_NS * RN_RECORD_TICK_NS;

static uint64_t refuse(uint64_t word, int64_t at_ns)
{
    return rn_escalate_refuse(&plan, word, even_ns + at_ns);
}

static int64_t rest(uint64_t word, int64_t at_ns)
{
    return rn_escalate_rest_ns(&plan, word, even_ns + at_ns);
}

static uint64_t offend(uint64_t word, int64_t at_ns)
{
    for (int i = 0; i < 3; i++)
        word = refuse(word, at_ns);
    return word;
}

static void enough_refusals_in_a_window_begin_a_ban(void **state)
{
    uint64_t word = refuse(refuse(0, 0), 5 * SECOND);

    (void)state;
    assert_int_equal(rest(word, 5 * SECOND), 0);
    assert_int_equal(rn_record_refusals(word), 2);
    word = refuse(word, 10 * SECOND - 1);
    assert_int_equal(rn_record_level(word), 1);
    assert_in_range(rest(word, 10 * SECOND - 1), MINUTE - RN_RECORD_TICK_NS, MINUTE);
    assert_int_equal(rest(word, 10 * SECOND + MINUTE), 0);
}

static void a_refusal_after_the_window_opens_another(void **state)
{
    uint64_t word = refuse(refuse(0, 0), 5 * SECOND);

    (void)state;
    word = refuse(word, 10 * SECOND);
    assert_int_equal(rn_record_refusals(word), 1);
    assert_int_equal(rest(word, 10 * SECOND), 0);
}

static void refusals_during_a_ban_count_nothing(void **state)
{
    uint64_t word = offend(0, 0);

    (void)state;
    for (int i = 0; i < 100; i++)
        assert_true(refuse(word, i * SECOND / 2) == word);
    word = refuse(word, MINUTE + SECOND);
    assert_int_equal(rn_record_refusals(word), 1);
    assert_int_equal(rn_record_level(word), 1);
}

static void bans_grow_up_to_the_longest(void **state)
{
    static const int64_t lengths[] = {MINUTE, 4 * MINUTE, 16 * MINUTE, HOUR, HOUR, HOUR};
    uint64_t word = 0;

    (void)state;
    for (int i = 0; i < 60; i++) {
        int64_t length = lengths[i < 5 ? i : 5];

        word = offend(word, i * 2 * HOUR);
        assert_int_equal(rn_record_level(word), i < RN_LEVELS - 1 ? i + 1 : RN_LEVELS - 1);
        assert_in_range(rest(word, i * 2 * HOUR), length - RN_RECORD_TICK_NS, length);
    }
}

static void a_level_is_forgotten(void **state)
{
    uint64_t word = offend(offend(0, 0), HOUR);
    int64_t ended = HOUR + 4 * MINUTE, unit = INT64_C(1) << RN_RECORD_FORGET_BITS;

    (void)state;
    assert_int_equal(rn_record_level(word), 2);
    assert_int_equal(rn_record_level(offend(word, ended + 7 * DAY - unit - SECOND)), 3);
    assert_int_equal(rn_record_level(offend(word, ended + 7 * DAY)), 1);
    /* The window opens before, the ban would begin after that time. */
    word = refuse(refuse(word, ended + 7 * DAY - unit - 2 * SECOND), ended + 7 * DAY - 8 * SECOND);
    assert_in_range(rn_record_level(word), 0, 2);
    assert_int_equal(rn_record_level(offend(word, ended + 7 * DAY)), 1);
}

static void a_ban_that_a_clock_step_would_lengthen_has_ended(void **state)
{
    uint64_t word = offend(0, HOUR);

    (void)state;
    assert_int_equal(rest(word, HOUR - 5 * SECOND), MINUTE); /* another thread's older time */
    assert_int_equal(rest(word, HOUR - 11 * SECOND), 0);
    assert_int_equal(rest(word, -DAY), 0);
    assert_int_equal(rest(word, HOUR + DAY), 0);
    word = refuse(refuse(0, HOUR), HOUR);
    assert_int_equal(rn_record_refusals(refuse(word, HOUR - MINUTE)), 1);
}

static void a_shorter_plan_holds_for_old_records(void **state)
{
    struct rn_escalate_plan shorter = plan;
    uint64_t word = offend(offend(offend(0, 0), HOUR), 2 * HOUR);

    (void)state;
    for (int i = 1; i < RN_LEVELS; i++)
        shorter.ban_ns[i] = 30 * SECOND;
    assert_in_range(rest(word, 2 * HOUR), 16 * MINUTE - RN_RECORD_TICK_NS, 16 * MINUTE);
    assert_int_equal(rn_escalate_rest_ns(&shorter, word, even_ns + 2 * HOUR), 0);
    shorter.after = 1;
    word = rn_escalate_refuse(&shorter, word, even_ns + 2 * HOUR);
    assert_int_equal(rn_record_level(word), 4);
    assert_in_range(rn_escalate_rest_ns(&shorter, word, even_ns + 2 * HOUR), 29 * SECOND,
                    30 * SECOND);
}

static void a_ban_of_another_node_is_at_most_a_whole_one(void **state)
{
    uint64_t word = rn_escalate_ban(&plan, 2, DAY, even_ns);

    (void)state;
    assert_in_range(rest(word, 0), 4 * MINUTE - RN_RECORD_TICK_NS, 4 * MINUTE);
    assert_int_equal(rn_record_level(word), 2);
    word = rn_escalate_ban(&plan, 1000, 10 * SECOND, even_ns);
    assert_int_equal(rest(word, 0), 10 * SECOND / RN_RECORD_TICK_NS * RN_RECORD_TICK_NS);
    assert_int_equal(rn_record_level(word), RN_LEVELS - 1);
}

static void the_longest_plan_fits_a_word(void **state)
{
    struct rn_escalate_plan longest = {.after = 1000, .within_ns = DAY, .forget_ns = 365 * DAY};
    struct rn_record_view v;
    uint64_t word = 0;

    (void)state;
    for (int i = 1; i < RN_LEVELS; i++)
        longest.ban_ns[i] = 365 * DAY;
    for (int i = 0; i < 999; i++)
        word = rn_escalate_refuse(&longest, word, even_ns + i * MINUTE);
    rn_record_view(word, even_ns + 999 * MINUTE, &v);
    assert_int_equal(v.refusals, 999);
    assert_true(v.live);
    rn_record_view(word, even_ns + DAY + 5 * SECOND, &v);
    assert_false(v.live);
    word = rn_escalate_refuse(&longest, word, even_ns + 999 * MINUTE);
    rn_record_view(word, even_ns + 999 * MINUTE, &v);
    assert_true(v.banned);
    assert_in_range(v.ends_ns - even_ns - 999 * MINUTE, 365 * DAY - RN_RECORD_TICK_NS, 365 * DAY);
    rn_record_view(word, even_ns + 729 * DAY, &v);
    assert_true(v.live && !v.banned && v.level == 1);
    rn_record_view(word, even_ns + 731 * DAY, &v);
    assert_false(v.live);
    for (int year = 2; year < 7; year++) {
        rn_record_view(word, even_ns + year * 366 * DAY, &v);
        assert_false(v.live);
    }
}

static void records_rank_by_what_is_lost_with_them(void **state)
{
    int64_t now = even_ns + HOUR;
    uint64_t earned = rn_record_stamp(now) | 48 << RN_RECORD_LIFE_AT | RN_RECORD_EARNED;
    uint64_t one = refuse(0, HOUR), two = refuse(one, HOUR), first = offend(0, HOUR);
    const uint64_t sorted[] = {
        0,
        refuse(0, 0), /* its window is over */
        refuse(0, HOUR - SECOND),
        one,
        two,
        offend(0, 0), /* its ban is over */
        offend(offend(0, 0), 2 * MINUTE),
        earned | 10 << RN_RECORD_SURPLUS_AT,
        earned | 100 << RN_RECORD_SURPLUS_AT,
        offend(0, HOUR - SECOND),
        first,
        offend(offend(0, 0), HOUR),
    };
    size_t n = sizeof sorted / sizeof *sorted;

    (void)state;
    assert_true(rn_record_rank(sorted[0], now) == 0 && rn_record_rank(sorted[1], now) == 0);
    for (size_t i = 2; i < n; i++)
        assert_true(rn_record_rank(sorted[i], now) > rn_record_rank(sorted[i - 1], now));
}

/* Each ban was earned by `after` refusals within less than within_ns, and lasts no longer than the
 * plan says, whatever the clock does. */
static void no_ban_is_unearned(void **state)
{
    int64_t times[3] = {0}, now = even_ns;
    uint64_t word = 0, seed = 88172645463325252u;
    unsigned bans = 0;

    (void)state;
    for (int i = 0; i < 1000000; i++) {
        seed ^= seed << 13, seed ^= seed >> 7, seed ^= seed << 17;
        now += (int64_t)(seed % (uint64_t)(4 * SECOND));
        if (seed >> 54 == 0)
            now -= (int64_t)(seed % (uint64_t)(3 * DAY));
        if (seed >> 54 == 1)
            now += (int64_t)(seed % (uint64_t)(30 * DAY));
        if (rn_escalate_rest_ns(&plan, word, now) != 0)
            continue;
        times[i % 3] = now;
        word = rn_escalate_refuse(&plan, word, now);
        int64_t left = rn_escalate_rest_ns(&plan, word, now);

        if (left == 0)
            continue;
        bans++;
        assert_true(left <= plan.ban_ns[rn_record_level(word)]);
        for (int k = 0; k < 9; k++)
            assert_true(times[k / 3] - times[k % 3] < plan.within_ns);
    }
    assert_true(bans > 1000);
}

int main(void)
{
    for (int i = 4; i < RN_LEVELS; i++)
        plan.ban_ns[i] = HOUR;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(enough_refusals_in_a_window_begin_a_ban),
        cmocka_unit_test(a_refusal_after_the_window_opens_another),
        cmocka_unit_test(refusals_during_a_ban_count_nothing),
        cmocka_unit_test(bans_grow_up_to_the_longest),
        cmocka_unit_test(a_level_is_forgotten),
        cmocka_unit_test(a_ban_that_a_clock_step_would_lengthen_has_ended),
        cmocka_unit_test(a_shorter_plan_holds_for_old_records),
        cmocka_unit_test(a_ban_of_another_node_is_at_most_a_whole_one),
        cmocka_unit_test(the_longest_plan_fits_a_word),
        cmocka_unit_test(records_rank_by_what_is_lost_with_them),
        cmocka_unit_test(no_ban_is_unearned),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
