/* SPDX-License-Identifier: Apache-2.0 */
/* Somebody's text on a terminal or in a message. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/utf8.h"

static void expect(void (*put)(struct rn_buf *, struct rn_slice), struct rn_slice text,
                   const char *expected)
{
    struct rn_buf out = {0};

    put(&out, text);
    rn_buf_put_char(&out, '\0');
    assert_string_equal(out.data, expected);
    rn_buf_done(&out);
}

static void what_is_printable_stays(void **state)
{
    (void)state;
    expect(rn_utf8_escape, RN_SLICE("/api/users?x=1 \xc3\xa9\xe2\x82\xac"),
           "/api/users?x=1 \xc3\xa9\xe2\x82\xac");
    expect(rn_utf8_escape, RN_SLICE(""), "");
    expect(rn_utf8_escape_quoted, RN_SLICE(""), "\"\"");
}

static void what_controls_a_terminal_is_shown_as_bytes(void **state)
{
    (void)state;
    expect(rn_utf8_escape, RN_SLICE("a\x1b[2J\n\0\x7f"), "a\\x1b[2J\\x0a\\x00\\x7f");
    expect(rn_utf8_escape, RN_SLICE("\xc2\x9b"), "\\xc2\\x9b"); /* C1: another way to begin */
    expect(rn_utf8_escape, RN_SLICE("\xff\xc3"), "\\xff\\xc3");
}

static void quotes_cannot_be_closed_by_the_text(void **state)
{
    (void)state;
    expect(rn_utf8_escape_quoted, RN_SLICE("a\"b\\"), "\"a\\\"b\\\\\"");
}

static void lines_stay_lines(void **state)
{
    (void)state;
    expect(rn_utf8_escape_lines, RN_SLICE("a \"b\"\n\\c\x1b\n"), "a \"b\"\n\\c\\x1b\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_printable_stays),
        cmocka_unit_test(what_controls_a_terminal_is_shown_as_bytes),
        cmocka_unit_test(quotes_cannot_be_closed_by_the_text),
        cmocka_unit_test(lines_stay_lines),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
