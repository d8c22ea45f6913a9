/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How long to pause, as people and Retry-After headers have it.
 */
#include <ration/pause.h>

#include <string.h>

#include "base/civil.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/number.h"
#include "base/slice.h"
#include "rules/report/report.h"

#define FORMS                                                                                      \
    "whole seconds, a length of time such as 30s or 500ms, or a date such as "                     \
    "Wed, 18 Nov 2026 08:30:00 GMT"

/* Two digits, or four. -1: something else. */
static int read_digits(const char *at, unsigned count)
{
    int n = 0;

    for (unsigned i = 0; i < count; i++) {
        if (at[i] < '0' || at[i] > '9')
            return -1;
        n = 10 * n + (at[i] - '0');
    }
    return n;
}

/* The number of a name of three letters; -1: there is none. */
static int read_name(const char *at, const char *names)
{
    for (int i = 0; names[3 * i] != '\0'; i++)
        if (memcmp(at, names + 3 * i, 3) == 0)
            return i;
    return -1;
}

/* The preferred form of RFC 9110: "Wed, 18 Nov 2026 08:30:00 GMT", as seconds since 1970. */
static bool read_date(struct rn_slice text, int64_t *seconds)
{
    const char *t = text.data;

    if (text.len != 29 || t[3] != ',' || t[4] != ' ' || t[7] != ' ' || t[11] != ' ' ||
        t[16] != ' ' || t[19] != ':' || t[22] != ':' || memcmp(t + 25, " GMT", 4) != 0)
        return false;
    int weekday = read_name(t, "SunMonTueWedThuFriSat"), day = read_digits(t + 5, 2);
    int month = read_name(t + 8, "JanFebMarAprMayJunJulAugSepOctNovDec");
    int year = read_digits(t + 12, 4), hour = read_digits(t + 17, 2);
    int minute = read_digits(t + 20, 2), second = read_digits(t + 23, 2);

    if (weekday < 0 || month < 0 || year < 0 || day < 1 || hour < 0 || hour > 23 || minute < 0 ||
        minute > 59 || second < 0 || second > 60)
        return false;
    int64_t days = rn_civil_days((struct rn_civil){year, month + 1, day});

    *seconds = days * RN_DAY_S + hour * 3600 + minute * 60 + second;
    return rn_civil_of_days(days).day == day; /* there is such a day */
}

/* White space around a header value is not part of it. */
static struct rn_slice trim(struct rn_slice text)
{
    while (text.len != 0 && (text.data[0] == ' ' || text.data[0] == '\t'))
        text = (struct rn_slice){text.data + 1, text.len - 1};
    while (text.len != 0 && (text.data[text.len - 1] == ' ' || text.data[text.len - 1] == '\t'))
        text.len--;
    return text;
}

/* Saturates far above the longest pause. */
static bool read_seconds(struct rn_slice text, int64_t *ns)
{
    int64_t seconds = 0;

    for (size_t i = 0; i < text.len; i++) {
        if (text.data[i] < '0' || text.data[i] > '9')
            return false;
        seconds = seconds < RN_DAY_S * 366 ? 10 * seconds + (text.data[i] - '0') : seconds;
    }
    *ns = seconds * RN_SECOND_NS;
    return text.len != 0;
}

int ration_pause_length(const char *data, size_t len, int64_t wall_ns, int64_t *for_ns,
                        struct ration_error *error)
{
    struct rn_slice text = trim((struct rn_slice){data, len});
    size_t pos = 0;
    int64_t ns = 0, seconds;
    bool header = true; /* one of the two forms of Retry-After */

    if (read_date(text, &seconds)) {
        wall_ns = wall_ns == RATION_NOW ? rn_clock_wall_ns() : wall_ns;
        int64_t now_s = wall_ns / RN_SECOND_NS;

        if (seconds - now_s > 2 * RN_DAY_S) /* a date of the year 9999 does not fit nanoseconds */
            ns = INT64_MAX;
        else if (seconds >= now_s)
            ns = seconds * RN_SECOND_NS - wall_ns;
        ns = ns > 0 ? ns : 0;
    } else if (!read_seconds(text, &ns)) {
        header = false;
        if (rn_number_parse_duration(text.data, text.len, &pos, &ns, NULL) != 0 || pos != text.len)
            return rn_error_set(error, RATION_EPARSE, 0, "%s is not a length; write " FORMS,
                                rn_excerpt(text).text);
    }
    /* A service that wants to be left alone for a week must not be called at once for that. */
    if (ns > RATION_PAUSE_MAX_NS && header)
        ns = RATION_PAUSE_MAX_NS;
    if (ns > RATION_PAUSE_MAX_NS)
        return rn_error_set(error, RATION_EPARSE, 0, "%s is longer than 24 hours; a pause is not",
                            rn_excerpt(text).text);
    *for_ns = ns;
    return 0;
}
