/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One limit as text, both ways, and the names of the algorithms.
 *
 *   limit  = "unlimited" | number ["to" number] "concurrent" | number per duration option*
 *          | number per "calendar" unit [zone]
 *   per    = [noun] ("per" | "/")      as in 5/min, 10 r/s, 100 requests per minute
 *   noun   = "r" | "req" | "request" | "requests"
 *   option = "burst" number | "queue" number | "in steps of" duration
 *   unit   = "day" | "week" | "month" | "year"
 *
 * Numbers and durations are read by base/number.c. Whether a limit can be
 * enforced is for core/limit.c to say.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <ration/limit.h>

#include "base/error.h"
#include "base/number.h"
#include "core/algorithm.h"
#include "core/limit.h"

#define EXAMPLES "write for example 100 per minute, 20 concurrent or unlimited"

struct reader {
    const char *text;
    size_t len, pos;
    struct ration_error *error;
};

#define FAIL(r, ...) rn_error_set((r)->error, RATION_EPARSE, (r)->pos, __VA_ARGS__)

static void skip_space(struct reader *r)
{
    while (r->pos < r->len &&
           (r->text[r->pos] == ' ' || (r->text[r->pos] >= '\t' && r->text[r->pos] <= '\r')))
        r->pos++;
}

/* How many letters there are at the position. */
static size_t word_len(const struct reader *r)
{
    size_t at = r->pos;

    while (at < r->len && (r->text[at] | 0x20) >= 'a' && (r->text[at] | 0x20) <= 'z')
        at++;
    return at - r->pos;
}

/* Skips white space, and the keyword if it is next. */
static bool accept_word(struct reader *r, const char *keyword)
{
    skip_space(r);
    size_t len = word_len(r);
    if (len != strlen(keyword) || strncasecmp(r->text + r->pos, keyword, len) != 0)
        return false;
    r->pos += len;
    return true;
}

static struct rn_quote found(const struct reader *r)
{
    return rn_error_quote(r->text, r->len, r->pos);
}

static int read_number(struct reader *r, uint64_t *value)
{
    skip_space(r);
    return rn_number_parse(r->text, r->len, &r->pos, value, r->error);
}

static int read_duration(struct reader *r, int64_t *ns)
{
    skip_space(r);
    return rn_number_parse_duration(r->text, r->len, &r->pos, ns, r->error);
}

/* The keyword of a NULL-terminated list that was probably meant: one letter is wrong, missing or
 * too many, or two neighbours are swapped. What the word and the keyword have in common at either
 * end is set aside; the rest decides. NULL: none. */
static const char *guess_word(const struct reader *r, const char *const *keywords)
{
    size_t word_size = word_len(r);

    for (; word_size >= 2 && *keywords != NULL; keywords++) {
        const char *word = r->text + r->pos, *keyword = *keywords;
        size_t len = word_size, want = strlen(keyword);

        for (; len > 0 && want > 0 && (*word | 0x20) == *keyword; len--, want--) {
            word++;
            keyword++;
        }
        for (; len > 0 && want > 0 && (word[len - 1] | 0x20) == keyword[want - 1]; len--)
            want--;
        if ((len <= 1 && want <= 1) || (len == 2 && want == 2 && (word[0] | 0x20) == keyword[1] &&
                                        (word[1] | 0x20) == keyword[0]))
            return *keywords;
    }
    return NULL;
}

/* After "burst" or "queue"; nginx has burst=20. */
static int read_option(struct reader *r, const char *option, uint64_t *value)
{
    skip_space(r);
    if (r->pos < r->len && (r->text[r->pos] == '=' || r->text[r->pos] == ':'))
        return FAIL(r, "unexpected \"%c\"; write a space instead, as in %s 20", r->text[r->pos],
                    option);
    return read_number(r, value);
}

static int read_burst(struct reader *r, struct ration_limit *limit)
{
    uint64_t burst;

    skip_space(r);
    size_t at = r->pos;
    int failed = read_option(r, "burst", &burst);
    if (failed)
        return failed;
    if (burst == 0) {
        r->pos = at;
        return FAIL(r, "a burst of 0 admits nothing; to refuse everything write 0 per minute");
    }
    limit->burst = burst;
    return 0;
}

static int fail_at_option(const struct reader *r)
{
    static const char *const keywords[] = {"burst", "queue", "in", NULL};
    const char *meant = guess_word(r, keywords);

    if (meant != NULL)
        return FAIL(r, "unexpected %s; did you mean \"%s\"?", found(r).text, meant);
    if (r->text[r->pos] == ',')
        return FAIL(r, "a comma after a limit; several limits are a list in rules, as in [100 per "
                       "minute, 1000 per hour]");
    return FAIL(r,
                "unexpected %s; after the period may follow \"burst\" or \"queue\" and a number, "
                "or \"in steps of\" and a length of time",
                found(r).text);
}

/* Reads the options after the period, each at most once. */
static int read_options(struct reader *r, struct ration_limit *limit)
{
    int failed = 0;

    for (skip_space(r); !failed && r->pos < r->len; skip_space(r)) {
        bool sized = limit->burst != 0 || limit->algorithm == RATION_LEAKY_BUCKET;
        struct reader start = *r, at;

        if (accept_word(r, "burst")) {
            failed = sized ? FAIL(&start, "only one \"burst\" or \"queue\" can be given")
                           : read_burst(r, limit);
        } else if (accept_word(r, "queue")) {
            limit->algorithm = RATION_LEAKY_BUCKET;
            failed = sized ? FAIL(&start, "only one \"burst\" or \"queue\" can be given")
                           : read_option(r, "queue", &limit->queue);
        } else if (accept_word(r, "in")) {
            if (limit->step_ns != 0)
                return FAIL(&start, "\"in steps of\" is given twice");
            if (!accept_word(r, "steps") || !accept_word(r, "of"))
                return FAIL(r, "expected \"in steps of\" and a length of time, found %s",
                            found(r).text);
            skip_space(r);
            at = *r;
            failed = read_duration(r, &limit->step_ns);
            if (!failed && limit->step_ns == 0)
                failed = FAIL(&at, "steps of no length; leave them out to refill continuously");
        } else {
            failed = fail_at_option(r);
        }
    }
    return failed;
}

static int read_end(struct reader *r)
{
    skip_space(r);
    return r->pos == r->len ? 0 : FAIL(r, "unexpected %s; nothing may follow here", found(r).text);
}

static const char *const calendar_units[] = {
    [RATION_CALENDAR_NONE] = "",     [RATION_CALENDAR_DAY] = "day",
    [RATION_CALENDAR_WEEK] = "week", [RATION_CALENDAR_MONTH] = "month",
    [RATION_CALENDAR_YEAR] = "year", NULL,
};

#define CALENDAR_UNITS "write calendar day, week, month or year"
#define ZONES "write one such as Europe/Rome, America/New_York or UTC"

/* Options of other limits are errors here. */
static int refuse_options(struct reader *r)
{
    struct reader start = *r;

    skip_space(&start);
    if (accept_word(r, "burst") || accept_word(r, "queue") || accept_word(r, "in"))
        return FAIL(&start, "a calendar limit is a fixed window, without burst, queue or steps; "
                            "leave them out");
    return 0;
}

/* After "calendar": a unit, and perhaps a time zone. */
static int read_calendar(struct reader *r, struct ration_limit *limit)
{
    int unit = RATION_CALENDAR_DAY, failed;
    size_t len = 0;

    while (unit <= RATION_CALENDAR_YEAR && !accept_word(r, calendar_units[unit]))
        unit++;
    if (unit > RATION_CALENDAR_YEAR) {
        const char *meant = guess_word(r, calendar_units + RATION_CALENDAR_DAY);

        return meant != NULL ? FAIL(r, "unexpected %s; did you mean \"%s\"?", found(r).text, meant)
                             : FAIL(r, "expected a unit of the calendar, found %s; " CALENDAR_UNITS,
                                    found(r).text);
    }
    limit->algorithm = RATION_FIXED_WINDOW;
    limit->calendar = (enum ration_calendar)unit;
    limit->period_ns = rn_limit_period(limit);
    if ((failed = refuse_options(r)) != 0)
        return failed;
    skip_space(r);
    const char *name = r->text + r->pos;
    while (r->pos + len < r->len && name[len] != ' ' && (name[len] < '\t' || name[len] > '\r')) {
        char c = name[len++];
        bool is_letter = (c | 0x20) >= 'a' && (c | 0x20) <= 'z';

        if (!is_letter && (c < '0' || c > '9') && (c == '\0' || strchr("_+-/", c) == NULL))
            return FAIL(r, "%s is not the name of a time zone; " ZONES, found(r).text);
    }
    if (len >= RATION_ZONE_TEXT)
        return FAIL(r, "%s is too long for a time zone; " ZONES, found(r).text);
    r->pos += len;
    if (len != 3 || memcmp(name, "UTC", 3) != 0) /* without a zone, it is UTC */
        memcpy(limit->zone, name, len);
    return (failed = refuse_options(r)) != 0 ? failed : read_end(r);
}

/* After "per". */
static int read_period(struct reader *r, struct ration_limit *limit)
{
    static const char *const keywords[] = {"calendar", NULL};
    uint64_t number;

    skip_space(r);
    struct reader start = *r;
    if (accept_word(r, "calendar"))
        return read_calendar(r, limit);
    if (guess_word(r, keywords) != NULL)
        return FAIL(r, "unexpected %s; did you mean \"calendar\"?", found(r).text);
    if (accept_word(r, "month"))
        return FAIL(&start, "a month has no fixed length; write calendar month, or 30 days");
    if (accept_word(r, "year"))
        return FAIL(&start, "a year has no fixed length; write calendar year, or 365 days");
    if (rn_number_parse(r->text, r->len, &r->pos, &number, NULL) == 0 && accept_word(r, "calendar"))
        return FAIL(&start, "units of the calendar are not counted; " CALENDAR_UNITS);
    *r = start;
    int failed = read_duration(r, &limit->period_ns);
    return failed ? failed : read_options(r, limit);
}

static int read_amount(struct reader *r, uint64_t *amount)
{
    struct reader start = *r;

    if (r->pos == r->len)
        return FAIL(r, "an empty limit; " EXAMPLES);
    if (r->text[r->pos] == '-')
        return FAIL(r, "%s is negative; to refuse everything write 0 per minute", found(r).text);
    if (accept_word(r, "per"))
        return FAIL(&start, "a number is missing before \"per\"; write for example 100 per minute");
    if (r->text[r->pos] < '0' || r->text[r->pos] > '9') {
        static const char *const keywords[] = {"unlimited", NULL};
        if (guess_word(r, keywords) != NULL)
            return FAIL(r, "unexpected %s; did you mean \"unlimited\"?", found(r).text);
        return FAIL(r, "expected a number, found %s; " EXAMPLES, found(r).text);
    }
    return read_number(r, amount);
}

static int read_limit(struct reader *r, struct ration_limit *limit)
{
    static const char *const keywords[] = {"per", "concurrent", NULL};
    int failed;

    if (accept_word(r, "unlimited")) {
        limit->algorithm = RATION_UNLIMITED;
        return read_end(r);
    }
    failed = read_amount(r, &limit->amount);
    if (failed)
        return failed;
    struct reader to = *r;
    bool adaptive = accept_word(r, "to");

    if (adaptive) {
        uint64_t least = limit->amount;

        limit->adaptive_min = (uint16_t)(least < UINT16_MAX ? least : UINT16_MAX);
        if (least == 0)
            return FAIL(&to, "a range of places that begins at 0; write at least 1");
        failed = read_number(r, &limit->amount);
        if (failed)
            return failed;
    }
    if (accept_word(r, "concurrent")) {
        limit->algorithm = RATION_CONCURRENCY;
        return read_end(r);
    }
    if (adaptive)
        return FAIL(r, "expected \"concurrent\", found %s; write for example 5 to 500 concurrent",
                    found(r).text);
    struct reader start = *r; /* 5/min, 10 r/s, 100 requests per minute */

    (void)(accept_word(r, "r") || accept_word(r, "req") || accept_word(r, "request") ||
           accept_word(r, "requests"));
    bool per = accept_word(r, "per");

    skip_space(r);
    if (per)
        return read_period(r, limit);
    if (r->pos != r->len && r->text[r->pos] == '/') {
        r->pos++;
        return read_period(r, limit);
    }
    *r = start;
    const char *meant = guess_word(r, keywords);
    if (meant != NULL)
        return FAIL(r, "unexpected %s; did you mean \"%s\"?", found(r).text, meant);
    return FAIL(r, "expected \"per\" or \"concurrent\", found %s; " EXAMPLES, found(r).text);
}

int ration_limit_parse(const char *text, size_t len, struct ration_limit *limit,
                       struct ration_error *error)
{
    struct reader r = {.text = text, .len = len, .error = error};
    struct ration_limit read = {.algorithm = RATION_TOKEN_BUCKET};

    int failed = read_limit(&r, &read);
    if (!failed)
        failed = ration_limit_check(&read, error);
    if (!failed)
        *limit = read;
    return failed;
}

int ration_limit_check(const struct ration_limit *limit, struct ration_error *error)
{
    const char *fault = rn_limit_fault(limit);

    return fault == NULL ? 0 : rn_error_set(error, RATION_EINVAL, 0, "%s", fault);
}

size_t ration_limit_write(const struct ration_limit *limit, char *out, size_t size)
{
    char period[RN_DURATION_TEXT], step[RN_DURATION_TEXT], extra[64] = "", steps[64] = "";

    if (limit->algorithm == RATION_UNLIMITED)
        return (size_t)snprintf(out, size, "unlimited");
    if (limit->algorithm == RATION_CONCURRENCY && limit->adaptive_min != 0)
        return (size_t)snprintf(out, size, "%u to %" PRIu64 " concurrent",
                                (unsigned)limit->adaptive_min, limit->amount);
    if (limit->algorithm == RATION_CONCURRENCY)
        return (size_t)snprintf(out, size, "%" PRIu64 " concurrent", limit->amount);
    if (limit->calendar >= RATION_CALENDAR_DAY && limit->calendar <= RATION_CALENDAR_YEAR) {
        bool is_utc = limit->zone[0] == '\0' || strncmp(limit->zone, "UTC", sizeof "UTC") == 0;

        return (size_t)snprintf(out, size, "%" PRIu64 " per calendar %s%s%.*s", limit->amount,
                                calendar_units[limit->calendar], is_utc ? "" : " ",
                                is_utc ? 0 : RATION_ZONE_TEXT - 1, limit->zone);
    }
    rn_number_write_duration(limit->period_ns, period, sizeof period);
    if (limit->algorithm == RATION_LEAKY_BUCKET)
        snprintf(extra, sizeof extra, " queue %" PRIu64, limit->queue);
    else if (limit->burst != 0 && limit->burst != limit->amount)
        snprintf(extra, sizeof extra, " burst %" PRIu64, limit->burst);
    if (limit->step_ns != 0) {
        rn_number_write_duration(limit->step_ns, step, sizeof step);
        snprintf(steps, sizeof steps, " in steps of %s", step);
    }
    return (size_t)snprintf(out, size, "%" PRIu64 " per %s%s%s", limit->amount, period, extra,
                            steps);
}

const char *ration_algorithm_name(enum ration_algorithm algorithm)
{
    const struct rn_algorithm *found = rn_algorithm_find((uint64_t)algorithm);

    if (algorithm == RATION_OWN_ALGORITHM)
        return "own";
    return found ? found->name : "unknown";
}

int ration_algorithm_parse(const char *text, size_t len, enum ration_algorithm *algorithm)
{
    for (const struct rn_algorithm *a = rn_algorithms; a->name; a++) {
        if (strlen(a->name) == len && strncasecmp(text, a->name, len) == 0) {
            *algorithm = a->algorithm;
            return 0;
        }
    }
    return RATION_EPARSE;
}
