/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/logs/moment.h"

#include "base/civil.h"

#define SECOND INT64_C(1000000000)

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Exactly `count` digits; -1: they are not there. */
static int read_digits(const char *at, const char *end, int count)
{
    int number = 0;

    if (end - at < count)
        return -1;
    for (int i = 0; i < count; i++) {
        if (!is_digit(at[i]))
            return -1;
        number = number * 10 + (at[i] - '0');
    }
    return number;
}

/* Jan to Dec as 1 to 12; 0: none. */
static int read_month(const char *at)
{
    static const char names[] = "JanFebMarAprMayJunJulAugSepOctNovDec";

    for (int i = 0; i < 12; i++)
        if (memcmp(at, names + 3 * i, 3) == 0)
            return i + 1;
    return 0;
}

/* hh:mm:ss, a fraction, and an offset or Z. */
static bool read_clock(const char *at, const char *end, int64_t *ns, enum rn_moment_grain *grain)
{
    int hour = read_digits(at, end, 2), minute, second, sign, offset_hour, offset_minute;
    int64_t unit = SECOND, fraction = 0;

    if (hour < 0 || hour > 23 || end - at < 8 || at[2] != ':' || at[5] != ':')
        return false;
    minute = read_digits(at + 3, end, 2);
    second = read_digits(at + 6, end, 2);
    if (minute < 0 || minute > 59 || second < 0 || second > 60)
        return false;
    *ns = ((hour * 60 + minute) * 60 + second) * SECOND;
    *grain = RN_MOMENT_SECONDS;
    at += 8;
    if (at < end && (*at == '.' || *at == ',')) {
        const char *first = ++at;

        for (; at < end && is_digit(*at); at++)
            if (unit > 1)
                fraction += (*at - '0') * (unit /= 10);
        if (at == first)
            return false;
        *grain = at - first > 3 ? RN_MOMENT_FINER : RN_MOMENT_MILLISECONDS;
    }
    *ns += fraction;
    at += at < end && *at == ' ';
    if (at == end || (*at == 'Z' && at + 1 == end))
        return true;
    sign = *at == '-' ? 1 : -1;
    offset_hour = read_digits(at + 1, end, 2);
    if ((*at != '+' && *at != '-') || offset_hour < 0 || offset_hour > 23)
        return false;
    at += 3;
    at += at < end && *at == ':';
    offset_minute = at == end ? 0 : read_digits(at, end, 2);
    *ns += sign * (offset_hour * 60 + offset_minute) * 60 * SECOND;
    return offset_minute >= 0 && offset_minute < 60 && (at == end || at + 2 == end);
}

/* The date, and where the time of day begins. NULL: no date. */
static const char *read_date(const char *at, const char *end, int64_t *ns)
{
    struct rn_civil date;
    int year;

    if (end - at < 19)
        return NULL;
    if (at[2] == '/' && at[6] == '/' && at[11] == ':') { /* 19/Nov/2026: */
        year = read_digits(at + 7, end, 4);
        date.month = read_month(at + 3);
        date.day = read_digits(at, end, 2);
        at += 12;
    } else { /* 2026-11-19T */
        year = read_digits(at, end, 4);
        date.month = read_digits(at + 5, end, 2);
        date.day = read_digits(at + 8, end, 2);
        if ((at[4] != '-' && at[4] != '/') || at[7] != at[4] || (at[10] != 'T' && at[10] != ' '))
            return NULL;
        at += 11;
    }
    date.year = year;
    if (year < 1971 || year > 2200 || date.month < 1 || date.month > 12 || date.day < 1 ||
        date.day > 31)
        return NULL;
    *ns = rn_civil_days(date) * RN_DAY_S * SECOND;
    return at;
}

bool rn_moment_parse_length(struct rn_slice text, int64_t unit_ns, int64_t *ns)
{
    const int64_t most = INT64_MAX / 2;
    int64_t whole = 0, part = 0, scale = unit_ns;
    size_t i = 0;

    for (; i < text.len && is_digit(text.data[i]); i++) {
        if (whole > (most / unit_ns - 9) / 10)
            return false;
        whole = whole * 10 + (text.data[i] - '0');
    }
    if (i == 0)
        return false;
    if (i < text.len && text.data[i] == '.')
        for (i++; i < text.len && is_digit(text.data[i]); i++) {
            part += scale / 10 * (text.data[i] - '0');
            scale /= 10;
        }
    *ns = whole * unit_ns + part;
    return i == text.len;
}

/* Since 1970. How many digits there are tells the unit, for all times from 1971 to 2200. */
static bool read_number(struct rn_slice text, int64_t *ns, enum rn_moment_grain *grain)
{
    size_t digits = 0;
    int64_t unit = SECOND;

    while (digits < text.len && is_digit(text.data[digits]))
        digits++;
    *grain = digits == text.len ? RN_MOMENT_SECONDS : RN_MOMENT_MILLISECONDS;
    if (digits > 11) {
        unit = digits <= 13 ? 1000000 : digits <= 16 ? 1000 : 1;
        *grain = digits <= 13 ? RN_MOMENT_MILLISECONDS : RN_MOMENT_FINER;
    } else if (text.len > digits + 4) {
        *grain = RN_MOMENT_FINER;
    }
    return rn_moment_parse_length(text, unit, ns) && *ns >= 365 * RN_DAY_S * SECOND &&
           *ns < 84000 * RN_DAY_S * SECOND;
}

bool rn_moment_parse(struct rn_moment_memory *memory, struct rn_slice text, int64_t *ns,
                     enum rn_moment_grain *grain)
{
    const char *end, *clock;
    int64_t clock_ns;

    if (text.len == memory->len && rn_slice_repeats(text.data, memory->text, text.len)) {
        *ns = memory->ns;
        *grain = memory->grain;
        return text.len != 0;
    }
    struct rn_slice inner = text;

    if (inner.len >= 2 && inner.data[0] == '[' && inner.data[inner.len - 1] == ']')
        inner = (struct rn_slice){inner.data + 1, inner.len - 2};
    end = inner.data + inner.len;
    clock = read_date(inner.data, end, ns);
    if (clock == NULL) {
        if (!read_number(inner, ns, grain))
            return false;
    } else {
        if (!read_clock(clock, end, &clock_ns, grain))
            return false;
        *ns += clock_ns;
    }
    if (text.len <= sizeof memory->text) {
        memcpy(memory->text, text.data, text.len);
        memory->len = (uint8_t)text.len;
        memory->ns = *ns;
        memory->grain = *grain;
    }
    return true;
}
