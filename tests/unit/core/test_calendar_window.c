/* SPDX-License-Identifier: Apache-2.0 */
/* Fixed windows that end where a calendar says: within it, at its edges and
 * beyond it, with clocks that are set and ends that are spread. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "model/subject.h"

/* Uneven on purpose: a day of 23 hours, one of 25, one that comes twice. */
static const int64_t day_ends[] = {BASE,
                                   BASE + 24 * HOUR,
                                   BASE + 47 * HOUR,
                                   BASE + 72 * HOUR,
                                   BASE + 120 * HOUR,
                                   BASE + 144 * HOUR};
static const struct rn_calendar days = {day_ends, 6};

static struct ration_limit daily(uint64_t amount)
{
    return (struct ration_limit){.algorithm = RATION_FIXED_WINDOW,
                                 .amount = amount,
                                 .calendar = RATION_CALENDAR_DAY,
                                 .zone = "Europe/Rome"};
}

static struct subject subject_daily(uint64_t amount)
{
    struct ration_limit limit = daily(amount);
    struct subject s = subject_new(&limit);

    rn_limit_set_calendar(&s.limit, &days);
    return s;
}

/* A window in a word, and one too large for it, whose end is exact. */
static const uint64_t amounts[] = {10, 10 << 20};
#define QUANTUM 320000
#define EACH_AMOUNT(i)                                                                             \
    size_t i = 0;                                                                                  \
    i < sizeof amounts / sizeof *amounts;                                                          \
    i++

static void assert_ends(const struct subject *s, int64_t now, int64_t end)
{
    assert_in_range(peek(s, now, 0).reset_after_ns, end - now, end - now + QUANTUM);
}

static void a_window_ends_where_the_calendar_says(void **unused)
{
    (void)unused;
    for (EACH_AMOUNT(i)) {
        for (uint32_t day = 0; day + 2 < days.count; day++) { /* the table goes on after it */
            int64_t begin = day_ends[day], end = day_ends[day + 1];
            struct subject s = subject_daily(amounts[i]);

            assert_true(take(&s, begin, amounts[i]).allowed);
            assert_ends(&s, begin, end);
            assert_false(take(&s, end - 1, 1).allowed);
            assert_in_range(take(&s, end - 1, 1).retry_after_ns, 1, 1 + QUANTUM);
            assert_true(take(&s, end + QUANTUM, amounts[i]).allowed);
            subject_free(&s);

            s = subject_daily(amounts[i]);
            take(&s, end - 1, 1);
            assert_ends(&s, end - 1, end);
            subject_free(&s);
        }
    }
}

static void a_window_admits_its_amount_once(void **unused)
{
    struct subject s = subject_daily(10);
    uint64_t admitted = 0;

    (void)unused;
    for (int64_t now = day_ends[0]; now < day_ends[5]; now += HOUR / 2)
        admitted += take(&s, now, 1).allowed;
    assert_int_equal(admitted, 5 * 10);
    subject_free(&s);
}

static void wall_time_decides_and_a_begun_window_keeps_its_end(void **unused)
{
    struct subject s = subject_daily(10);
    int64_t now = 1000 * SECOND; /* a time line of its own */

    (void)unused;
    s.wall_offset_ns = BASE - now;
    take(&s, now, 1);
    assert_ends(&s, now, now + 24 * HOUR);
    s.wall_offset_ns += 30 * HOUR; /* set forward: the window goes on */
    take(&s, now + HOUR, 1);
    assert_ends(&s, now + HOUR, now + 24 * HOUR);
    assert_int_equal(peek(&s, now + HOUR, 0).remaining, 8);
    /* The next one is by the new time: 54 h after BASE. */
    take(&s, now + 24 * HOUR + QUANTUM, 1);
    assert_ends(&s, now + 24 * HOUR + QUANTUM, now + 42 * HOUR);
    subject_free(&s);
}

static void beyond_the_calendar_the_period_holds(void **unused)
{
    int64_t midnight = (BASE / DAY + 30) * DAY;

    (void)unused;
    for (EACH_AMOUNT(i)) {
        struct subject s = subject_daily(amounts[i]);
        int64_t last = day_ends[5];

        take(&s, midnight + HOUR, 1);
        assert_ends(&s, midnight + HOUR, midnight + DAY);
        subject_free(&s);
        s = subject_daily(amounts[i]);
        take(&s, last, 1);
        assert_ends(&s, last, (last / DAY + 1) * DAY);
        subject_free(&s);
        s = subject_daily(amounts[i]);
        take(&s, BASE - 1, 1);
        assert_ends(&s, BASE - 1, ((BASE - 1) / DAY + 1) * DAY);
        subject_free(&s);
    }
}

static void without_a_calendar_it_is_a_plain_window(void **unused)
{
    struct ration_limit limit = daily(10);
    static const int64_t none[] = {BASE};
    static const struct rn_calendar empty = {none, 0}, single = {none, 1};
    const struct rn_calendar *const calendars[] = {NULL, &empty, &single};

    (void)unused;
    for (size_t i = 0; i < 3; i++) {
        struct subject s = subject_new(&limit);

        assert_null(s.limit.calendar);
        rn_limit_set_calendar(&s.limit, calendars[i]);
        take(&s, BASE, 1);
        assert_ends(&s, BASE, (BASE / DAY + 1) * DAY);
        subject_free(&s);
    }
}

static void a_calendar_with_too_long_a_window_is_not_believed(void **unused)
{
    static const int64_t ends[] = {BASE, BASE + 1000 * DAY};
    static const struct rn_calendar calendar = {ends, 2};
    struct subject s = subject_daily(10);

    (void)unused;
    s.limit.calendar = &calendar;
    take(&s, BASE, 1);
    assert_ends(&s, BASE, (BASE / DAY + 1) * DAY);
    subject_free(&s);
}

static void the_longest_window_is_not_cut_and_no_longer_one_stays(void **unused)
{
    (void)unused;
    for (EACH_AMOUNT(i)) {
        struct subject s = subject_daily(amounts[i]);

        take(&s, day_ends[3], 1); /* 48 hours */
        assert_ends(&s, day_ends[3], day_ends[4]);
        take(&s, day_ends[3] + 1, 1);
        assert_ends(&s, day_ends[3] + 1, day_ends[4]);
        /* Time that went back a year: no wait is longer than the longest. */
        int64_t back = BASE - 365 * DAY;

        assert_in_range(take(&s, back, amounts[i]).retry_after_ns, 1, 49 * HOUR + QUANTUM);
        assert_true(take(&s, back + 49 * HOUR + QUANTUM, amounts[i]).allowed);
        subject_free(&s);
    }
}

/* A caller that spreads shifts each key's wall time back by a part of the spread. */
static void ends_can_be_spread_by_key(void **unused)
{
    static const int64_t later[] = {0, SECOND, 10 * MINUTE, 3 * HOUR};

    (void)unused;
    for (size_t i = 0; i < sizeof later / sizeof *later; i++) {
        struct subject s = subject_daily(10);
        uint64_t admitted = 0;

        s.wall_offset_ns = -later[i];
        take(&s, BASE + 5 * HOUR, 1);
        assert_ends(&s, BASE + 5 * HOUR, day_ends[1] + later[i]);
        subject_free(&s);

        s = subject_daily(10);
        s.wall_offset_ns = -later[i];
        for (int64_t now = BASE + later[i]; now < day_ends[5] + later[i]; now += HOUR / 2)
            admitted += take(&s, now, 1).allowed;
        assert_int_equal(admitted, 5 * 10); /* no more and no fewer windows */
        subject_free(&s);
    }
}

static void what_is_given_back_belongs_to_its_window(void **unused)
{
    struct subject s = subject_daily(10);
    int64_t mark = take(&s, BASE, 10).mark;

    (void)unused;
    assert_true(give_back(&s, BASE + HOUR, 3, BASE, mark).allowed);
    assert_int_equal(peek(&s, BASE + HOUR, 0).remaining, 3);
    take(&s, day_ends[1] + SECOND, 10);
    assert_false(give_back(&s, day_ends[1] + SECOND, 3, BASE, mark).allowed);
    subject_free(&s);
}

static void the_oldest_charge_is_as_old_as_the_window_at_most(void **unused)
{
    (void)unused;
    for (EACH_AMOUNT(i)) {
        struct subject s = subject_daily(amounts[i]);
        int64_t now = day_ends[1] + 5 * HOUR;

        assert_int_equal(subject_do(&s, RN_OLDEST, now, 0).oldest_ns, RN_NEVER);
        take(&s, now, 1); /* in the day of 23 hours */
        assert_int_equal(subject_do(&s, RN_OLDEST, now, 0).oldest_ns, 5 * HOUR);
        s.wall_offset_ns = 2 * HOUR; /* the end is no longer the calendar's */
        assert_in_range(subject_do(&s, RN_OLDEST, now, 0).oldest_ns, 5 * HOUR, 6 * HOUR);
        subject_free(&s);
    }
}

static struct rn_limit compile(struct ration_limit spec)
{
    struct rn_limit limit;

    assert_null(rn_limit_fault(&spec));
    rn_limit_init(&limit, &spec);
    return limit;
}

static void unit_and_zone_make_the_shape(void **unused)
{
    struct ration_limit rome = daily(10), more = daily(1 << 21), week = daily(10), utc = daily(10);
    struct ration_limit none = daily(10), plain = {RATION_FIXED_WINDOW, 10, .period_ns = DAY};

    (void)unused;
    week.calendar = RATION_CALENDAR_WEEK;
    strcpy(utc.zone, "UTC");
    none.zone[0] = '\0';
    assert_true(compile(rome).shape == compile(more).shape);
    assert_true(compile(rome).shape != compile(week).shape);
    assert_true(compile(rome).shape != compile(utc).shape);
    assert_true(compile(utc).shape == compile(none).shape);
    assert_true(compile(none).shape != compile(plain).shape);
    assert_true(compile(rome).calendar_id == compile(more).calendar_id);
    assert_true(compile(rome).calendar_id != compile(week).calendar_id);
    assert_true(compile(rome).calendar_id != 0 && compile(plain).calendar_id == 0);
    rome.period_ns = DAY; /* may be said */
    assert_true(compile(rome).shape == compile(more).shape);
    assert_int_equal(compile(week).period_ns, 7 * DAY);
}

static void faults_name_what_does_not_go_together(void **unused)
{
    struct {
        struct ration_limit limit;
        const char *word;
    } bad[] = {
        {daily(10), "fixed-window"},   {daily(10), "fixed-window"},  {daily(10), "first request"},
        {daily(10), "another length"}, {daily(10), "39 letters"},    {daily(10), "39 letters"},
        {daily(10), "unknown unit"},   {daily(10), "without a cal"}, {daily(UINT64_MAX), "amount"},
    };

    (void)unused;
    bad[0].limit.algorithm = RATION_TOKEN_BUCKET;
    bad[1].limit.algorithm = RATION_UNLIMITED;
    bad[2].limit.from_first = true;
    bad[3].limit.period_ns = HOUR;
    strcpy(bad[4].limit.zone, "Europe/Rome burst");
    memset(bad[5].limit.zone, 'x', sizeof bad[5].limit.zone);
    bad[6].limit.calendar = (enum ration_calendar)5;
    bad[7].limit.calendar = RATION_CALENDAR_NONE;
    bad[7].limit.period_ns = DAY;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const char *fault = rn_limit_fault(&bad[i].limit);

        if (fault == NULL || strstr(fault, bad[i].word) == NULL)
            fail_msg("%zu: %s does not mention %s", i, fault ? fault : "no fault", bad[i].word);
    }
}

int main(void)
{
    const struct CMUnitTest calendar_window[] = {
        cmocka_unit_test(a_window_ends_where_the_calendar_says),
        cmocka_unit_test(a_window_admits_its_amount_once),
        cmocka_unit_test(wall_time_decides_and_a_begun_window_keeps_its_end),
        cmocka_unit_test(beyond_the_calendar_the_period_holds),
        cmocka_unit_test(without_a_calendar_it_is_a_plain_window),
        cmocka_unit_test(a_calendar_with_too_long_a_window_is_not_believed),
        cmocka_unit_test(the_longest_window_is_not_cut_and_no_longer_one_stays),
        cmocka_unit_test(ends_can_be_spread_by_key),
        cmocka_unit_test(what_is_given_back_belongs_to_its_window),
        cmocka_unit_test(the_oldest_charge_is_as_old_as_the_window_at_most),
        cmocka_unit_test(unit_and_zone_make_the_shape),
        cmocka_unit_test(faults_name_what_does_not_go_together),
    };

    return cmocka_run_group_tests(calendar_window, NULL, NULL);
}
