/* SPDX-License-Identifier: Apache-2.0 */
/* Reports as people see them, compared as text. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rules/report/report.h"
#include "rules/yaml/document.h"

static struct rn_report report;

static int set_up(void **state)
{
    (void)state;
    rn_report_init(&report);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    rn_report_done(&report);
    return 0;
}

static void append(void *context, const char *text, size_t len)
{
    fwrite(text, 1, len, context);
}

static void assert_written(const char *expected)
{
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);

    rn_report_write(&report, append, out);
    fclose(out);
    assert_string_equal(text, expected);
    free(text);
}

static struct rn_place in(uint32_t file, uint32_t line, uint32_t column)
{
    return (struct rn_place){file, line, column};
}

static uint32_t add_file(const char *name, const char *text)
{
    return rn_report_add_file(&report, rn_slice_of(name), rn_slice_of(text));
}

static void the_line_is_shown_with_a_caret_under_the_place(void **state)
{
    uint32_t file = add_file("rules.yaml", "limits:\n  - lmit: 5 per minute\n");

    (void)state;
    rn_report_error(&report, in(file, 2, 5), "unknown key");
    rn_report_warning(&report, in(file, 1, 1), "only %d of them", 1);
    assert_written("rules.yaml:1:1: warning: only 1 of them\n"
                   "    limits:\n"
                   "    ^\n"
                   "rules.yaml:2:5: error: unknown key\n"
                   "      - lmit: 5 per minute\n"
                   "        ^\n");
    assert_int_equal(report.count[RN_ERROR], 1);
    assert_int_equal(report.count[RN_WARNING], 1);
}

static void messages_are_in_the_order_of_the_files(void **state)
{
    uint32_t a = add_file("a", "x\ny\n"), b = add_file("b", "z\n");

    (void)state;
    rn_report_error(&report, in(b, 1, 1), "fourth");
    rn_report_error(&report, in(a, 2, 1), "third");
    rn_report_error(&report, in(a, 1, 2), "second");
    rn_report_error(&report, in(a, 1, 1), "first");
    rn_report_error(&report, in(a, 1, 2), "second, too");
    assert_written("a:1:1: error: first\n    x\n    ^\n"
                   "a:1:2: error: second\n    x\n     ^\n"
                   "a:1:2: error: second, too\n    x\n     ^\n"
                   "a:2:1: error: third\n    y\n    ^\n"
                   "b:1:1: error: fourth\n    z\n    ^\n");
    assert_int_equal(report.kept_count, 5);
    assert_string_equal(report.kept[3].message, "third");
    assert_int_equal(report.kept[3].at.line, 2);
}

static void a_message_is_reported_once(void **state)
{
    uint32_t file = add_file("a", "x\n");

    (void)state;
    for (int i = 0; i < 3; i++) {
        rn_report_error(&report, in(file, 1, 1), "again");
        rn_report_error(&report, in(file, 1, 1), "and again");
    }
    rn_report_warning(&report, in(file, 1, 1), "again");
    assert_int_equal(report.count[RN_ERROR], 2);
    assert_int_equal(report.count[RN_WARNING], 1);
}

static void a_message_about_a_file_shows_no_line(void **state)
{
    uint32_t file = add_file("gone.yaml", "");

    (void)state;
    rn_report_error(&report, in(file, 0, 0), "cannot be read");
    rn_report_error(&report, in(file, 1, 1), "an empty line");
    rn_report_error(&report, in(RN_REPORT_NO_FILE, 0, 0), "out of memory");
    assert_written("gone.yaml: error: cannot be read\n"
                   "gone.yaml:1:1: error: an empty line\n"
                   "error: out of memory\n");
}

static void after_a_hundred_errors_they_are_only_counted(void **state)
{
    uint32_t file = add_file("a", "");
    char *text = NULL;
    size_t len = 0;

    (void)state;
    for (uint32_t i = 1; i <= 103; i++)
        rn_report_error(&report, in(file, i, 1), "error %u", i);
    for (uint32_t i = 1; i <= 101; i++)
        rn_report_warning(&report, in(file, i, 1), "warning %u", i);
    assert_int_equal(report.count[RN_ERROR], 103);
    assert_int_equal(report.kept_count, 200);
    FILE *out = open_memstream(&text, &len);
    rn_report_write(&report, append, out);
    fclose(out);
    assert_non_null(strstr(text, "a:100:1: error: error 100\n"));
    assert_null(strstr(text, "error 101"));
    assert_non_null(strstr(text, "\nand 3 more errors\nand 1 more warning\n"));
    free(text);
}

static void tabs_are_expanded_in_both_lines(void **state)
{
    uint32_t file = add_file("a", "\tb\tc: d\n");

    (void)state;
    rn_report_error(&report, in(file, 1, 1), "one");
    rn_report_error(&report, in(file, 1, 2), "two");
    rn_report_error(&report, in(file, 1, 4), "three");
    assert_written("a:1:1: error: one\n        b   c: d\n    ^\n"
                   "a:1:2: error: two\n        b   c: d\n        ^\n"
                   "a:1:4: error: three\n        b   c: d\n            ^\n");
}

static void columns_count_characters(void **state)
{
    uint32_t file = add_file("a", "\xef\xbb\xbfgr\xc3\xb6\xc3\x9f"
                                  "e: \xe2\x82\xac\xf0\x9f\x98\x80 x\n");

    (void)state;
    rn_report_error(&report, in(file, 1, 11), "here");
    assert_written("a:1:11: error: here\n"
                   "    gr\xc3\xb6\xc3\x9f"
                   "e: \xe2\x82\xac\xf0\x9f\x98\x80 x\n"
                   "              ^\n");
}

static void terminal_control_bytes_are_escaped(void **state)
{
    uint32_t file = add_file("a\033[2J", "x\033[2J\x07\x80 \xe2\x80\xae y");

    (void)state;
    rn_report_error(&report, in(file, 1, 9), "a\nb\x9b");
    assert_written("a\\x1b[2J:1:9: error: a\\x0ab\\x9b\n"
                   "    x\\x1b[2J\\x07\\x80 \\u{202e} y\n"
                   "                     ^\n");
}

static void of_a_long_line_the_part_around_the_caret_is_shown(void **state)
{
    char line[401];

    (void)state;
    for (size_t i = 0; i < 400; i++)
        line[i] = (char)('0' + (i + 1) % 10);
    line[400] = '\0';
    uint32_t file = add_file("a", line);
    rn_report_error(&report, in(file, 1, 61), "near the start");
    rn_report_error(&report, in(file, 1, 200), "in the middle");
    rn_report_error(&report, in(file, 1, 400), "at the end");
#define TEN "1234567890"
    assert_written("a:1:61: error: near the start\n"
                   "    " TEN TEN TEN TEN TEN TEN TEN TEN TEN TEN "...\n"
                   "                                                                ^\n"
                   "a:1:200: error: in the middle\n"
                   "    ...0" TEN TEN TEN TEN TEN TEN TEN TEN TEN "123456789...\n"
                   "                                                                   ^\n"
                   "a:1:400: error: at the end\n"
                   "    ...0" TEN TEN TEN TEN TEN TEN "\n"
                   "                                                                   ^\n");
}

static void lines_end_as_yaml_says(void **state)
{
    uint32_t file = add_file("a", "one\r\ntwo\rthree\xc2\x85"
                                  "four\xe2\x80\xa8"
                                  "five\n\nseven");

    (void)state;
    rn_report_error(&report, in(file, 1, 99), "1");
    rn_report_error(&report, in(file, 2, 1), "2");
    rn_report_error(&report, in(file, 3, 5), "3");
    rn_report_error(&report, in(file, 4, 1), "4");
    rn_report_error(&report, in(file, 5, 1), "5");
    rn_report_error(&report, in(file, 6, 1), "6");
    rn_report_error(&report, in(file, 7, 6), "7");
    rn_report_error(&report, in(file, 9, 1), "9");
    assert_written("a:1:99: error: 1\n    one\n       ^\n"
                   "a:2:1: error: 2\n    two\n    ^\n"
                   "a:3:5: error: 3\n    three\n        ^\n"
                   "a:4:1: error: 4\n    four\n    ^\n"
                   "a:5:1: error: 5\n    five\n    ^\n"
                   "a:6:1: error: 6\n"
                   "a:7:6: error: 7\n    seven\n         ^\n"
                   "a:9:1: error: 9\n    seven\n         ^\n");
}

static void places_and_bytes_belong_together(void **state)
{
    static const char text[] = "a: \xc3\xb6\r\n\xe2\x82\xac\n\nb\n";
    uint32_t file = add_file("a", text);

    (void)state;
    for (size_t round = 0; round < 2; round++) {
        for (size_t offset = sizeof text - 1; offset > 0; offset--) {
            struct rn_place at = rn_report_place(&report, file, offset);
            size_t back = rn_report_offset(&report, at);
            assert_true(back == offset || (back > offset && back - offset < 3));
        }
    }
    assert_int_equal(rn_report_place(&report, file, 7).line, 2);
    assert_int_equal(rn_report_place(&report, file, 10).column, 2);
    assert_int_equal(rn_report_offset(&report, in(file, 2, 1)), 7);
    assert_int_equal(rn_report_place(&report, 99, 5).line, 0);
    assert_int_equal(rn_report_offset(&report, in(99, 5, 5)), 0);
}

static const char *suggest(const char *word)
{
    static const char *const keys[] = {"name", "when", "key", "limit", "limits", "algorithm"};
    const char *found = rn_suggest(rn_slice_of(word), keys, sizeof keys / sizeof keys[0]);

    return found == NULL ? "(none)" : found;
}

static void a_near_word_is_suggested(void **state)
{
    char large[200];

    (void)state;
    assert_string_equal(suggest("lmit"), "limit");
    assert_string_equal(suggest("limti"), "limit");
    assert_string_equal(suggest("LIMIT"), "limit");
    assert_string_equal(suggest("limist"), "limit"); /* limits is as near, and comes later */
    assert_string_equal(suggest("limitss"), "limits");
    assert_string_equal(suggest("nmae"), "name");
    assert_string_equal(suggest("ky"), "key");
    assert_string_equal(suggest("algoritm"), "algorithm");
    assert_string_equal(suggest("aglorithn"), "algorithm");
    assert_string_equal(suggest("aglorihtn"), "(none)");
    assert_string_equal(suggest("kk"), "(none)");
    assert_string_equal(suggest("wen"), "when");
    assert_string_equal(suggest("want"), "(none)");
    assert_string_equal(suggest(""), "(none)");
    assert_string_equal(suggest("foo"), "(none)");
    memset(large, 'x', sizeof large);
    assert_null(rn_suggest((struct rn_slice){large, sizeof large}, NULL, 0));
}

static void an_unknown_key_is_answered_with_the_near_or_with_all(void **state)
{
    static const char text[] = "{lmit: 1, \"f\\\"o\": 2}";
    static const char *const keys[] = {"limit", "name", "key"};
    struct rn_document document;

    (void)state;
    rn_document_parse(&document, RN_SLICE("a"), text, strlen(text), &report);
    RN_NODE_EACH(value, document.root)
        rn_report_unknown_key(&report, value, keys, 3);
    rn_report_unknown_word(&report, document.root->first, "algorithm", keys, 3);
    rn_document_done(&document);
    assert_written("a:1:2: error: unknown key \"lmit\"; did you mean \"limit\"?\n"
                   "    {lmit: 1, \"f\\\"o\": 2}\n"
                   "     ^\n"
                   "a:1:8: error: unknown algorithm \"1\"; allowed here: limit, name, key\n"
                   "    {lmit: 1, \"f\\\"o\": 2}\n"
                   "           ^\n"
                   "a:1:11: error: unknown key \"f\\\"o\"; allowed here: limit, name, key\n"
                   "    {lmit: 1, \"f\\\"o\": 2}\n"
                   "              ^\n");
}

static void foreign_text_is_quoted_safely(void **state)
{
    char large[100];

    (void)state;
    memset(large, 'x', sizeof large);
    assert_string_equal(rn_excerpt(RN_SLICE("5 per day")).text, "\"5 per day\"");
    assert_string_equal(rn_excerpt(RN_SLICE("a\"\\\n\xc3\xb6\0b")).text,
                        "\"a\\\"\\\\\\x0a\\xc3\\xb6\\x00b\"");
    assert_string_equal(rn_excerpt(RN_SLICE("")).text, "nothing");
    struct rn_excerpt cut = rn_excerpt((struct rn_slice){large, sizeof large});
    assert_true(strlen(cut.text) < sizeof cut.text);
    assert_string_equal(cut.text + strlen(cut.text) - 5, "x...\"");
    memset(large, '\xff', sizeof large);
    cut = rn_excerpt((struct rn_slice){large, sizeof large});
    assert_true(strlen(cut.text) < sizeof cut.text);
}

static void an_endless_message_is_cut(void **state)
{
    char large[5000];

    (void)state;
    memset(large, 'x', sizeof large);
    large[sizeof large - 1] = '\0';
    rn_report_error(&report, in(RN_REPORT_NO_FILE, 0, 0), "%s", large);
    size_t len = strlen(report.kept[0].message);
    assert_true(len < 1100);
    assert_string_equal(report.kept[0].message + len - 4, "x...");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_line_is_shown_with_a_caret_under_the_place, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(messages_are_in_the_order_of_the_files, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_message_is_reported_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_message_about_a_file_shows_no_line, set_up, tear_down),
        cmocka_unit_test_setup_teardown(after_a_hundred_errors_they_are_only_counted, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(tabs_are_expanded_in_both_lines, set_up, tear_down),
        cmocka_unit_test_setup_teardown(columns_count_characters, set_up, tear_down),
        cmocka_unit_test_setup_teardown(terminal_control_bytes_are_escaped, set_up, tear_down),
        cmocka_unit_test_setup_teardown(of_a_long_line_the_part_around_the_caret_is_shown, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(lines_end_as_yaml_says, set_up, tear_down),
        cmocka_unit_test_setup_teardown(places_and_bytes_belong_together, set_up, tear_down),
        cmocka_unit_test(a_near_word_is_suggested),
        cmocka_unit_test_setup_teardown(an_unknown_key_is_answered_with_the_near_or_with_all,
                                        set_up, tear_down),
        cmocka_unit_test(foreign_text_is_quoted_safely),
        cmocka_unit_test_setup_teardown(an_endless_message_is_cut, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
