/* SPDX-License-Identifier: Apache-2.0 */
/* Dates: against the C library's UTC, which needs no zone, and by counting. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "base/civil.h"

static void assert_date(int64_t days, int64_t year, int month, int day)
{
    struct rn_civil date = rn_civil_of_days(days);

    if (date.year != year || date.month != month || date.day != day)
        fail_msg("day %lld is %lld-%d-%d", (long long)days, (long long)date.year, date.month,
                 date.day);
    assert_true(rn_civil_days(date) == days);
}

static void known_days_have_their_dates(void **state)
{
    (void)state;
    assert_date(0, 1970, 1, 1);
    assert_date(-1, 1969, 12, 31);
    assert_date(11016, 2000, 2, 29);
    assert_date(47541, 2100, 3, 1);
    assert_date(-719162, 1, 1, 1);
    assert_date(-719163, 0, 12, 31);
}

static void eight_centuries_agree_with_the_c_library(void **state)
{
    (void)state;
    for (int64_t days = -146100; days < 146100; days++) {
        time_t seconds = (time_t)(days * RN_DAY_S + 86399);
        struct tm tm;

        gmtime_r(&seconds, &tm);
        assert_date(days, tm.tm_year + 1900, tm.tm_mon + 1, tm.tm_mday);
        assert_int_equal(rn_civil_weekday(days), tm.tm_wday);
        assert_true(rn_civil_day_of(seconds) == days);
    }
}

static void far_years_go_round(void **state)
{
    (void)state;
    for (int64_t year = -1000000000000; year <= 1000000000000; year += 999999937 * INT64_C(7)) {
        struct rn_civil last = {year, 12, 31};

        assert_date(rn_civil_days(last), year, 12, 31);
        assert_date(rn_civil_days(last) + 1, year + 1, 1, 1);
        assert_true(rn_civil_days(last) - rn_civil_days((struct rn_civil){year, 1, 1}) ==
                    (rn_civil_is_leap(year) ? 365 : 364));
    }
}

int main(void)
{
    const struct CMUnitTest civil[] = {
        cmocka_unit_test(known_days_have_their_dates),
        cmocka_unit_test(eight_centuries_agree_with_the_c_library),
        cmocka_unit_test(far_years_go_round),
    };

    return cmocka_run_group_tests(civil, NULL, NULL);
}
