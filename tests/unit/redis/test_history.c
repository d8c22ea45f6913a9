/* SPDX-License-Identifier: Apache-2.0 */
/* Histories from replies to INFO replication. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "redis/conn/history.h"

#define ONE "0123456789abcdef0123456789abcdef01234567"
#define OTHER "0123456789abcdef0123456789abcdef01234568"
#define NONE "0000000000000000000000000000000000000000"

/* As Redis writes it: `before` is what it was until the last failover. */
static const char *info_of(const char *id, const char *before)
{
    static char text[300];

    snprintf(text, sizeof text,
             "# Replication\r\nrole:master\r\nconnected_slaves:0\r\nmaster_failover_state:"
             "no-failover\r\nmaster_replid:%s\r\nmaster_replid2:%s\r\nmaster_repl_offset:0\r\n",
             id, before);
    return text;
}

static void the_first_one_is_no_change(void **state)
{
    struct rn_history history = {0};

    (void)state;
    assert_false(rn_history_learn(&history, info_of(ONE, OTHER)));
    assert_string_equal(history.id, ONE);
    assert_false(rn_history_learn(&history, info_of(ONE, NONE)));
}

static void another_one_is_a_change_each_time(void **state)
{
    struct rn_history history = {0};

    (void)state;
    rn_history_learn(&history, info_of(ONE, NONE));
    assert_true(rn_history_learn(&history, info_of(OTHER, ONE)));
    assert_false(rn_history_learn(&history, info_of(OTHER, ONE)));
    assert_true(rn_history_learn(&history, info_of(ONE, OTHER)));
}

static void a_reply_without_an_id_changes_nothing(void **state)
{
    static const char *const texts[] = {
        "",
        "# Replication\r\nrole:master\r\n",
        "\nmaster_replid:",
        "\r\nmaster_replid:?\r\n",
        "# Replication\r\nmaster_replid:" ONE "0\r\n",
        "\r\nmaster_replid2:" OTHER "\r\n",
    };
    struct rn_history history = {0};

    (void)state;
    rn_history_learn(&history, info_of(ONE, NONE));
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        assert_false(rn_history_learn(&history, texts[i]));
    assert_string_equal(history.id, ONE);
    assert_true(rn_history_learn(&history, info_of(OTHER, ONE)));
}

static const char *info_at(const char *id, const char *before, long offset, long second)
{
    static char text[300];

    snprintf(text, sizeof text,
             "# Replication\r\nrole:master\r\nmaster_replid:%s\r\nmaster_replid2:%s\r\n"
             "master_repl_offset:%ld\r\nsecond_repl_offset:%ld\r\n",
             id, before, offset, second);
    return text;
}

static void what_a_former_master_wrote_after_the_promotion_is_lost(void **state)
{
    struct rn_history history = {0};

    (void)state;
    rn_history_learn(&history, info_at(ONE, NONE, 100, -1));
    rn_history_note(&history, info_at(ONE, NONE, 250, -1));
    rn_history_note(&history, info_at(OTHER, ONE, 999, 201)); /* it is a replica by now */
    assert_true(rn_history_learn(&history, info_at(OTHER, ONE, 300, 201)));
    assert_int_equal(history.lost, 50);
    assert_int_equal(history.offset, 300);
    assert_true(rn_history_learn(&history, info_at(ONE, OTHER, 400, 301)));
    assert_int_equal(history.lost, 0);
}

static void of_a_server_that_was_started_anew_nothing_is_known(void **state)
{
    struct rn_history history = {0};

    (void)state;
    rn_history_learn(&history, info_at(ONE, NONE, 100, -1));
    assert_true(rn_history_learn(&history, info_at(OTHER, NONE, 0, -1)));
    assert_int_equal(history.lost, 0);
}

static void its_short_name_is_the_beginning_or_zeros(void **state)
{
    struct rn_history history = {0};
    char name[RN_HISTORY_SHORT + 1];

    (void)state;
    rn_history_short(&history, name);
    assert_string_equal(name, "0000000000000000");
    rn_history_learn(&history, info_of(ONE, NONE));
    rn_history_short(&history, name);
    assert_int_equal(name[RN_HISTORY_SHORT], 0);
    assert_memory_equal(name, ONE, RN_HISTORY_SHORT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_one_is_no_change),
        cmocka_unit_test(another_one_is_a_change_each_time),
        cmocka_unit_test(a_reply_without_an_id_changes_nothing),
        cmocka_unit_test(what_a_former_master_wrote_after_the_promotion_is_lost),
        cmocka_unit_test(of_a_server_that_was_started_anew_nothing_is_known),
        cmocka_unit_test(its_short_name_is_the_beginning_or_zeros),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
