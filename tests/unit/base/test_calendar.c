/* SPDX-License-Identifier: Apache-2.0 */
/* Tables of calendar boundaries: where they begin and end, and the months,
 * weeks and days of places that do odd things with their clocks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/calendar.h"

#define HOUR 3600
#define S INT64_C(1000000000)

struct table {
    int64_t *ends;
    uint32_t count;
};

static int64_t utc(int64_t year, int month, int day, int hour, int minute)
{
    return rn_civil_days((struct rn_civil){year, month, day}) * RN_DAY_S + hour * HOUR +
           minute * 60;
}

static struct table table_of(const char *name, enum ration_calendar unit, int64_t from_s,
                             unsigned years)
{
    struct ration_error error;
    struct rn_zone *zone;
    struct table t;

    if (rn_zone_load(name, &zone, &error) != 0)
        fail_msg("%s", error.text);
    assert_int_equal(rn_calendar_ends(zone, unit, from_s, years, &t.ends, &t.count), 0);
    rn_zone_free(zone);
    for (uint32_t i = 1; i < t.count; i++)
        assert_true(t.ends[i - 1] < t.ends[i]);
    assert_true(t.ends[0] <= from_s * S && t.ends[1] > from_s * S);
    assert_true(t.ends[t.count - 1] / S >= from_s + years * INT64_C(31556952));
    return t;
}

/* The first boundaries of a table, given as seconds. */
static void assert_begins(struct table t, const int64_t *expected, uint32_t count)
{
    assert_true(t.count >= count);
    for (uint32_t i = 0; i < count; i++)
        if (t.ends[i] != expected[i] * S)
            fail_msg("boundary %u is %lld, not %lld", i, (long long)(t.ends[i] / S),
                     (long long)expected[i]);
    free(t.ends);
}

#define ASSERT_BEGINS(table, ...)                                                                  \
    do {                                                                                           \
        const int64_t expected[] = {__VA_ARGS__};                                                  \
        assert_begins(table, expected, sizeof expected / sizeof *expected);                        \
    } while (0)

static void months_follow_summer_time(void **state)
{
    (void)state;
    ASSERT_BEGINS(table_of("Europe/Rome", RATION_CALENDAR_MONTH, utc(2026, 3, 15, 0, 0), 1),
                  utc(2026, 2, 28, 23, 0), utc(2026, 3, 31, 22, 0), utc(2026, 4, 30, 22, 0),
                  utc(2026, 5, 31, 22, 0), utc(2026, 6, 30, 22, 0), utc(2026, 7, 31, 22, 0),
                  utc(2026, 8, 31, 22, 0), utc(2026, 9, 30, 22, 0), utc(2026, 10, 31, 23, 0));
}

static void days_have_23_24_and_25_hours(void **state)
{
    (void)state;
    ASSERT_BEGINS(table_of("Europe/Rome", RATION_CALENDAR_DAY, utc(2026, 3, 28, 12, 0), 1),
                  utc(2026, 3, 27, 23, 0), utc(2026, 3, 28, 23, 0), utc(2026, 3, 29, 22, 0));
    ASSERT_BEGINS(table_of("Europe/Rome", RATION_CALENDAR_DAY, utc(2026, 10, 25, 12, 0), 1),
                  utc(2026, 10, 24, 22, 0), utc(2026, 10, 25, 23, 0), utc(2026, 10, 26, 23, 0));
    ASSERT_BEGINS(table_of("America/Sao_Paulo", RATION_CALENDAR_DAY, utc(2018, 11, 3, 12, 0), 1),
                  utc(2018, 11, 3, 3, 0), utc(2018, 11, 4, 3, 0), utc(2018, 11, 5, 2, 0));
    ASSERT_BEGINS(table_of("Asia/Kolkata", RATION_CALENDAR_DAY, utc(2026, 1, 1, 0, 0), 1),
                  utc(2025, 12, 31, 18, 30), utc(2026, 1, 1, 18, 30));
}

static void a_day_left_out_has_no_window(void **state)
{
    (void)state;
    ASSERT_BEGINS(table_of("Pacific/Apia", RATION_CALENDAR_DAY, utc(2011, 12, 29, 12, 0), 1),
                  utc(2011, 12, 29, 10, 0), utc(2011, 12, 30, 10, 0), utc(2011, 12, 31, 10, 0));
    ASSERT_BEGINS(table_of("Pacific/Apia", RATION_CALENDAR_WEEK, utc(2011, 12, 29, 12, 0), 1),
                  utc(2011, 12, 26, 10, 0), utc(2012, 1, 1, 10, 0));
    ASSERT_BEGINS(table_of("Pacific/Apia", RATION_CALENDAR_MONTH, utc(2011, 12, 29, 12, 0), 1),
                  utc(2011, 12, 1, 10, 0), utc(2011, 12, 31, 10, 0));
}

static void leap_years_have_their_day(void **state)
{
    (void)state;
    ASSERT_BEGINS(table_of("UTC", RATION_CALENDAR_MONTH, utc(2028, 2, 1, 0, 0), 1),
                  utc(2028, 2, 1, 0, 0), utc(2028, 3, 1, 0, 0));
    ASSERT_BEGINS(table_of("UTC", RATION_CALENDAR_DAY, utc(2028, 2, 28, 7, 0), 1),
                  utc(2028, 2, 28, 0, 0), utc(2028, 2, 29, 0, 0), utc(2028, 3, 1, 0, 0));
    ASSERT_BEGINS(table_of("UTC", RATION_CALENDAR_DAY, utc(2100, 2, 28, 7, 0), 1),
                  utc(2100, 2, 28, 0, 0), utc(2100, 3, 1, 0, 0));
}

static void weeks_begin_on_monday_and_years_in_january(void **state)
{
    (void)state;
    ASSERT_BEGINS(table_of("", RATION_CALENDAR_WEEK, utc(2027, 1, 1, 0, 0), 1),
                  utc(2026, 12, 28, 0, 0), utc(2027, 1, 4, 0, 0));
    ASSERT_BEGINS(table_of("", RATION_CALENDAR_WEEK, utc(1969, 12, 29, 0, 0) - 1, 1),
                  utc(1969, 12, 22, 0, 0), utc(1969, 12, 29, 0, 0), utc(1970, 1, 5, 0, 0));
    ASSERT_BEGINS(table_of("Europe/Rome", RATION_CALENDAR_YEAR, utc(2026, 12, 31, 23, 0), 2),
                  utc(2026, 12, 31, 23, 0), utc(2027, 12, 31, 23, 0), utc(2028, 12, 31, 23, 0));
    ASSERT_BEGINS(table_of("Europe/Rome", RATION_CALENDAR_YEAR, utc(2026, 12, 31, 23, 0) - 1, 2),
                  utc(2025, 12, 31, 23, 0), utc(2026, 12, 31, 23, 0));
}

static void the_far_future_goes_by_the_rule(void **state)
{
    (void)state;
    ASSERT_BEGINS(table_of("Europe/Rome", RATION_CALENDAR_DAY, utc(2050, 3, 27, 12, 0), 1),
                  utc(2050, 3, 26, 23, 0), utc(2050, 3, 27, 22, 0), utc(2050, 3, 28, 22, 0));
    ASSERT_BEGINS(table_of("America/New_York", RATION_CALENDAR_MONTH, utc(2090, 11, 1, 12, 0), 1),
                  utc(2090, 11, 1, 4, 0), utc(2090, 12, 1, 5, 0));
}

/* Between the two midnights of one night the window is the new day's. */
static void a_midnight_that_comes_again_starts_nothing(void **state)
{
    (void)state;
    ASSERT_BEGINS(table_of("America/Havana", RATION_CALENDAR_DAY, utc(2025, 11, 2, 5, 0), 1),
                  utc(2025, 11, 2, 4, 0), utc(2025, 11, 3, 5, 0));
    /* At 00:01 back to 23:01, which is what clocks show at that time. */
    ASSERT_BEGINS(table_of("America/St_Johns", RATION_CALENDAR_DAY, utc(2006, 10, 29, 2, 45), 1),
                  utc(2006, 10, 29, 2, 30), utc(2006, 10, 30, 3, 30));
    ASSERT_BEGINS(table_of("America/Juneau", RATION_CALENDAR_DAY, utc(1867, 10, 18, 12, 0), 1),
                  utc(1867, 10, 18, 8, 57) + 41, utc(1867, 10, 20, 8, 57) + 41); /* sold: 48 h */
}

static void forty_years_of_days_fit_in_15000(void **state)
{
    struct table t =
        table_of("Europe/Rome", RATION_CALENDAR_DAY, utc(2026, 1, 1, 0, 0), RN_CALENDAR_YEARS);

    (void)state;
    assert_in_range(t.count, 14610, 14613);
    for (uint32_t i = 1; i < t.count; i++)
        assert_in_range(t.ends[i] - t.ends[i - 1], 23 * HOUR * S, 25 * HOUR * S);
    free(t.ends);
}

static void what_is_out_of_range_is_refused(void **state)
{
    struct rn_zone *zone;
    int64_t *ends = NULL;
    uint32_t count;

    (void)state;
    assert_int_equal(rn_zone_load("UTC", &zone, NULL), 0);
    assert_int_equal(rn_calendar_ends(zone, RATION_CALENDAR_NONE, 0, 1, &ends, &count),
                     RATION_EINVAL);
    assert_int_equal(rn_calendar_ends(zone, (enum ration_calendar)5, 0, 1, &ends, &count),
                     RATION_EINVAL);
    assert_int_equal(rn_calendar_ends(zone, RATION_CALENDAR_DAY, INT64_MAX, 1, &ends, &count),
                     RATION_EINVAL);
    assert_int_equal(rn_calendar_ends(zone, RATION_CALENDAR_DAY, INT64_MIN, 1, &ends, &count),
                     RATION_EINVAL);
    assert_int_equal(rn_calendar_ends(zone, RATION_CALENDAR_DAY, 0, 0, &ends, &count),
                     RATION_EINVAL);
    assert_int_equal(rn_calendar_ends(zone, RATION_CALENDAR_DAY, 0, 51, &ends, &count),
                     RATION_EINVAL);
    assert_null(ends);
    rn_zone_free(zone);
}

static void names_are_of_days_weeks_months_and_years_that_exist(void **state)
{
    static const struct {
        const char *name;
        enum ration_calendar unit;
    } cases[] = {
        {"2026", RATION_CALENDAR_YEAR},
        {"2026-01", RATION_CALENDAR_MONTH},
        {"2026-12", RATION_CALENDAR_MONTH},
        {"2026-00", RATION_CALENDAR_NONE},
        {"2026-13", RATION_CALENDAR_NONE},
        {"2026-11-18", RATION_CALENDAR_DAY},
        {"2028-02-29", RATION_CALENDAR_DAY},
        {"2026-02-29", RATION_CALENDAR_NONE},
        {"2026-04-31", RATION_CALENDAR_NONE},
        {"2026-04-00", RATION_CALENDAR_NONE},
        {"2026-W01", RATION_CALENDAR_WEEK},
        {"2026-W53", RATION_CALENDAR_WEEK},
        {"2025-W53", RATION_CALENDAR_NONE},
        {"2020-W53", RATION_CALENDAR_WEEK},
        {"2026-W00", RATION_CALENDAR_NONE},
        {"2026-W54", RATION_CALENDAR_NONE},
        {"", RATION_CALENDAR_NONE},
        {"202", RATION_CALENDAR_NONE},
        {"2026-1", RATION_CALENDAR_NONE},
        {"2026-11-", RATION_CALENDAR_NONE},
        {"2026-11-18T", RATION_CALENDAR_NONE},
        {"2026-w47", RATION_CALENDAR_NONE},
        {"+026-11", RATION_CALENDAR_NONE},
        {"last", RATION_CALENDAR_NONE},
    };

    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (rn_calendar_unit_named(cases[i].name, strlen(cases[i].name)) != cases[i].unit)
            fail_msg("%s", cases[i].name);
}

int main(void)
{
    const struct CMUnitTest calendar[] = {
        cmocka_unit_test(months_follow_summer_time),
        cmocka_unit_test(days_have_23_24_and_25_hours),
        cmocka_unit_test(a_day_left_out_has_no_window),
        cmocka_unit_test(leap_years_have_their_day),
        cmocka_unit_test(weeks_begin_on_monday_and_years_in_january),
        cmocka_unit_test(the_far_future_goes_by_the_rule),
        cmocka_unit_test(a_midnight_that_comes_again_starts_nothing),
        cmocka_unit_test(forty_years_of_days_fit_in_15000),
        cmocka_unit_test(what_is_out_of_range_is_refused),
        cmocka_unit_test(names_are_of_days_weeks_months_and_years_that_exist),
    };

    return cmocka_run_group_tests(calendar, NULL, NULL);
}
