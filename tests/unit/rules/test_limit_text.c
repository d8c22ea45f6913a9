/* SPDX-License-Identifier: Apache-2.0 */
/* A limit as text: what it means, what is said about mistakes, and that
 * writing is the inverse of reading. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <ration/limit.h>

#include "core/algorithm.h"

#define S INT64_C(1000000000)
#define MINUTE (60 * S)
#define DAY (86400 * S)

#define PERIODS "second, minute, 15 minutes, 30s or 7 days"
#define EXAMPLES "write for example 100 per minute, 20 concurrent or unlimited"

static uint64_t capacity(const struct ration_limit *limit)
{
    return limit->burst ? limit->burst : limit->amount;
}

static bool same(const struct ration_limit *a, const struct ration_limit *b)
{
    return a->algorithm == b->algorithm && a->amount == b->amount && a->period_ns == b->period_ns &&
           capacity(a) == capacity(b) && a->queue == b->queue && a->step_ns == b->step_ns &&
           a->calendar == b->calendar && strcmp(a->zone, b->zone) == 0;
}

static void assert_means(const char *text, struct ration_limit expected)
{
    struct ration_error error = {.text = ""};
    struct ration_limit limit;

    if (ration_limit_parse(text, strlen(text), &limit, &error) != 0)
        fail_msg("%s: %s", text, error.text);
    assert_true(same(&limit, &expected));
    assert_int_equal(limit.sub_windows, 0);
    assert_int_equal(limit.lease_ns, 0);
    assert_false(limit.from_first);
}

/* `^` is not part of the text: it marks where the error is. */
static void assert_fails(int code, const char *marked, const char *message)
{
    struct ration_limit limit = {.amount = 77};
    struct ration_error error;
    char text[200];
    size_t pos = strcspn(marked, "^"), len = strlen(marked) - 1;

    memcpy(text, marked, pos);
    memcpy(text + pos, marked + pos + 1, len - pos);
    assert_int_equal(ration_limit_parse(text, len, &limit, &error), code);
    assert_string_equal(error.text, message);
    assert_int_equal(error.pos, pos);
    assert_int_equal(error.code, code);
    assert_true(limit.amount == 77);
    assert_int_equal(ration_limit_parse(text, len, &limit, NULL), code);
}

static void a_rate_is_a_token_bucket(void **state)
{
    (void)state;
    assert_means("100 per minute", (struct ration_limit){.amount = 100, .period_ns = MINUTE});
    assert_means("5 per 7 days", (struct ration_limit){.amount = 5, .period_ns = 7 * DAY});
    assert_means("1_000 per 30s", (struct ration_limit){.amount = 1000, .period_ns = 30 * S});
    assert_means("100 per minute burst 20",
                 (struct ration_limit){.amount = 100, .period_ns = MINUTE, .burst = 20});
}

static void zero_refuses_everything_and_is_valid(void **state)
{
    (void)state;
    assert_means("0 per minute", (struct ration_limit){.amount = 0, .period_ns = MINUTE});
}

static void a_queue_makes_a_leaky_bucket(void **state)
{
    (void)state;
    assert_means("10 per second queue 50",
                 (struct ration_limit){
                     .algorithm = RATION_LEAKY_BUCKET, .amount = 10, .period_ns = S, .queue = 50});
    assert_means(
        "10 per second queue 0",
        (struct ration_limit){.algorithm = RATION_LEAKY_BUCKET, .amount = 10, .period_ns = S});
}

static void refill_may_come_in_steps(void **state)
{
    struct ration_limit limit = {.amount = 100, .period_ns = MINUTE, .step_ns = 6 * S};

    (void)state;
    assert_means("100 per minute in steps of 6s", limit);
    limit.burst = 20;
    assert_means("100 per minute burst 20 in steps of 6 seconds", limit);
    assert_means("100 per minute in steps of 6s burst 20", limit);
}

static void a_calendar_makes_a_fixed_window(void **state)
{
    struct ration_limit limit = {.algorithm = RATION_FIXED_WINDOW,
                                 .amount = 10000,
                                 .period_ns = 31 * DAY,
                                 .calendar = RATION_CALENDAR_MONTH,
                                 .zone = "Europe/Rome"};

    (void)state;
    assert_means("10000 per calendar month Europe/Rome", limit);
    assert_means(" 10_000 PER\tCalendar  Month\nEurope/Rome ", limit);
    limit.zone[0] = '\0';
    assert_means("10000 per calendar month", limit);
    assert_means("10000 per calendar month UTC", limit);
    limit.calendar = RATION_CALENDAR_DAY, limit.period_ns = DAY;
    assert_means("10000 per calendar day", limit);
    limit.calendar = RATION_CALENDAR_WEEK, limit.period_ns = 7 * DAY;
    assert_means("10000 per calendar week", limit);
    limit.calendar = RATION_CALENDAR_YEAR, limit.period_ns = 366 * DAY;
    strcpy(limit.zone, "Etc/GMT-14");
    assert_means("10000 per calendar year Etc/GMT-14", limit);
}

static void concurrent_and_unlimited_are_parsed(void **state)
{
    (void)state;
    assert_means("20 concurrent",
                 (struct ration_limit){.algorithm = RATION_CONCURRENCY, .amount = 20});
    assert_means("unlimited", (struct ration_limit){.algorithm = RATION_UNLIMITED});
}

static void space_and_letter_case_do_not_matter(void **state)
{
    (void)state;
    assert_means("\t 100   PER\n15 Minutes  Burst\t20 ",
                 (struct ration_limit){.amount = 100, .period_ns = 15 * MINUTE, .burst = 20});
    assert_means("  Unlimited ", (struct ration_limit){.algorithm = RATION_UNLIMITED});
}

static void rates_may_be_written_as_in_other_tools(void **state)
{
    static const char *const texts[] = {"5/min",          "5/m",
                                        "5 / minute",     "5 r/m",
                                        "5r/min",         "5 req/min",
                                        "5 requests/60s", "5 requests per minute",
                                        "5 R/M",          "5 request per minute"};

    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_means(texts[i], (struct ration_limit){.amount = 5, .period_ns = MINUTE});
    assert_means("10 r/s burst 20",
                 (struct ration_limit){.amount = 10, .period_ns = MINUTE / 60, .burst = 20});
    assert_means("1000/calendar day", (struct ration_limit){.algorithm = RATION_FIXED_WINDOW,
                                                            .amount = 1000,
                                                            .period_ns = DAY,
                                                            .calendar = RATION_CALENDAR_DAY});
}

static void an_unknown_period_is_answered_with_examples(void **state)
{
    (void)state;
    assert_fails(RATION_EPARSE, "100 per ^fortnight",
                 "unknown period \"fortnight\"; write a length of time such as " PERIODS);
    assert_fails(RATION_EPARSE, "100 per ^month",
                 "a month has no fixed length; write calendar month, or 30 days");
    assert_fails(RATION_EPARSE, "100 per ^Year",
                 "a year has no fixed length; write calendar year, or 365 days");
    assert_fails(RATION_EPARSE, "100 per 2 ^months",
                 "a month has no fixed length; write a number of days, such as 30 days");
    assert_fails(RATION_EPARSE, "100 per ^",
                 "expected a length of time, found nothing; write " PERIODS);
    assert_fails(RATION_EPARSE, "100 per ^minutes", "how many minutes? write minute or 5 minutes");
}

static void a_missing_word_is_named(void **state)
{
    (void)state;
    assert_fails(RATION_EPARSE, "100 ^minute",
                 "expected \"per\" or \"concurrent\", found \"minute\"; " EXAMPLES);
    assert_fails(RATION_EPARSE, "100^",
                 "expected \"per\" or \"concurrent\", found nothing; " EXAMPLES);
    assert_fails(RATION_EPARSE, "100 ^r minute",
                 "expected \"per\" or \"concurrent\", found \"r\"; " EXAMPLES);
    assert_fails(RATION_EPARSE, "100 /^",
                 "expected a length of time, found nothing; write " PERIODS);
    assert_fails(RATION_EPARSE, "^per minute",
                 "a number is missing before \"per\"; write for example 100 per minute");
    assert_fails(RATION_EPARSE, "^", "an empty limit; " EXAMPLES);
    assert_fails(RATION_EPARSE, "   ^", "an empty limit; " EXAMPLES);
    assert_fails(RATION_EPARSE, "^lots", "expected a number, found \"lots\"; " EXAMPLES);
    assert_fails(RATION_EPARSE, "100 per minute burst ^", "expected a whole number, found nothing");
    assert_fails(RATION_EPARSE, "100 per minute in ^6s",
                 "expected \"in steps of\" and a length of time, found \"6s\"");
}

static void a_misspelled_word_is_guessed(void **state)
{
    (void)state;
    assert_fails(RATION_EPARSE, "100 per minute ^bust 20",
                 "unexpected \"bust\"; did you mean \"burst\"?");
    assert_fails(RATION_EPARSE, "100 per minute ^Bursts 20",
                 "unexpected \"Bursts\"; did you mean \"burst\"?");
    assert_fails(RATION_EPARSE, "100 per minute ^qeueu",
                 "unexpected \"qeueu\"; after the period may follow \"burst\" or \"queue\" and a "
                 "number, or \"in steps of\" and a length of time");
    assert_fails(RATION_EPARSE, "100 per minute ^qeuue 5",
                 "unexpected \"qeuue\"; did you mean \"queue\"?");
    assert_fails(RATION_EPARSE, "100 ^pre minute", "unexpected \"pre\"; did you mean \"per\"?");
    assert_fails(RATION_EPARSE, "20 ^concurent",
                 "unexpected \"concurent\"; did you mean \"concurrent\"?");
    assert_fails(RATION_EPARSE, "^unlimitted",
                 "unexpected \"unlimitted\"; did you mean \"unlimited\"?");
}

static void surplus_text_is_located(void **state)
{
    (void)state;
    assert_fails(RATION_EPARSE, "unlimited ^please",
                 "unexpected \"please\"; nothing may follow here");
    assert_fails(RATION_EPARSE, "20 concurrent ^burst 5",
                 "unexpected \"burst\"; nothing may follow here");
    assert_fails(RATION_EPARSE, "100 per minute burst 20 ^queue 5",
                 "only one \"burst\" or \"queue\" can be given");
    assert_fails(RATION_EPARSE, "100 per minute queue 5 ^burst 20",
                 "only one \"burst\" or \"queue\" can be given");
    assert_fails(RATION_EPARSE, "100 per minute burst 5 ^burst 20",
                 "only one \"burst\" or \"queue\" can be given");
    assert_fails(RATION_EPARSE, "100 per minute in steps of 6s ^in steps of 6s",
                 "\"in steps of\" is given twice");
    assert_fails(RATION_EPARSE, "3 per 1h^30m",
                 "unexpected \"30m\"; after the period may follow \"burst\" or \"queue\" and a "
                 "number, or \"in steps of\" and a length of time");
}

#define CALENDAR_UNITS "write calendar day, week, month or year"
#define NO_OPTIONS                                                                                 \
    "a calendar limit is a fixed window, without burst, queue or steps; leave them out"
#define ZONES "write one such as Europe/Rome, America/New_York or UTC"

static void calendar_mistakes_have_their_own_messages(void **state)
{
    (void)state;
    assert_fails(RATION_EPARSE, "1 per calendar ^fortnight",
                 "expected a unit of the calendar, found \"fortnight\"; " CALENDAR_UNITS);
    assert_fails(RATION_EPARSE, "1 per calendar ^",
                 "expected a unit of the calendar, found nothing; " CALENDAR_UNITS);
    assert_fails(RATION_EPARSE, "1 per calendar ^months",
                 "unexpected \"months\"; did you mean \"month\"?");
    assert_fails(RATION_EPARSE, "1 per ^calender month",
                 "unexpected \"calender\"; did you mean \"calendar\"?");
    assert_fails(RATION_EPARSE, "1 per ^3 calendar months",
                 "units of the calendar are not counted; " CALENDAR_UNITS);
    assert_fails(RATION_EPARSE, "1 per calendar week ^burst 5", NO_OPTIONS);
    assert_fails(RATION_EPARSE, "1 per calendar week  ^queue 5", NO_OPTIONS);
    assert_fails(RATION_EPARSE, "1 per calendar week Asia/Tokyo ^in steps of 1h", NO_OPTIONS);
    assert_fails(RATION_EPARSE, "1 per calendar week Asia/Tokyo ^Europe/Rome",
                 "unexpected \"Europe/Rome\"; nothing may follow here");
    assert_fails(RATION_EPARSE, "1 per calendar month ^../etc/passwd",
                 "\"../etc/passwd\" is not the name of a time zone; " ZONES);
    assert_fails(RATION_EPARSE, "1 per calendar month ^Europe/R\303\263ma",
                 "\"Europe/R\\xc3\\xb3ma\" is not the name of a time zone; " ZONES);
    assert_fails(RATION_EPARSE,
                 "1 per calendar month ^America/Argentina/Someplace/Much_Too_Far_South",
                 "\"America/Argentina/Someplace/Muc...\" is too long for a time zone; " ZONES);
}

static void numbers_must_be_whole_and_in_range(void **state)
{
    (void)state;
    assert_fails(RATION_EPARSE, "^-1 per second",
                 "\"-1\" is negative; to refuse everything write 0 per minute");
    assert_fails(RATION_EPARSE, "^1.5 per second",
                 "\"1.5\" is not a whole number; write digits only, as in 1500 or 1_500");
    assert_fails(RATION_EPARSE, "^99999999999999999999 per second",
                 "\"99999999999999999999\" is too large a number");
    assert_fails(RATION_EPARSE, "1 per ^99999999 weeks", "99999999 weeks is too long a time");
    assert_fails(RATION_EPARSE, "100 per minute burst ^0",
                 "a burst of 0 admits nothing; to refuse everything write 0 per minute");
    assert_fails(RATION_EPARSE, "100 per minute in steps of ^0s",
                 "steps of no length; leave them out to refill continuously");
}

static void a_limit_that_cannot_be_enforced_is_refused(void **state)
{
    struct ration_limit limit = {.amount = 1, .period_ns = S};
    struct ration_error error;

    (void)state;
    assert_fails(RATION_EINVAL, "^1 per 0s",
                 "a period that is not between 1 microsecond and 10 years");
    assert_int_equal(ration_limit_check(&limit, &error), 0);
    limit.period_ns = 0;
    assert_int_equal(ration_limit_check(&limit, &error), RATION_EINVAL);
    assert_string_equal(error.text, "a period that is not between 1 microsecond and 10 years");
    assert_int_equal(ration_limit_check(&limit, NULL), RATION_EINVAL);
}

static void bytes_of_any_kind_are_quoted_safely(void **state)
{
    struct ration_error error;
    struct ration_limit limit;

    (void)state;
    assert_int_equal(ration_limit_parse("5 per \0x", 8, &limit, &error), RATION_EPARSE);
    assert_string_equal(error.text, "expected a length of time, found \"\\x00x\"; write " PERIODS);
    assert_int_equal(ration_limit_parse("5 \033[2J", 6, &limit, &error), RATION_EPARSE);
    assert_null(strchr(error.text, '\033'));
}

static void assert_written(struct ration_limit limit, const char *expected)
{
    char text[128];

    assert_int_equal(ration_limit_write(&limit, text, sizeof text), strlen(expected));
    assert_string_equal(text, expected);
}

static void a_limit_is_written_as_people_would(void **state)
{
    struct ration_limit limit = {.amount = 100, .period_ns = MINUTE};

    (void)state;
    assert_written(limit, "100 per minute");
    limit.burst = 100;
    assert_written(limit, "100 per minute");
    limit.burst = 20;
    assert_written(limit, "100 per minute burst 20");
    limit.step_ns = 6 * S;
    assert_written(limit, "100 per minute burst 20 in steps of 6 seconds");
    assert_written(
        (struct ration_limit){
            .algorithm = RATION_LEAKY_BUCKET, .amount = 10, .period_ns = S, .queue = 50},
        "10 per second queue 50");
    assert_written((struct ration_limit){.algorithm = RATION_SLIDING_WINDOW,
                                         .amount = 5,
                                         .period_ns = 7 * DAY,
                                         .sub_windows = 7},
                   "5 per week");
    assert_written((struct ration_limit){.algorithm = RATION_CONCURRENCY, .amount = 20},
                   "20 concurrent");
    assert_written((struct ration_limit){.algorithm = RATION_UNLIMITED}, "unlimited");
    limit = (struct ration_limit){.algorithm = RATION_FIXED_WINDOW,
                                  .amount = 10000,
                                  .calendar = RATION_CALENDAR_MONTH,
                                  .zone = "UTC"};
    assert_written(limit, "10000 per calendar month");
    strcpy(limit.zone, "Europe/Rome");
    assert_written(limit, "10000 per calendar month Europe/Rome");
}

static void writing_never_overruns_and_tells_the_length(void **state)
{
    struct ration_limit limit = {.amount = 100, .period_ns = MINUTE};
    char text[8];

    (void)state;
    assert_int_equal(ration_limit_write(&limit, text, sizeof text), 14);
    assert_string_equal(text, "100 per");
    assert_int_equal(ration_limit_write(&limit, NULL, 0), 14);
}

static uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Of any size up to 2^bits: the number of digits varies too. */
static uint64_t random_size(uint64_t *seed, unsigned bits)
{
    unsigned shift = 64 - bits + (unsigned)(next_random(seed) % bits);

    return next_random(seed) >> shift;
}

static struct ration_limit random_calendar(uint64_t *seed)
{
    static const char letters[] = "AZaz09_+-/";
    static const int64_t days[] = {1, 7, 31, 366};
    unsigned unit = (unsigned)(next_random(seed) % 4), len = (unsigned)(next_random(seed) % 39);
    struct ration_limit limit = {.algorithm = RATION_FIXED_WINDOW,
                                 .amount = random_size(seed, 50),
                                 .period_ns = days[unit] * DAY,
                                 .calendar = (enum ration_calendar)(1 + unit)};

    for (unsigned i = 0; i < len; i++)
        limit.zone[i] = letters[next_random(seed) % (sizeof letters - 1)];
    return limit;
}

static struct ration_limit random_limit(uint64_t *seed)
{
    static const int64_t units[] = {1, 1000, 1000000, S, MINUTE, 60 * MINUTE, DAY, 7 * DAY};
    struct ration_limit limit = {.algorithm = RATION_TOKEN_BUCKET};

    switch (next_random(seed) % 9) {
    case 8:
        return random_calendar(seed);
    case 0:
        return (struct ration_limit){.algorithm = RATION_UNLIMITED};
    case 1:
        return (struct ration_limit){.algorithm = RATION_CONCURRENCY,
                                     .amount = random_size(seed, 15)};
    case 2:
    case 3:
        limit.algorithm = RATION_LEAKY_BUCKET;
        limit.queue = random_size(seed, 40);
        break;
    case 4:
        limit.burst = random_size(seed, 40);
        break;
    default:
        break;
    }
    limit.period_ns = (int64_t)random_size(seed, 12) * units[next_random(seed) % 8];
    limit.amount = random_size(seed, 50);
    if (limit.algorithm == RATION_TOKEN_BUCKET && next_random(seed) % 3 == 0) {
        limit.step_ns = (int64_t)random_size(seed, 12) * units[next_random(seed) % 8];
        if (limit.step_ns <= INT64_MAX / 16)
            limit.period_ns = limit.step_ns * (int64_t)(1 + next_random(seed) % 16);
        if (limit.step_ns != 0)
            limit.amount = random_size(seed, 20) * (uint64_t)(limit.period_ns / limit.step_ns);
    }
    return limit;
}

static void a_valid_limit_survives_a_round_trip(void **state)
{
    uint64_t seed = 42;
    unsigned valid = 0, stepped = 0, calendars = 0;

    (void)state;
    while (valid < 50000) {
        struct ration_limit back, limit = random_limit(&seed);
        char text[128];
        if (ration_limit_check(&limit, NULL) != 0)
            continue;
        valid++;
        stepped += limit.step_ns != 0;
        calendars += limit.calendar != RATION_CALENDAR_NONE;
        size_t len = ration_limit_write(&limit, text, sizeof text);
        assert_true(len < sizeof text);
        if (ration_limit_parse(text, len, &back, NULL) != 0 || !same(&limit, &back))
            fail_msg("%s does not read back", text);
    }
    assert_true(stepped > 1000);
    assert_true(calendars > 1000);
}

static void algorithms_have_names(void **state)
{
    enum ration_algorithm algorithm;

    (void)state;
    for (const struct rn_algorithm *a = rn_algorithms; a->name; a++) {
        const char *name = ration_algorithm_name(a->algorithm);

        assert_string_equal(name, a->name);
        assert_int_equal(ration_algorithm_parse(name, strlen(name), &algorithm), 0);
        assert_int_equal(algorithm, a->algorithm);
    }
    assert_string_equal(ration_algorithm_name(RATION_SLIDING_LOG), "sliding-log");
    assert_string_equal(ration_algorithm_name((enum ration_algorithm)99), "unknown");
}

static void an_unknown_algorithm_is_refused(void **state)
{
    enum ration_algorithm algorithm = RATION_SLIDING_LOG;

    (void)state;
    assert_int_equal(ration_algorithm_parse("token", 5, &algorithm), RATION_EPARSE);
    assert_int_equal(ration_algorithm_parse("", 0, &algorithm), RATION_EPARSE);
    assert_int_equal((int)algorithm, RATION_SLIDING_LOG);
}

int main(void)
{
    const struct CMUnitTest limit_text[] = {
        cmocka_unit_test(a_rate_is_a_token_bucket),
        cmocka_unit_test(zero_refuses_everything_and_is_valid),
        cmocka_unit_test(a_queue_makes_a_leaky_bucket),
        cmocka_unit_test(refill_may_come_in_steps),
        cmocka_unit_test(a_calendar_makes_a_fixed_window),
        cmocka_unit_test(concurrent_and_unlimited_are_parsed),
        cmocka_unit_test(space_and_letter_case_do_not_matter),
        cmocka_unit_test(rates_may_be_written_as_in_other_tools),
        cmocka_unit_test(an_unknown_period_is_answered_with_examples),
        cmocka_unit_test(a_missing_word_is_named),
        cmocka_unit_test(a_misspelled_word_is_guessed),
        cmocka_unit_test(surplus_text_is_located),
        cmocka_unit_test(calendar_mistakes_have_their_own_messages),
        cmocka_unit_test(numbers_must_be_whole_and_in_range),
        cmocka_unit_test(a_limit_that_cannot_be_enforced_is_refused),
        cmocka_unit_test(bytes_of_any_kind_are_quoted_safely),
        cmocka_unit_test(a_limit_is_written_as_people_would),
        cmocka_unit_test(writing_never_overruns_and_tells_the_length),
        cmocka_unit_test(a_valid_limit_survives_a_round_trip),
        cmocka_unit_test(algorithms_have_names),
        cmocka_unit_test(an_unknown_algorithm_is_refused),
    };

    return cmocka_run_group_tests(limit_text, NULL, NULL);
}
