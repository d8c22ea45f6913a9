/* SPDX-License-Identifier: Apache-2.0 */
/* Limits that come with a descriptor. */
#include "descriptors_fixture.h"

static void a_limit_may_come_with_the_descriptor(void **state)
{
    struct ration *r = open_rules(shop_rules);
    struct asked a;

    (void)state;
    DESCRIBE(&a, "shop", "user=ann");
    a.asks[0].limit_given = true;
    a.asks[0].requests_per_unit = 5;
    a.asks[0].unit = RATION_UNIT_MINUTE;
    for (int i = 0; i < 5; i++)
        assert_true(ask(r, &a, T0));
    assert_false(ask(r, &a, T0));
    assert_int_equal(out.statuses[0].requests_per_unit, 5);
    assert_int_equal(out.statuses[0].unit, RATION_UNIT_MINUTE);
    assert_string_equal(out.statuses[0].name, "");
    /* The same window: what was admitted under it counts in the file's. */
    assert_false(ask_for(r, "shop", "user=ann", T0));
    assert_true(ask_for(r, "shop", "user=bob", T0));
    ration_close(r);
}

static void a_given_limit_of_another_unit_counts_in_the_rules(void **state)
{
    struct ration *r = open_rules(shop_rules);
    struct asked a;

    (void)state;
    DESCRIBE(&a, "shop", "user=ann");
    a.asks[0].limit_given = true;
    a.asks[0].requests_per_unit = 100;
    a.asks[0].unit = RATION_UNIT_DAY;
    for (int i = 0; i < 3; i++)
        assert_true(ask(r, &a, T0));
    assert_int_equal(out.statuses[0].remaining, 97);
    assert_false(ask_for(r, "shop", "user=ann", T0));
    ration_close(r);
}

static void a_given_limit_needs_no_rule_but_a_domain(void **state)
{
    struct ration *r = open_rules(shop_rules);
    struct asked a;

    (void)state;
    DESCRIBE(&a, "shop", "nobody=knows");
    a.asks[0].limit_given = true;
    a.asks[0].requests_per_unit = 1;
    a.asks[0].unit = RATION_UNIT_HOUR;
    assert_true(ask(r, &a, T0));
    assert_string_equal(out.statuses[0].rule, "shop");
    assert_false(ask(r, &a, T0));
    assert_true(out.statuses[0].over);
    a.request.domain = "else";
    a.request.domain_len = 4;
    assert_true(ask(r, &a, T0));
    assert_true(ask(r, &a, T0));
    assert_false(out.statuses[0].limited);
    ration_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_limit_may_come_with_the_descriptor),
        cmocka_unit_test(a_given_limit_of_another_unit_counts_in_the_rules),
        cmocka_unit_test(a_given_limit_needs_no_rule_but_a_domain),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
