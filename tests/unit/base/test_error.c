/* SPDX-License-Identifier: Apache-2.0 */
/* Error codes have names and texts; messages carry others' text only quoted. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/error.h"

static void codes_have_a_name_and_a_text(void **state)
{
    (void)state;
    assert_string_equal(ration_error_name(RATION_EFULL), "EFULL");
    assert_string_equal(ration_error_text(RATION_EFULL), "no room for another live key");
}

static void other_numbers_are_unknown(void **state)
{
    (void)state;
    assert_string_equal(ration_error_name(0), "EUNKNOWN");
    assert_string_equal(ration_error_name(12345), "EUNKNOWN");
    assert_string_equal(ration_error_text(-12345), "unknown error");
}

static void setting_an_error_fills_all_of_it(void **state)
{
    struct ration_error error = {.line = 3, .column = 4};

    (void)state;
    assert_int_equal(rn_error_set(&error, RATION_EPARSE, 7, "%d is odd", 5), RATION_EPARSE);
    assert_int_equal(error.code, RATION_EPARSE);
    assert_int_equal(error.pos, 7);
    assert_int_equal(error.line, 0);
    assert_int_equal(error.column, 0);
    assert_string_equal(error.text, "5 is odd");
}

static void the_error_may_be_null(void **state)
{
    (void)state;
    assert_int_equal(rn_error_set(NULL, RATION_EIO, 0, "unheard"), RATION_EIO);
}

static void a_long_text_is_cut(void **state)
{
    struct ration_error error;

    (void)state;
    rn_error_set(&error, RATION_EIO, 0, "%1000d", 1);
    assert_int_equal(strlen(error.text), sizeof error.text - 1);
}

static void assert_quoted(const char *text, size_t len, size_t pos, const char *expected)
{
    assert_string_equal(rn_error_quote(text, len, pos).text, expected);
}

static void a_word_ends_at_white_space(void **state)
{
    (void)state;
    assert_quoted("100 per fortnight or so", 23, 8, "\"fortnight\"");
    assert_quoted("last", 4, 0, "\"last\"");
}

static void the_end_of_the_text_is_called_nothing(void **state)
{
    (void)state;
    assert_quoted("100", 3, 3, "nothing");
    assert_quoted("", 0, 0, "nothing");
}

static void bytes_that_could_mislead_are_escaped(void **state)
{
    (void)state;
    assert_quoted("a\0\033\377", 4, 0, "\"a\\x00\\x1b\\xff\"");
    assert_quoted("a\"b\\", 4, 0, "\"a\\\"b\\\\\"");
}

static void a_long_word_is_cut(void **state)
{
    char word[200];

    (void)state;
    memset(word, 'x', sizeof word);
    assert_quoted(word, sizeof word, 0, "\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx...\"");
    memset(word, 1, sizeof word);
    assert_quoted(word, sizeof word, 0, "\"\\x01\\x01\\x01\\x01\\x01\\x01\\x01\\x01...\"");
}

int main(void)
{
    const struct CMUnitTest error[] = {
        cmocka_unit_test(codes_have_a_name_and_a_text),
        cmocka_unit_test(other_numbers_are_unknown),
        cmocka_unit_test(setting_an_error_fills_all_of_it),
        cmocka_unit_test(the_error_may_be_null),
        cmocka_unit_test(a_long_text_is_cut),
        cmocka_unit_test(a_word_ends_at_white_space),
        cmocka_unit_test(the_end_of_the_text_is_called_nothing),
        cmocka_unit_test(bytes_that_could_mislead_are_escaped),
        cmocka_unit_test(a_long_word_is_cut),
    };

    return cmocka_run_group_tests(error, NULL, NULL);
}
