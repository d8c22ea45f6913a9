/* SPDX-License-Identifier: Apache-2.0 */
/* Failover events in the words of Sentinel. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "redis/cluster/failover.h"

static char address[RN_URL_ADDRESS];

static enum rn_failover_word parse(const char *channel, const char *text)
{
    address[0] = '\0';
    return rn_failover_parse(channel, text, "shared", address);
}

static void a_failover_begins_before_a_replica_is_selected(void **state)
{
    (void)state;
    assert_int_equal(parse("+failover-state-select-slave", "master shared 127.0.0.1 6379"),
                     RN_FAILOVER_BEGINS);
}

static void the_one_that_takes_over_is_named(void **state)
{
    static const char slave[] = "slave 127.0.0.1:6380 127.0.0.1 6380 @ shared 127.0.0.1 6379";

    (void)state;
    assert_int_equal(parse("+selected-slave", slave), RN_FAILOVER_TO);
    assert_string_equal(address, "127.0.0.1:6380");
    assert_int_equal(parse("+promoted-slave", slave), RN_FAILOVER_TO);
    assert_string_equal(address, "127.0.0.1:6380");
    assert_int_equal(parse("+switch-master", "shared 127.0.0.1 6379 ::1 6381"), RN_FAILOVER_TO);
    assert_string_equal(address, "[::1]:6381");
}

static void a_failover_may_come_to_nothing(void **state)
{
    (void)state;
    assert_int_equal(parse("-failover-abort-no-good-slave", "master shared 127.0.0.1 6379"),
                     RN_FAILOVER_ENDS);
}

static void other_masters_and_other_words_are_of_no_concern(void **state)
{
    static const struct {
        const char *channel, *text;
    } others[] = {
        {"+failover-state-select-slave", "master other 127.0.0.1 6379"},
        {"+selected-slave", "slave 127.0.0.1:6380 127.0.0.1 6380 @ other 127.0.0.1 6379"},
        {"+switch-master", "other 127.0.0.1 6379 127.0.0.1 6380"},
        {"-failover-abort-no-good-slave", "master other 127.0.0.1 6379"},
        {"+sdown", "master shared 127.0.0.1 6379"},
        {"+failover-state-select-slave", ""},
        {"+selected-slave", "slave 127.0.0.1:6380 127.0.0.1"},
        {"+selected-slave", "slave 127.0.0.1:6380 127.0.0.1 0 @ shared 127.0.0.1 6379"},
        {"+switch-master", "shared 127.0.0.1 6379"},
        {"+switch-master", "shared 127.0.0.1 6379 127.0.0.1 123456789"},
        {"+switch-master", ""},
    };

    (void)state;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_int_equal(parse(others[i].channel, others[i].text), RN_FAILOVER_NOTHING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failover_begins_before_a_replica_is_selected),
        cmocka_unit_test(the_one_that_takes_over_is_named),
        cmocka_unit_test(a_failover_may_come_to_nothing),
        cmocka_unit_test(other_masters_and_other_words_are_of_no_concern),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
