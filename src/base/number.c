/* SPDX-License-Identifier: Apache-2.0 */
/* Parsing integers, and parsing and formatting durations. */
#include "base/number.h"

#include <assert.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/error.h"

#define EXAMPLES "second, minute, 15 minutes, 30s or 7 days"

struct unit {
    const char *name;      /* singular; the plural adds an s */
    const char *short_[3]; /* may follow a number or stand alone */
    int64_t ns;            /* 0: no fixed length */
    const char *instead;   /* what to write then */
};

/* Longest first: rn_number_write_duration uses the first that divides. */
static const struct unit units[] = {
    {"year", {"y", "yr", "yrs"}, 0, "365 days"},
    {"month", {"mo", "mon", "mth"}, 0, "30 days"},
    {"week", {"w", "wk", "wks"}, INT64_C(604800000000000), NULL},
    {"day", {"d"}, INT64_C(86400000000000), NULL},
    {"hour", {"h", "hr", "hrs"}, INT64_C(3600000000000), NULL},
    {"minute", {"m", "min", "mins"}, INT64_C(60000000000), NULL},
    {"second", {"s", "sec", "secs"}, INT64_C(1000000000), NULL},
    {"millisecond", {"ms", "msec"}, INT64_C(1000000), NULL},
    {"microsecond", {"us", "usec"}, INT64_C(1000), NULL},
    {"nanosecond", {"ns", "nsec"}, INT64_C(1), NULL},
};
#define UNITS (sizeof units / sizeof units[0])

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

int rn_number_parse(const char *text, size_t len, size_t *pos, uint64_t *value,
                    struct ration_error *error)
{
    uint64_t sum = 0;
    size_t at = *pos;

    if (at >= len || !is_digit(text[at]))
        return rn_error_set(error, RATION_EPARSE, at, "expected a whole number, found %s",
                            rn_error_quote(text, len, at).text);
    for (; at < len; at++) {
        if (text[at] == '_' && text[at - 1] != '_' && at + 1 < len && is_digit(text[at + 1]))
            continue;
        if (!is_digit(text[at]))
            break;
        if (__builtin_mul_overflow(sum, 10, &sum) ||
            __builtin_add_overflow(sum, (uint64_t)(text[at] - '0'), &sum))
            return rn_error_set(error, RATION_EPARSE, *pos, "%s is too large a number",
                                rn_error_quote(text, len, *pos).text);
    }
    if (at + 1 < len && (text[at] == '.' || text[at] == ',') && is_digit(text[at + 1]))
        return rn_error_set(error, RATION_EPARSE, *pos,
                            "%s is not a whole number; write digits only, as in 1500 or 1_500",
                            rn_error_quote(text, len, *pos).text);
    *value = sum;
    *pos = at;
    return 0;
}

static bool word_is(const char *word, size_t len, const char *name)
{
    return name != NULL && strlen(name) == len && strncasecmp(word, name, len) == 0;
}

/* NULL: unknown. `plural`: the word needs a number before it. */
static const struct unit *find_unit(const char *word, size_t len, bool *plural)
{
    for (size_t i = 0; i < UNITS; i++) {
        size_t name_len = strlen(units[i].name);
        *plural = len == name_len + 1 && (word[name_len] | 0x20) == 's';
        if (word_is(word, *plural ? name_len : len, units[i].name))
            return &units[i];
        *plural = false;
        for (size_t j = 0; j < 3; j++)
            if (word_is(word, len, units[i].short_[j]))
                return &units[i];
    }
    return NULL;
}

/* The unit at text[*pos]. `counted`: there is a number before it. */
static int parse_unit(const char *text, size_t len, size_t *pos, bool counted,
                      const struct unit **unit, struct ration_error *error)
{
    size_t at = *pos;
    bool plural;

    while (at < len && (text[at] | 0x20) >= 'a' && (text[at] | 0x20) <= 'z')
        at++;
    *unit = find_unit(text + *pos, at - *pos, &plural);
    if (at == *pos)
        return rn_error_set(error, RATION_EPARSE, at, "expected %s, found %s; write " EXAMPLES,
                            counted ? "a unit of time" : "a length of time",
                            rn_error_quote(text, len, at).text);
    if (*unit == NULL)
        return rn_error_set(error, RATION_EPARSE, *pos,
                            "unknown period %s; write a length of time such as " EXAMPLES,
                            rn_error_quote(text, len, *pos).text);
    if ((*unit)->ns == 0)
        return rn_error_set(error, RATION_EPARSE, *pos,
                            "a %s has no fixed length; write a number of days, such as %s",
                            (*unit)->name, (*unit)->instead);
    if (plural && !counted)
        return rn_error_set(error, RATION_EPARSE, *pos, "how many %ss? write %s or 5 %ss",
                            (*unit)->name, (*unit)->name, (*unit)->name);
    *pos = at;
    return 0;
}

int rn_number_parse_duration(const char *text, size_t len, size_t *pos, int64_t *ns,
                             struct ration_error *error)
{
    const struct unit *unit;
    uint64_t count = 1;
    size_t at = *pos;
    bool counted = at < len && is_digit(text[at]);
    int64_t product;

    if (counted) {
        int failed = rn_number_parse(text, len, &at, &count, error);
        if (failed)
            return failed;
        while (at < len && (text[at] == ' ' || text[at] == '\t'))
            at++;
    }
    int failed = parse_unit(text, len, &at, counted, &unit, error);
    if (failed)
        return failed;
    if (__builtin_mul_overflow(count, unit->ns, &product))
        return rn_error_set(error, RATION_EPARSE, *pos, "%" PRIu64 " %ss is too long a time", count,
                            unit->name);
    *ns = product;
    *pos = at;
    return 0;
}

size_t rn_number_write_duration(int64_t ns, char *out, size_t size)
{
    const struct unit *unit = units;

    assert(ns >= 0);
    if (ns == 0)
        return (size_t)snprintf(out, size, "0 seconds");
    while (unit->ns == 0 || ns % unit->ns != 0)
        unit++;
    if (ns == unit->ns)
        return (size_t)snprintf(out, size, "%s", unit->name);
    return (size_t)snprintf(out, size, "%" PRId64 " %ss", ns / unit->ns, unit->name);
}

bool rn_number_parse_size(const char *text, uint64_t *bytes)
{
    static const char letters[] = "kmgt";
    size_t pos = 0;
    const char *rest, *unit;
    uint64_t n;

    if (rn_number_parse(text, strlen(text), &pos, &n, NULL) != 0)
        return false;
    rest = text + pos + (text[pos] == ' ');
    unit = *rest ? strchr(letters, *rest | 0x20) : NULL;
    if (*rest && !unit)
        return false;
    if (unit) {
        unsigned shift = 10 * (unsigned)(unit - letters + 1);

        if (n > UINT64_MAX >> shift)
            return false;
        n <<= shift;
        rest++;
    }
    *bytes = n;
    return *rest == '\0' || strcmp(rest, "B") == 0 || strcmp(rest, "iB") == 0;
}
