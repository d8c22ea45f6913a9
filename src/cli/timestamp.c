/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses times: ISO 8601, in UTC unless an offset is given, or a duration from now.
 */
#include <string.h>

#include "base/civil.h"
#include "base/clock.h"
#include "base/number.h"
#include "cli/options.h"

#define YEAR_FIRST 1970
#define YEAR_LAST 2170

/* Reads exactly `digits` digits. */
static bool read_digits(const char **at, int digits, int *value)
{
    int number = 0;

    for (int i = 0; i < digits; i++) {
        if ((*at)[i] < '0' || (*at)[i] > '9')
            return false;
        number = number * 10 + ((*at)[i] - '0');
    }
    *at += digits;
    *value = number;
    return true;
}

static bool skip(const char **at, char c)
{
    if (**at != c)
        return false;
    ++*at;
    return true;
}

static bool read_date(const char **at, int64_t *seconds)
{
    struct rn_civil date;
    int year;

    if (!read_digits(at, 4, &year) || !skip(at, '-') || !read_digits(at, 2, &date.month) ||
        !skip(at, '-') || !read_digits(at, 2, &date.day))
        return false;
    if (year < YEAR_FIRST || year > YEAR_LAST || date.month < 1 || date.month > 12 || date.day < 1)
        return false;
    date.year = year;
    int64_t days = rn_civil_days(date);
    *seconds = days * RN_DAY_S;
    return rn_civil_of_days(days).day == date.day; /* no 30th of February */
}

/* 23:59, 23:59:59 or 23:59:59.25 */
static bool read_clock(const char **at, int64_t *seconds, int64_t *ns)
{
    int hour, minute, second = 0, digit;

    if (!read_digits(at, 2, &hour) || !skip(at, ':') || !read_digits(at, 2, &minute))
        return false;
    if (skip(at, ':') && !read_digits(at, 2, &second))
        return false;
    if (skip(at, '.'))
        for (int64_t unit = RN_SECOND_NS / 10; read_digits(at, 1, &digit); unit /= 10)
            *ns += digit * unit;
    *seconds += hour * 3600 + minute * 60 + second;
    return (*at)[-1] != '.' && hour < 24 && minute < 60 && second < 60;
}

bool rn_timestamp_parse(const char *text, struct rn_timestamp *timestamp)
{
    const char *at = text;
    int64_t seconds, ns = 0;
    size_t pos = 1, len = strlen(text);
    int sign, hour = 0, minute = 0;

    timestamp->given = true;
    timestamp->relative = text[0] == '+';
    if (timestamp->relative)
        return rn_number_parse_duration(text, len, &pos, &timestamp->ns, NULL) == 0 && pos == len;
    if (!read_date(&at, &seconds))
        return false;
    if ((skip(&at, 'T') || skip(&at, ' ')) && !read_clock(&at, &seconds, &ns))
        return false;
    sign = *at == '-' ? 1 : -1; /* of the offset: Z, +01:00 or -01:00 */
    if (!skip(&at, 'Z') && (skip(&at, '+') || skip(&at, '-')) &&
        (!read_digits(&at, 2, &hour) || !skip(&at, ':') || !read_digits(&at, 2, &minute)))
        return false;
    timestamp->ns = (seconds + sign * (hour * 3600 + minute * 60)) * RN_SECOND_NS + ns;
    return *at == '\0' && hour < 24 && minute < 60;
}
