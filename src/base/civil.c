/* SPDX-License-Identifier: Apache-2.0 */
/* Days to dates and back. */
#include "base/civil.h"

/* From January 1st of the year 1 to that of 1970. */
#define DAYS_TO_1970 INT64_C(719162)
#define DAYS_IN_400_YEARS INT64_C(146097)

/* Days of a common year before each month. */
static const int before_month[] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365};

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

bool rn_civil_is_leap(int64_t year)
{
    return year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
}

/* Days from 0001-01-01 to January 1st of the year. */
static int64_t before_year(int64_t year)
{
    int64_t past = year - 1;

    return past * 365 + floor_div(past, 4) - floor_div(past, 100) + floor_div(past, 400);
}

static int before_month_of(int64_t year, int month)
{
    return before_month[month - 1] + (month > 2 && rn_civil_is_leap(year));
}

int64_t rn_civil_days(struct rn_civil date)
{
    return before_year(date.year) + before_month_of(date.year, date.month) + date.day - 1 -
           DAYS_TO_1970;
}

struct rn_civil rn_civil_of_days(int64_t days)
{
    int64_t since_1 = days + DAYS_TO_1970;
    /* By the mean length of a year: leap days are never two days off their mean, so this is
     * the year or a neighbour. */
    int64_t year = floor_div(since_1 * 400, DAYS_IN_400_YEARS) + 1;

    if (before_year(year) > since_1)
        year--;
    else if (before_year(year + 1) <= since_1)
        year++;

    int rest = (int)(since_1 - before_year(year)), month = rest / 31 + 1;

    if (month < 12 && before_month_of(year, month + 1) <= rest)
        month++;
    return (struct rn_civil){year, month, rest - before_month_of(year, month) + 1};
}

int rn_civil_weekday(int64_t days)
{
    int64_t from_thursday = days % 7; /* 1970-01-01 was one: day 4 */

    return (int)((from_thursday + 7 + 4) % 7);
}
