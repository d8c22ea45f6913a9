/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers and durations: reading, writing, and error messages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/number.h"

#define MS INT64_C(1000000)
#define S (1000 * MS)
#define MINUTE (60 * S)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)

static void assert_number(const char *text, uint64_t expected, size_t expected_pos)
{
    uint64_t value = 0;
    size_t pos = 0;

    assert_int_equal(rn_number_parse(text, strlen(text), &pos, &value, NULL), 0);
    assert_true(value == expected);
    assert_int_equal(pos, expected_pos);
}

static void assert_no_number(const char *text, const char *message)
{
    struct ration_error error;
    uint64_t value = 77;
    size_t pos = 0;

    assert_int_equal(rn_number_parse(text, strlen(text), &pos, &value, &error), RATION_EPARSE);
    assert_string_equal(error.text, message);
    assert_int_equal(error.pos, 0);
    assert_int_equal(pos, 0);
    assert_true(value == 77);
}

static void whole_numbers_are_read_up_to_the_last_digit(void **state)
{
    (void)state;
    assert_number("0", 0, 1);
    assert_number("100 per", 100, 3);
    assert_number("007", 7, 3);
    assert_number("30s", 30, 2);
    assert_number("5.", 5, 1);
    assert_number("18446744073709551615", UINT64_MAX, 20);
}

static void underscores_group_digits(void **state)
{
    (void)state;
    assert_number("1_000_000", 1000000, 9);
    assert_number("1_", 1, 1);
    assert_number("1__0", 1, 1);
}

static void a_text_that_is_no_whole_number_is_explained(void **state)
{
    (void)state;
    assert_no_number("", "expected a whole number, found nothing");
    assert_no_number("many", "expected a whole number, found \"many\"");
    assert_no_number("_1", "expected a whole number, found \"_1\"");
    assert_no_number("1.5 x",
                     "\"1.5\" is not a whole number; write digits only, as in 1500 or 1_500");
    assert_no_number("1,500",
                     "\"1,500\" is not a whole number; write digits only, as in 1500 or 1_500");
    assert_no_number("18446744073709551616", "\"18446744073709551616\" is too large a number");
}

static void reading_starts_at_the_position(void **state)
{
    struct ration_error error;
    size_t pos = 6;
    uint64_t value;
    int64_t ns;

    (void)state;
    assert_int_equal(rn_number_parse("burst 20 x", 10, &pos, &value, NULL), 0);
    assert_true(value == 20);
    assert_int_equal(pos, 8);
    assert_int_equal(rn_number_parse_duration("burst 20 x", 10, &pos, &ns, &error), RATION_EPARSE);
    assert_int_equal(error.pos, 8);
    assert_int_equal(pos, 8);
}

static void reading_stops_at_the_length(void **state)
{
    size_t pos = 0;
    uint64_t value;
    int64_t ns;

    (void)state;
    assert_int_equal(rn_number_parse("12345", 3, &pos, &value, NULL), 0);
    assert_true(value == 123);
    pos = 0;
    assert_int_equal(rn_number_parse_duration("5ms", 2, &pos, &ns, NULL), 0);
    assert_true(ns == 5 * MINUTE);
}

static void assert_duration(const char *text, int64_t expected)
{
    size_t pos = 0;
    int64_t ns = 0;

    assert_int_equal(rn_number_parse_duration(text, strlen(text), &pos, &ns, NULL), 0);
    assert_true(ns == expected);
    assert_int_equal(pos, strlen(text));
}

static void assert_no_duration(const char *text, size_t expected_pos, const char *message)
{
    struct ration_error error;
    size_t pos = 0;
    int64_t ns = 77;

    assert_int_equal(rn_number_parse_duration(text, strlen(text), &pos, &ns, &error),
                     RATION_EPARSE);
    assert_string_equal(error.text, message);
    assert_int_equal(error.pos, expected_pos);
    assert_int_equal(pos, 0);
    assert_true(ns == 77);
}

static void durations_are_read_as_people_write_them(void **state)
{
    (void)state;
    assert_duration("30s", 30 * S);
    assert_duration("500ms", 500 * MS);
    assert_duration("100us", 100000);
    assert_duration("7ns", 7);
    assert_duration("5 minutes", 5 * MINUTE);
    assert_duration("1 minute", MINUTE);
    assert_duration("minute", MINUTE);
    assert_duration("second", S);
    assert_duration("1h", HOUR);
    assert_duration("2 hrs", 2 * HOUR);
    assert_duration("10 min", 10 * MINUTE);
    assert_duration("7 days", 7 * DAY);
    assert_duration("d", DAY);
    assert_duration("week", 7 * DAY);
    assert_duration("2w", 14 * DAY);
    assert_duration("1_500  milliseconds", 1500 * MS);
    assert_duration("0s", 0);
}

static void letter_case_does_not_matter(void **state)
{
    (void)state;
    assert_duration("5 Minutes", 5 * MINUTE);
    assert_duration("HOUR", HOUR);
    assert_duration("10 SECS", 10 * S);
    assert_duration("3 DAYS", 3 * DAY);
}

static void a_period_that_is_no_length_of_time_is_explained(void **state)
{
    (void)state;
    assert_no_duration("fortnight", 0,
                       "unknown period \"fortnight\"; write a length of time such as second, "
                       "minute, 15 minutes, 30s or 7 days");
    assert_no_duration("3 ages", 2,
                       "unknown period \"ages\"; write a length of time such as second, minute, "
                       "15 minutes, 30s or 7 days");
    assert_no_duration("", 0,
                       "expected a length of time, found nothing; write second, minute, "
                       "15 minutes, 30s or 7 days");
    assert_no_duration("30", 2,
                       "expected a unit of time, found nothing; write second, minute, "
                       "15 minutes, 30s or 7 days");
    assert_no_duration("-5s", 0,
                       "expected a length of time, found \"-5s\"; write second, minute, "
                       "15 minutes, 30s or 7 days");
}

static void months_and_years_have_no_fixed_length(void **state)
{
    (void)state;
    assert_no_duration("month", 0,
                       "a month has no fixed length; write a number of days, such as 30 days");
    assert_no_duration("2 Months", 2,
                       "a month has no fixed length; write a number of days, such as 30 days");
    assert_no_duration("1y", 1,
                       "a year has no fixed length; write a number of days, such as 365 days");
}

static void a_plural_needs_a_number(void **state)
{
    (void)state;
    assert_no_duration("minutes", 0, "how many minutes? write minute or 5 minutes");
}

static void a_time_beyond_64_bits_is_too_long(void **state)
{
    (void)state;
    assert_duration("15250 weeks", 15250 * 7 * DAY);
    assert_no_duration("15251 weeks", 0, "15251 weeks is too long a time");
    assert_no_duration("18446744073709551615ns", 0,
                       "18446744073709551615 nanoseconds is too long a time");
}

static void assert_written(int64_t ns, const char *expected)
{
    char text[RN_DURATION_TEXT];

    assert_int_equal(rn_number_write_duration(ns, text, sizeof text), strlen(expected));
    assert_string_equal(text, expected);
}

static void the_largest_unit_that_divides_is_written(void **state)
{
    (void)state;
    assert_written(MINUTE, "minute");
    assert_written(5 * MINUTE, "5 minutes");
    assert_written(90 * S, "90 seconds");
    assert_written(100 * MS, "100 milliseconds");
    assert_written(DAY, "day");
    assert_written(7 * DAY, "week");
    assert_written(30 * DAY, "30 days");
    assert_written(1, "nanosecond");
    assert_written(0, "0 seconds");
    assert_written(INT64_MAX, "9223372036854775807 nanoseconds");
}

static void writing_returns_the_length_it_needs(void **state)
{
    char text[4] = "???";

    (void)state;
    assert_int_equal(rn_number_write_duration(MINUTE, text, sizeof text), 6);
    assert_string_equal(text, "min");
    assert_int_equal(rn_number_write_duration(MINUTE, NULL, 0), 6);
}

static void what_is_written_reads_back(void **state)
{
    uint64_t random = 1;

    (void)state;
    for (int i = 0; i < 100000; i++) {
        char text[RN_DURATION_TEXT];
        size_t pos = 0;
        random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        int64_t back, ns = (int64_t)(random >> 1 >> (random & 63));
        size_t len = rn_number_write_duration(ns, text, sizeof text);
        assert_true(len < sizeof text);
        assert_int_equal(rn_number_parse_duration(text, len, &pos, &back, NULL), 0);
        assert_true(back == ns && pos == len);
    }
}

int main(void)
{
    const struct CMUnitTest number[] = {
        cmocka_unit_test(whole_numbers_are_read_up_to_the_last_digit),
        cmocka_unit_test(underscores_group_digits),
        cmocka_unit_test(a_text_that_is_no_whole_number_is_explained),
        cmocka_unit_test(reading_starts_at_the_position),
        cmocka_unit_test(reading_stops_at_the_length),
        cmocka_unit_test(durations_are_read_as_people_write_them),
        cmocka_unit_test(letter_case_does_not_matter),
        cmocka_unit_test(a_period_that_is_no_length_of_time_is_explained),
        cmocka_unit_test(months_and_years_have_no_fixed_length),
        cmocka_unit_test(a_plural_needs_a_number),
        cmocka_unit_test(a_time_beyond_64_bits_is_too_long),
        cmocka_unit_test(the_largest_unit_that_divides_is_written),
        cmocka_unit_test(writing_returns_the_length_it_needs),
        cmocka_unit_test(what_is_written_reads_back),
    };

    return cmocka_run_group_tests(number, NULL, NULL);
}
