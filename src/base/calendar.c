/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Units are numbered: days and weeks from 1970, months and years from year 0. The number
 * gives the date on which a unit begins, and the zone says when that day begins. So nothing
 * here depends on the length of a unit.
 */
#include "base/calendar.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"

#define SECOND_NS INT64_C(1000000000)
#define YEAR_S INT64_C(31556952) /* 365.2425 days */
#define FROM_BOUND_S (200 * YEAR_S)
#define YEARS_MAX 50
/* 2020-01-01, so that loading needs no clock. */
#define LOAD_FROM_S INT64_C(1577836800)

/* The Monday of week 0: 1970-01-01 was a Thursday. */
#define FIRST_MONDAY INT64_C(-3)

static int64_t floor_div(int64_t a, int64_t b)
{
    return a / b - (a % b < 0);
}

/* The number of the unit that contains the day. */
static int64_t unit_of(enum ration_calendar unit, int64_t day)
{
    struct rn_civil date = rn_civil_of_days(day);

    switch (unit) {
    case RATION_CALENDAR_WEEK:
        return floor_div(day - FIRST_MONDAY, 7);
    case RATION_CALENDAR_MONTH:
        return date.year * 12 + date.month - 1;
    case RATION_CALENDAR_YEAR:
        return date.year;
    case RATION_CALENDAR_NONE: /* not asked: such a limit has a period */
    case RATION_CALENDAR_DAY:
        break;
    }
    return day;
}

static struct rn_civil first_day(enum ration_calendar unit, int64_t number)
{
    switch (unit) {
    case RATION_CALENDAR_WEEK:
        return rn_civil_of_days(number * 7 + FIRST_MONDAY);
    case RATION_CALENDAR_MONTH: {
        int64_t year = floor_div(number, 12);

        return (struct rn_civil){year, (int)(number - year * 12) + 1, 1};
    }
    case RATION_CALENDAR_YEAR:
        return (struct rn_civil){number, 1, 1};
    case RATION_CALENDAR_NONE:
    case RATION_CALENDAR_DAY:
        break;
    }
    return rn_civil_of_days(number);
}

static int64_t begin_of(const struct rn_zone *zone, enum ration_calendar unit, int64_t number)
{
    return rn_zone_local_to_unix(zone, first_day(unit, number));
}

int rn_calendar_ends(const struct rn_zone *zone, enum ration_calendar unit, int64_t from_s,
                     unsigned years, int64_t **ends, uint32_t *count)
{
    static const unsigned in_a_year[] = {[RATION_CALENDAR_DAY] = 366,
                                         [RATION_CALENDAR_WEEK] = 53,
                                         [RATION_CALENDAR_MONTH] = 12,
                                         [RATION_CALENDAR_YEAR] = 1};

    if (from_s < -FROM_BOUND_S || from_s > FROM_BOUND_S || years < 1 || years > YEARS_MAX ||
        unit < RATION_CALENDAR_DAY || unit > RATION_CALENDAR_YEAR)
        return RATION_EINVAL;

    size_t room = (size_t)in_a_year[unit] * (years + 1) + 8;
    int64_t *list = malloc(room * sizeof *list), until_s = from_s + years * YEAR_S;
    uint32_t n = 0;

    if (list == NULL)
        return RATION_ENOMEM;

    /* The next unit may have begun, too, if clocks have been set back since. */
    int64_t number = unit_of(unit, rn_civil_day_of(from_s + rn_zone_offset_at(zone, from_s)));
    int64_t begin = begin_of(zone, unit, number), next;

    while ((next = begin_of(zone, unit, number + 1)) <= from_s) {
        begin = next;
        number++;
    }
    list[n++] = begin * SECOND_NS;
    while (begin < until_s && n < room) {
        next = begin_of(zone, unit, ++number);
        if (next > begin)
            list[n++] = next * SECOND_NS;
        begin = next;
    }
    *ends = list;
    *count = n;
    return 0;
}

int rn_calendar_load(const char *name, enum ration_calendar unit, int64_t **ends, uint32_t *count,
                     struct ration_error *error)
{
    struct rn_zone *zone;
    int code = rn_zone_load(name, &zone, error);

    if (code != 0)
        return code;
    code = rn_calendar_ends(zone, unit, LOAD_FROM_S, YEARS_MAX, ends, count);
    rn_zone_free(zone);
    return code == 0 ? 0 : rn_error_set(error, code, 0, "%s", ration_error_text(code));
}

/* --- single units ------------------------------------------------------------------- */

/* ISO 8601: a week belongs to the year that has its Thursday. */
static void name_week(int64_t monday, char name[RN_CALENDAR_NAME])
{
    struct rn_civil thursday = rn_civil_of_days(monday + 3);
    int64_t first = rn_civil_days((struct rn_civil){thursday.year, 1, 1});

    snprintf(name, RN_CALENDAR_NAME, "%04d-W%02d", (int)thursday.year,
             (int)((monday + 3 - first) / 7) + 1);
}

static void name_unit(enum ration_calendar unit, int64_t number, char name[RN_CALENDAR_NAME])
{
    struct rn_civil date = first_day(unit, number);
    int year = (int)date.year;

    switch (unit) {
    case RATION_CALENDAR_WEEK:
        name_week(rn_civil_days(date), name);
        return;
    case RATION_CALENDAR_MONTH:
        snprintf(name, RN_CALENDAR_NAME, "%04d-%02d", year, date.month);
        return;
    case RATION_CALENDAR_YEAR:
        snprintf(name, RN_CALENDAR_NAME, "%04d", year);
        return;
    case RATION_CALENDAR_NONE:
    case RATION_CALENDAR_DAY:
        break;
    }
    snprintf(name, RN_CALENDAR_NAME, "%04d-%02d-%02d", year, date.month, date.day);
}

void rn_calendar_span(const struct rn_zone *zone, enum ration_calendar unit, int64_t at_s,
                      struct rn_calendar_span *span)
{
    at_s = at_s < -FROM_BOUND_S ? -FROM_BOUND_S : at_s > FROM_BOUND_S ? FROM_BOUND_S : at_s;
    int64_t number = unit_of(unit, rn_civil_day_of(at_s + rn_zone_offset_at(zone, at_s)));

    while (begin_of(zone, unit, number) > at_s)
        number--;
    while (begin_of(zone, unit, number + 1) <= at_s)
        number++;
    span->start_s = begin_of(zone, unit, number);
    name_unit(unit, number, span->name);
    do /* units without length are skipped */
        span->end_s = begin_of(zone, unit, ++number);
    while (span->end_s <= span->start_s);
}

/* 9 stands for a digit. */
static bool has_form(const char *text, size_t len, const char *form)
{
    size_t i = 0;

    for (; i < len && form[i] != '\0'; i++)
        if (form[i] == '9' ? text[i] < '0' || text[i] > '9' : text[i] != form[i])
            return false;
    return i == len && form[i] == '\0';
}

static int two_digits(const char *text)
{
    return (text[0] - '0') * 10 + (text[1] - '0');
}

/* A year has 53 weeks if it begins or ends on a Thursday: each week belongs to the year of its
 * Thursday. */
static bool has_week(int64_t year, int week)
{
    int first = rn_civil_weekday(rn_civil_days((struct rn_civil){year, 1, 1}));
    int last = rn_civil_weekday(rn_civil_days((struct rn_civil){year, 12, 31}));

    return week >= 1 && week <= (first == 4 || last == 4 ? 53 : 52);
}

enum ration_calendar rn_calendar_unit_named(const char *name, size_t len)
{
    bool year = has_form(name, len, "9999"), month = has_form(name, len, "9999-99");
    bool week = has_form(name, len, "9999-W99"), day = has_form(name, len, "9999-99-99");
    struct rn_civil date = {.month = 1, .day = 1};

    if (year)
        return RATION_CALENDAR_YEAR;
    if (!month && !week && !day)
        return RATION_CALENDAR_NONE;
    date.year = two_digits(name) * 100 + two_digits(name + 2);
    if (week)
        return has_week(date.year, two_digits(name + 6)) ? RATION_CALENDAR_WEEK
                                                         : RATION_CALENDAR_NONE;
    date.month = two_digits(name + 5);
    date.day = day ? two_digits(name + 8) : 1;
    /* A day beyond the end of its month comes back as one of the next. */
    if (date.month < 1 || date.month > 12 || date.day < 1 ||
        rn_civil_of_days(rn_civil_days(date)).day != date.day)
        return RATION_CALENDAR_NONE;
    return day ? RATION_CALENDAR_DAY : RATION_CALENDAR_MONTH;
}
