/* SPDX-License-Identifier: Apache-2.0 */
/* What is counted of decisions. */
#include "fixture.h"

enum { API, WATCHED };

static struct ration *open_some(void)
{
    const struct ration_named limits[] = {
        [API] = named("api", "10 per second"),
        [WATCHED] = flagged(named("watched", "1 per minute"), RATION_SHADOW),
    };

    return open_limits(limits, COUNT(limits));
}

static void decisions_are_counted_in_all_and_per_limit(void **state)
{
    struct ration *r = open_some();
    struct ration_limit ad_hoc = named("", "1 per minute").limit;
    struct ration_charge c = {.ad_hoc = &ad_hoc, .key = "k", .key_len = 1, .cost = 1};
    struct ration_totals t;

    (void)state;
    ration_totals(r, &t);
    assert_int_equal(t.allowed + t.refused + t.shadowed + t.errors, 0);
    assert_true(t.block_rate == 0);
    take(r, API, "me", 10, T0);
    take(r, API, "me", 1, T0);
    take(r, WATCHED, "me", 1, T0);
    take(r, WATCHED, "me", 1, T0);
    ration_take(r, &c, T0);
    ration_take(r, &c, T0);

    ration_totals(r, &t);
    assert_int_equal(t.allowed, 4);
    assert_int_equal(t.refused, 2);
    assert_int_equal(t.shadowed, 1);
    assert_true(t.block_rate > 0.33 && t.block_rate < 0.34);
    assert_int_equal(ration_limit_totals(r, API, &t), 0);
    assert_int_equal(t.allowed, 1);
    assert_int_equal(t.refused, 1);
    assert_int_equal(ration_limit_totals(r, WATCHED, &t), 0);
    assert_int_equal(t.allowed, 2);
    assert_int_equal(t.refused, 0);
    assert_int_equal(t.shadowed, 1);
    assert_int_equal(ration_limit_totals(r, UINT32_MAX, &t), 0);
    assert_int_equal(t.refused, 1);
    assert_int_equal(ration_limit_totals(r, 99, &t), RATION_EINVAL);
    ration_close(r);
}

static void a_check_is_one_decision_of_several_limits(void **state)
{
    struct ration *r = open_some();
    struct ration_charge c[] = {charge(API, "me", 5), charge(WATCHED, "me", 1)};
    struct ration_decision d;
    struct ration_totals t;

    (void)state;
    for (int i = 0; i < 3; i++)
        assert_int_equal(ration_check(r, c, 2, T0, &d), 0);
    ration_totals(r, &t);
    assert_int_equal(t.allowed, 2);
    assert_int_equal(t.refused, 1);
    assert_int_equal(t.shadowed, 1);
    assert_int_equal(ration_limit_totals(r, API, &t), 0);
    assert_int_equal(t.allowed, 2);
    assert_int_equal(t.refused, 1);
    assert_int_equal(ration_limit_totals(r, WATCHED, &t), 0);
    assert_int_equal(t.allowed, 2); /* the refused request never came to it */
    assert_int_equal(t.shadowed, 1);
    ration_close(r);
}

static void looks_are_not_decisions(void **state)
{
    struct ration *r = open_some();
    struct ration_totals t;

    (void)state;
    left(r, API, "me", T0);
    ration_totals(r, &t);
    assert_int_equal(t.allowed + t.refused, 0);
    ration_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(decisions_are_counted_in_all_and_per_limit),
        cmocka_unit_test(a_check_is_one_decision_of_several_limits),
        cmocka_unit_test(looks_are_not_decisions),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
