/* SPDX-License-Identifier: Apache-2.0 */
/* What is said about files that are not YAML. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "document_fixture.h"

#define INDENTATION "; check the indentation"

static void mistakes_of_indentation_are_explained(void **state)
{
    (void)state;
    assert_refused("a:\n\tb: 1\n", "2:1: a tab in the indentation; use spaces");
    assert_refused("a: 1\n b: 2\n", "2:3: a \":\" cannot stand here; check the indentation, and "
                                    "put text that contains \": \" in quotes");
    assert_refused("- a\nb: 1\n", "2:1: expected \"- \" and another item" INDENTATION
                                  "; the list begins at line 1, column 1");
    assert_refused("a: 1\nb\n", "2:1: expected a key and \": \"; check the indentation, and that "
                                "no quote is left open");
    assert_refused("a: x #\n  y: 2\n", "2:3: expected a key" INDENTATION " and the quotes; the map "
                                       "begins at line 1, column 1");
    assert_refused("a: - b\n",
                   "1:4: a list item cannot begin here; put each \"- \" on a line of its own");
    assert_refused("{a: 1}}", "1:7: expected the end of the file" INDENTATION);
}

static void mistakes_of_brackets_and_quotes_are_explained(void **state)
{
    (void)state;
    assert_refused("a: [1, 2\nb: 3\n",
                   "2:2: expected \",\" or \"]\"; the list begins at line 1, column 4");
    assert_refused("{\"a\" 1}", "1:6: expected \",\" or \"}\"; the map begins at line 1, column 1");
    assert_refused("a: [1, 2\n\n", "1:4: a \"[\" that is never closed");
    assert_refused("{\"a\": 1\n", "1:1: a \"{\" that is never closed");
    assert_refused("a: [1,\n", "2:1: the file ends where a value is missing; is a \"[\" or \"{\" "
                               "never closed?");
    assert_refused("a: ]\n", "1:4: expected a value");
    assert_refused("b: 1\na: \"x\n\n", "2:4: a quote that is never closed");
    assert_refused("a: 'it's'\n", "1:8: expected a key" INDENTATION
                                  " and the quotes; the map begins at line 1, column 1");
    assert_refused("a: \"\\d+\"\n",
                   "1:5: an unknown escape; write \\\\ for a backslash, or use single quotes");
    assert_refused("a: \"\\ud83d\\ude00\"\n",
                   "1:7: an escape that is not a character; instead of a pair such as "
                   "\\ud83d\\ude00 write the character itself, or \\U0001f600");
    assert_refused("a: \"x\n---\n",
                   "2:1: a line that begins with \"---\" or \"...\" inside quotes; "
                   "a closing quote may be missing; the text begins at line 1, "
                   "column 4");
}

static void characters_with_a_meaning_must_be_quoted(void **state)
{
    (void)state;
    assert_refused("a: @x", "1:4: \"@\" cannot begin a value; put the text in quotes");
    assert_refused("a: `x`", "1:4: \"`\" cannot begin a value; put the text in quotes");
    assert_refused("a: %x", "1:4: \"%\" cannot begin a value; put the text in quotes");
    assert_refused("a: &", "1:4: expected a name behind \"&\"; put text that begins with \"&\" in "
                           "quotes");
    assert_refused("a: !<x", "1:4: a tag that cannot be read; put text that begins with \"!\" in "
                             "quotes");
    assert_refused("a: |x\n y\n", "1:5: text behind \"|\" or \">\"; begin it on the next line, or "
                                  "put the value in quotes");
    assert_refused("a: b: c", "1:5: a \":\" cannot stand here; check the indentation, and put text "
                              "that contains \": \" in quotes");
    assert_refused("%YAML 3.0\n---\na: 1\n", "1:1: an unknown version of YAML; leave the line out");
}

static void bytes_that_are_not_text_are_located(void **state)
{
    (void)state;
    assert_refused("a: 1\nb: x\x80y\n", "2:5: the byte 0x80 is not UTF-8; save the file as UTF-8");
    assert_refused("a: \xc3\xb6\xff", "1:5: the byte 0xff is not UTF-8; save the file as UTF-8");
    assert_refused("a: \xe2\x82", "1:4: the byte 0xe2 is not UTF-8; save the file as UTF-8");
    assert_bytes_refused("a: \0b", 5, "1:4: a NUL byte; is this a text file, saved as UTF-8?");
    assert_refused("a: \x07", "1:4: the control character U+0007; remove it, or write \"\\u0007\" "
                              "in double quotes");
    assert_bytes_refused("\xff\xfe"
                         "a\0",
                         4, "1:1: the file is in UTF-16; save it as UTF-8");
}

#define WITH_REPORT(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_REPORT(mistakes_of_indentation_are_explained),
        WITH_REPORT(mistakes_of_brackets_and_quotes_are_explained),
        WITH_REPORT(characters_with_a_meaning_must_be_quoted),
        WITH_REPORT(bytes_that_are_not_text_are_located),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
