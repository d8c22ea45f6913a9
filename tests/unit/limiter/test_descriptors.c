/* SPDX-License-Identifier: Apache-2.0 */
/* Envoy's requests: all descriptors together. */
#include "descriptors_fixture.h"

#include <ration/clients.h>

#define DAY (24 * 60 * MINUTE)

static void statuses_are_complete(void **state)
{
    struct ration *r = open_rules(shop_rules);
    int64_t now = T0 + 10 * SECOND, wall = ration_wall(r, now);

    (void)state;
    assert_true(ask_for(r, "shop", "user=ann", now));
    assert_true(out.statuses[0].limited);
    assert_false(out.statuses[0].over);
    assert_string_equal(out.statuses[0].name, "by-user");
    assert_string_equal(out.statuses[0].rule, "shop.user");
    assert_int_equal(out.statuses[0].requests_per_unit, 3);
    assert_int_equal(out.statuses[0].unit, RATION_UNIT_MINUTE);
    assert_int_equal(out.statuses[0].remaining, 2);
    assert_int_equal(out.statuses[0].reset_ns, MINUTE - wall % MINUTE);
    assert_int_equal(out.decided_by, 0);
    ration_close(r);
}

static void one_refused_descriptor_charges_no_other(void **state)
{
    struct ration *r = open_rules(shop_rules);
    struct asked a;

    (void)state;
    DESCRIBE(&a, "shop", "route=cart", "user=ann");
    for (int i = 0; i < 3; i++)
        assert_true(ask(r, &a, T0));
    for (int i = 0; i < 5; i++)
        assert_false(ask(r, &a, T0));
    assert_false(out.statuses[0].over);
    assert_true(out.statuses[1].over);
    assert_int_equal(out.statuses[0].remaining, 7);
    assert_int_equal(out.statuses[1].remaining, 0);
    assert_int_equal(out.decided_by, 1);
    ration_close(r);
}

static void unknown_domains_and_descriptors_have_no_limit(void **state)
{
    struct ration *r = open_rules(shop_rules);

    (void)state;
    assert_true(ask_for(r, "elsewhere", "user=ann", T0));
    assert_false(out.statuses[0].limited);
    assert_true(ask_for(r, "shop", "user=ann and=more", T0));
    assert_false(out.statuses[0].limited);
    assert_true(ask_for(r, "shop", "white=x", T0));
    assert_false(out.statuses[0].limited);
    assert_int_equal(out.statuses[0].remaining, 0);
    assert_int_equal(out.decided_by, -1);
    ration_close(r);
}

static void an_unlimited_descriptor_has_the_most_remaining(void **state)
{
    struct ration *r = open_rules(shop_rules);

    (void)state;
    assert_true(ask_for(r, "shop", "free=x", T0));
    assert_false(out.statuses[0].limited);
    assert_int_equal(out.statuses[0].remaining, UINT32_MAX);
    ration_close(r);
}

static void a_limit_of_nothing_always_refuses(void **state)
{
    struct ration *r = open_rules(shop_rules);

    (void)state;
    assert_false(ask_for(r, "shop", "zero=x", T0));
    assert_false(ask_for(r, "shop", "zero=x", T0 + DAY));
    assert_true(out.statuses[0].over);
    assert_true(out.statuses[0].reset_ns > 0 && out.statuses[0].reset_ns <= SECOND);
    ration_close(r);
}

static void shadow_mode_counts_and_answers_ok(void **state)
{
    struct ration *r = open_rules(shop_rules);

    (void)state;
    assert_true(ask_for(r, "shop", "shy=x", T0));
    assert_false(out.statuses[0].shadow);
    assert_true(ask_for(r, "shop", "shy=x", T0));
    assert_false(out.statuses[0].over);
    assert_true(out.statuses[0].shadow);
    assert_true(out.shadowed);
    assert_int_equal(out.statuses[0].remaining, 0);
    ration_close(r);
}

static void a_service_in_shadow_mode_refuses_no_request(void **state)
{
    struct ration *r = open_rules(shop_rules);

    (void)state;
    ration_shadow_set(r, true);
    assert_true(ask_for(r, "shop", "zero=x", T0));
    assert_true(out.statuses[0].over);
    assert_true(out.shadowed);
    ration_close(r);
}

static void named_limits_are_replaced(void **state)
{
    struct ration *r =
        open_rules("domain: d\n"
                   "descriptors:\n"
                   "  - key: all\n"
                   "    rate_limit: {unit: minute, requests_per_unit: 1, name: general}\n"
                   "  - key: vip\n"
                   "    rate_limit:\n"
                   "      unit: minute\n"
                   "      requests_per_unit: 4\n"
                   "      replaces: [{name: general}]\n");
    struct asked a;

    (void)state;
    DESCRIBE(&a, "d", "all=x", "vip=x");
    for (int i = 0; i < 4; i++)
        assert_true(ask(r, &a, T0));
    assert_false(out.statuses[0].limited);
    assert_false(ask(r, &a, T0));
    assert_true(ask_for(r, "d", "all=x", T0)); /* was not charged */
    assert_false(ask_for(r, "d", "all=x", T0));
    ration_close(r);
}

static void the_same_descriptor_twice_is_charged_twice(void **state)
{
    struct ration *r = open_rules(shop_rules);
    struct asked a;

    (void)state;
    DESCRIBE(&a, "shop", "user=ann", "user=ann");
    assert_true(ask(r, &a, T0));
    assert_false(ask(r, &a, T0)); /* one is left, two are wanted */
    assert_true(ask_for(r, "shop", "user=ann", T0));
    assert_false(ask_for(r, "shop", "user=ann", T0));
    ration_close(r);
}

static void requests_that_make_no_sense_are_errors(void **state)
{
    struct ration *r = open_rules(shop_rules);
    struct asked a;

    (void)state;
    DESCRIBE(&a, "", "user=ann");
    assert_int_equal(ration_decide_descriptors(r, &a.request, T0, &out), RATION_EINVAL);
    DESCRIBE(&a, "shop", "user=ann");
    a.request.count = 0;
    assert_int_equal(ration_decide_descriptors(r, &a.request, T0, &out), RATION_EINVAL);
    a.request.count = RATION_DESCRIPTORS_MAX + 1;
    assert_int_equal(ration_decide_descriptors(r, &a.request, T0, &out), RATION_EINVAL);
    DESCRIBE(&a, "shop", "user=ann", "");
    assert_int_equal(ration_decide_descriptors(r, &a.request, T0, &out), RATION_EINVAL);
    DESCRIBE(&a, "shop", "user=ann");
    a.asks[0].limit_given = true;
    assert_int_equal(ration_decide_descriptors(r, &a.request, T0, &out), RATION_EINVAL);
    assert_true(ask_for(r, "shop", "user=ann", T0)); /* nothing was charged */
    assert_int_equal(out.statuses[0].remaining, 2);
    ration_close(r);
}

static void without_rules_everything_is_allowed(void **state)
{
    struct ration *r = open_limits(NULL, 0);

    (void)state;
    assert_true(ask_for(r, "shop", "user=ann", T0));
    assert_false(out.statuses[0].limited);
    ration_close(r);
}

static void a_queue_delays_and_can_be_left(void **state)
{
    struct ration *r = open_rules("domain: d\n"
                                  "descriptors:\n"
                                  "  - key: k\n"
                                  "    rate_limit: {limit: 10 per second queue 5}\n");
    struct asked a;

    (void)state;
    DESCRIBE(&a, "d", "k=x");
    assert_true(ask(r, &a, T0));
    assert_int_equal(out.delay_ns, 0);
    assert_true(ask(r, &a, T0));
    assert_int_equal(out.delay_ns, SECOND / 10);
    assert_int_equal(ration_descriptors_give_back(r, &out, T0), 0);
    a.asks[0].hits_given = true; /* a look does not wait */
    a.request.max_wait_ns = 1;
    assert_true(ask(r, &a, T0));
    assert_int_equal(out.delay_ns, 0);
    a.asks[0].hits_given = false;
    a.request.max_wait_ns = 0;
    assert_true(ask(r, &a, T0));
    assert_int_equal(out.delay_ns, SECOND / 10);
    a.request.max_wait_ns = SECOND / 10;
    assert_false(ask(r, &a, T0)); /* 200 ms are too long */
    a.request.max_wait_ns = SECOND;
    assert_true(ask(r, &a, T0));
    ration_close(r);
}

static void a_banned_client_is_refused(void **state)
{
    struct ration *r = open_rules(shop_rules);
    struct ration_attribute attribute = {"user", 4, "ann", 3};
    struct ration_ban ban = {.attributes = &attribute, .count = 1, .reason = "", .reason_len = 0};
    struct asked a;

    (void)state;
    assert_int_equal(ration_ban_set(r, &ban, NULL), 0);
    DESCRIBE(&a, "shop", "route=cart", "user=ann");
    assert_false(ask(r, &a, T0));
    assert_true(out.statuses[1].over);
    assert_false(out.statuses[0].over);
    assert_true(ask_for(r, "shop", "route=cart", T0));
    assert_int_equal(out.statuses[0].remaining, 9);
    ration_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statuses_are_complete),
        cmocka_unit_test(one_refused_descriptor_charges_no_other),
        cmocka_unit_test(unknown_domains_and_descriptors_have_no_limit),
        cmocka_unit_test(an_unlimited_descriptor_has_the_most_remaining),
        cmocka_unit_test(a_limit_of_nothing_always_refuses),
        cmocka_unit_test(shadow_mode_counts_and_answers_ok),
        cmocka_unit_test(a_service_in_shadow_mode_refuses_no_request),
        cmocka_unit_test(named_limits_are_replaced),
        cmocka_unit_test(the_same_descriptor_twice_is_charged_twice),
        cmocka_unit_test(requests_that_make_no_sense_are_errors),
        cmocka_unit_test(without_rules_everything_is_allowed),
        cmocka_unit_test(a_queue_delays_and_can_be_left),
        cmocka_unit_test(a_banned_client_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
