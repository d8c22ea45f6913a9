/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers, durations and the like from nodes, and what is said about others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "document_fixture.h"

static const struct rn_node *parse(const char *text)
{
    assert_int_equal(parse_bytes(text, strlen(text)), 0);
    return document.root;
}

static const struct rn_node *value_of(const char *yaml)
{
    return parse(yaml)->first;
}

static void whole_numbers_are_read(void **state)
{
    uint64_t value = 0;

    (void)state;
    assert_true(rn_node_as_uint(value_of("n: 1_500"), &report, &value));
    assert_int_equal(value, 1500);
    assert_true(rn_node_as_uint(value_of("[7]"), &report, &value));
    assert_int_equal(value, 7);
#define UINT_FAILS(yaml, message)                                                                  \
    assert_false(rn_node_as_uint(value_of(yaml), &report, &value));                                \
    assert_first(yaml, message)
    UINT_FAILS("cost: lots", "1:7: \"cost\": expected a whole number, found \"lots\"");
    UINT_FAILS("cost: -1", "1:7: \"cost\": expected a whole number, found \"-1\"");
    UINT_FAILS("cost: 1.5",
               "1:7: \"cost\": \"1.5\" is not a whole number; write digits only, as in "
               "1500 or 1_500");
    UINT_FAILS("cost: 10 apples", "1:7: \"cost\": expected a whole number, found \"10 apples\"; "
                                  "write digits only, as in 1500 or 1_500");
    UINT_FAILS("cost: \"5\"",
               "1:7: \"cost\": expected a whole number, without quotes, found \"5\"");
    UINT_FAILS("cost:", "1:6: \"cost\": expected a whole number, found nothing");
    UINT_FAILS("cost: null", "1:7: \"cost\": expected a whole number, found nothing");
    UINT_FAILS("cost: [1]", "1:7: \"cost\": expected a whole number, found a list");
    UINT_FAILS("cost: {a: 1}", "1:7: \"cost\": expected a whole number, found a map");
    UINT_FAILS("[x]", "1:2: expected a whole number, found \"x\"");
    UINT_FAILS("cost: 99999999999999999999",
               "1:7: \"cost\": \"99999999999999999999\" is too large a number");
    assert_int_equal(value, 7);
}

static void only_true_and_false_are_booleans(void **state)
{
    bool value = false;

    (void)state;
    assert_true(rn_node_as_bool(value_of("a: true"), &report, &value));
    assert_true(value);
    assert_true(rn_node_as_bool(value_of("a: false"), &report, &value));
    assert_false(value);
#define BOOL_FAILS(yaml, message)                                                                  \
    assert_false(rn_node_as_bool(value_of(yaml), &report, &value));                                \
    assert_first(yaml, message)
    BOOL_FAILS("a: yes", "1:4: \"a\": expected true or false, found \"yes\"; write true");
    BOOL_FAILS("a: Off", "1:4: \"a\": expected true or false, found \"Off\"; write false");
    BOOL_FAILS("a: True", "1:4: \"a\": expected true or false, found \"True\"; write true");
    BOOL_FAILS("a: maybe", "1:4: \"a\": expected true or false, found \"maybe\"");
    BOOL_FAILS("a: 'true'", "1:4: \"a\": expected true or false, without quotes, found \"true\"");
    BOOL_FAILS("a: 1", "1:4: \"a\": expected true or false, found \"1\"");
    BOOL_FAILS("a:", "1:3: \"a\": expected true or false, found nothing");
}

static void percentages_are_read(void **state)
{
    uint8_t value = 0;

    (void)state;
    assert_true(rn_node_as_percent(value_of("soft: 10%"), &report, &value));
    assert_int_equal(value, 10);
    assert_true(rn_node_as_percent(value_of("soft: '100%'"), &report, &value));
    assert_int_equal(value, 100);
#define PERCENT_FAILS(yaml, message)                                                               \
    assert_false(rn_node_as_percent(value_of(yaml), &report, &value));                             \
    assert_first(yaml, message)
#define RANGE "expected a percentage from 0% to 100%, in whole numbers, found "
    PERCENT_FAILS("soft: 10",
                  "1:7: \"soft\": expected a percentage, found \"10\"; did you mean 10%?");
    PERCENT_FAILS("soft: 101%", "1:7: \"soft\": " RANGE "\"101%\"");
    PERCENT_FAILS("soft: 1.5%", "1:7: \"soft\": " RANGE "\"1.5%\"");
    PERCENT_FAILS("soft: -1%", "1:7: \"soft\": " RANGE "\"-1%\"");
    PERCENT_FAILS("soft: 10%%", "1:7: \"soft\": " RANGE "\"10%%\"");
    PERCENT_FAILS("soft: {}", "1:7: \"soft\": " RANGE "a map");
    assert_int_equal(value, 100);
}

static void durations_are_read_and_faults_located_inside(void **state)
{
    int64_t ns = 0;

    (void)state;
    assert_true(rn_node_as_duration(value_of("wait: 30s"), &report, &ns));
    assert_true(ns == INT64_C(30000000000));
    assert_true(rn_node_as_duration(value_of("wait: \" 5 minutes \""), &report, &ns));
    assert_true(ns == INT64_C(300000000000));
#define DURATION_FAILS(yaml, message)                                                              \
    assert_false(rn_node_as_duration(value_of(yaml), &report, &ns));                               \
    assert_first(yaml, message)
    DURATION_FAILS("wait: 5 fortnights",
                   "1:9: \"wait\": unknown period \"fortnights\"; write a length of time such as "
                   "second, minute, 15 minutes, 30s or 7 days");
    DURATION_FAILS("wait: \"5 fortnights\"",
                   "1:10: \"wait\": unknown period \"fortnights\"; write a length of time such as "
                   "second, minute, 15 minutes, 30s or 7 days");
    DURATION_FAILS("wait: \"\\x35 fortnights\"",
                   "1:7: \"wait\": unknown period \"fortnights\"; write a length of time such as "
                   "second, minute, 15 minutes, 30s or 7 days");
    DURATION_FAILS("wait: 5",
                   "1:8: \"wait\": expected a unit of time, found nothing; write second, "
                   "minute, 15 minutes, 30s or 7 days");
    DURATION_FAILS("wait: 1h 30m",
                   "1:9: \"wait\": unexpected \" 30m\" behind a length of time; use "
                   "one unit, as in 90 minutes");
    DURATION_FAILS("wait:", "1:6: \"wait\": expected a length of time such as 30s or 5 minutes, "
                            "found nothing");
    DURATION_FAILS("wait: []", "1:7: \"wait\": expected a length of time such as 30s or 5 minutes, "
                               "found a list");
}

static void kinds_are_checked(void **state)
{
    struct rn_slice text;

    (void)state;
    assert_true(rn_node_expect(parse("[]"), RN_NODE_LIST, &report));
    assert_true(rn_node_as_text(value_of("a: b c"), &report, &text));
    assert_true(rn_slice_is(text, "b c"));
    assert_true(rn_node_as_text(value_of("a: ''"), &report, &text));
    assert_false(rn_node_as_text(value_of("a: ~"), &report, &text));
    assert_first("~", "1:4: \"a\": expected text, found nothing");
    assert_false(rn_node_expect(value_of("a: ''"), RN_NODE_LIST, &report));
    assert_first("''", "1:4: \"a\": expected a list, found \"\"");
    assert_false(rn_node_expect(value_of("a: x"), RN_NODE_MAP, &report));
    assert_first("x", "1:4: \"a\": expected a map, found \"x\"");
}

#define WITH_REPORT(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_REPORT(whole_numbers_are_read),
        WITH_REPORT(only_true_and_false_are_booleans),
        WITH_REPORT(percentages_are_read),
        WITH_REPORT(durations_are_read_and_faults_located_inside),
        WITH_REPORT(kinds_are_checked),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
