/* SPDX-License-Identifier: Apache-2.0 */
/* Descriptors in quota mode: over only if all are. */
#include "descriptors_fixture.h"

static const char quotas[] =
    "domain: q\n"
    "descriptors:\n"
    "  - {key: a, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}\n"
    "  - {key: b, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 3}}\n"
    "  - {key: c, rate_limit: {unit: minute, requests_per_unit: 2}}\n";

static void quotas_refuse_only_together(void **state)
{
    struct ration *r = open_rules(quotas);
    struct asked a;

    (void)state;
    DESCRIBE(&a, "q", "a=x", "b=x");
    assert_true(ask(r, &a, T0));
    assert_true(ask(r, &a, T0));
    assert_true(out.statuses[0].over);
    assert_false(out.statuses[1].over);
    assert_true(ask(r, &a, T0));
    assert_false(ask(r, &a, T0));
    assert_true(out.statuses[0].over);
    assert_true(out.statuses[1].over);
    ration_close(r);
}

static void a_single_quota_refuses(void **state)
{
    struct ration *r = open_rules(quotas);

    (void)state;
    assert_true(ask_for(r, "q", "a=x", T0));
    assert_false(ask_for(r, "q", "a=x", T0));
    ration_close(r);
}

static void any_other_descriptor_refuses_beside_quotas(void **state)
{
    struct ration *r = open_rules(quotas);
    struct asked a;

    (void)state;
    DESCRIBE(&a, "q", "b=x", "c=x");
    assert_true(ask(r, &a, T0));
    assert_true(ask(r, &a, T0));
    assert_false(ask(r, &a, T0));
    assert_false(out.statuses[0].over);
    assert_int_equal(out.statuses[0].remaining, 1);
    ration_close(r);
}

static void a_quota_in_shadow_mode_never_refuses(void **state)
{
    struct ration *r = open_rules("domain: shop\n"
                                  "descriptors:\n"
                                  "  - key: a\n"
                                  "    shadow_mode: true\n"
                                  "    quota_mode: true\n"
                                  "    rate_limit: {unit: hour, requests_per_unit: 1}\n"
                                  "  - key: b\n"
                                  "    quota_mode: true\n"
                                  "    rate_limit: {unit: hour, requests_per_unit: 2}\n");
    struct asked a;

    (void)state;
    DESCRIBE(&a, "shop", "a=1");
    for (int i = 0; i < 3; i++) {
        assert_true(ask(r, &a, T0));
        assert_false(out.statuses[0].over);
    }
    DESCRIBE(&a, "shop", "a=1", "b=1");
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ask(r, &a, T0), i < 2); /* b alone decides */
        assert_false(out.statuses[0].over);
    }
    ration_close(r);
}

static void a_service_in_quota_mode_refuses_when_all_are_over(void **state)
{
    struct ration *r = open_rules(shop_rules);
    struct asked a;

    (void)state;
    DESCRIBE(&a, "shop", "user=ann", "route=cart"); /* 3 and 10 */
    a.request.quota_mode = true;
    for (int i = 0; i < 10; i++)
        assert_true(ask(r, &a, T0));
    assert_true(out.statuses[0].over);
    assert_false(ask(r, &a, T0));
    ration_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quotas_refuse_only_together),
        cmocka_unit_test(a_single_quota_refuses),
        cmocka_unit_test(any_other_descriptor_refuses_beside_quotas),
        cmocka_unit_test(a_quota_in_shadow_mode_never_refuses),
        cmocka_unit_test(a_service_in_quota_mode_refuses_when_all_are_over),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
