/* SPDX-License-Identifier: Apache-2.0 */
/* Requests under rules: which limits apply, what is charged and what is not. */
#include "rules_fixture.h"

#include <stdio.h>

/* --- several rules at once -------------------------------------------------------------- */

static const char layers[] = "limits:\n"
                             "  - name: per-ip\n"
                             "    key: ip\n"
                             "    limit: 100 per second\n"
                             "  - name: per-user\n"
                             "    key: user\n"
                             "    limit: 1000 per hour\n"
                             "  - name: per-endpoint\n"
                             "    key: [method, path]\n"
                             "    limit: 10000 per minute\n";

static void a_refusal_by_one_rule_charges_none(void **state)
{
    const char *ann = "ip=192.0.2.1 user=ann method=GET path=/a";
    struct ration *r = open_rules(layers);
    struct ration_outcome out;

    (void)state;
    assert_int_equal(admitted(r, ann, 150, T0), 100);
    out = decide(r, ann, T0);
    assert_false(out.decision.allowed);
    assert_string_equal(out.rule, "per-ip");
    assert_int_equal(out.kind, RATION_BY_LIMITS);
    assert_int_equal(out.limit_count, 3);
    assert_int_equal(out.decision.verdict.limit, 100);
    assert_int_equal(out.decision.verdict.retry_after_ns, SECOND / 100);
    assert_int_equal(left_of(r, "per-user", ann, T0), 900);
    assert_int_equal(left_of(r, "per-endpoint", ann, T0), 9900);
    /* Another address, the same user. */
    assert_int_equal(admitted(r, "ip=192.0.2.2 user=ann method=GET path=/a", 1, T0), 1);
    assert_int_equal(left_of(r, "per-user", ann, T0), 899);
    ration_close(r);
}

static void a_user_over_the_hour_spends_nothing_of_the_address(void **state)
{
    struct ration *r = open_rules(layers);
    char words[80];
    unsigned count = 0;

    (void)state;
    for (unsigned i = 0; i < 1100; i++) {
        snprintf(words, sizeof words, "ip=192.0.2.%u user=ann method=GET path=/a", i % 11);
        count += decide(r, words, T0).decision.allowed;
    }
    assert_int_equal(count, 1000);
    assert_string_equal(decide(r, words, T0).rule, "per-user");
    /* 1000 over 11 addresses: 90 or 91 each. */
    assert_true(left_of(r, "per-ip", words, T0) >= 9);
    assert_int_equal(left_of(r, "per-endpoint", words, T0), 9000);
    ration_close(r);
}

static void an_absent_key_leaves_the_rule_out(void **state)
{
    struct ration *r = open_rules(layers);

    (void)state;
    assert_int_equal(decide(r, "ip=192.0.2.1", T0).limit_count, 1);
    assert_int_equal(decide(r, "colour=red", T0).kind, RATION_BY_NO_RULE);
    assert_string_equal(decide(r, "colour=red", T0).rule, "");
    ration_close(r);
}

/* An API key that looks like an address does not spend the budget of that address. */
static void the_attribute_that_was_chosen_is_part_of_the_key(void **state)
{
    struct ration *r = open_rules("limits:\n"
                                  "  - name: either\n"
                                  "    key: api_key or ip\n"
                                  "    limit: 5 per minute\n");

    (void)state;
    assert_int_equal(admitted(r, "api_key=192.0.2.7 ip=198.51.100.1", 9, T0), 5);
    assert_int_equal(admitted(r, "ip=192.0.2.7", 9, T0), 5);
    assert_int_equal(admitted(r, "api_key=192.0.2.7 ip=198.51.100.2", 1, T0), 0);
    ration_close(r);
}

static void two_limits_of_one_rule_both_hold(void **state)
{
    struct ration *r = open_rules("limits:\n"
                                  "  - name: both\n"
                                  "    key: user\n"
                                  "    limit: [10 per second, 25 per minute]\n"
                                  "    algorithm: fixed-window\n");
    struct ration_totals totals;

    (void)state;
    assert_int_equal(admitted(r, "user=ann", 20, T0), 10);
    assert_int_equal(admitted(r, "user=ann", 20, T0 + SECOND), 10);
    assert_int_equal(admitted(r, "user=ann", 20, T0 + 2 * SECOND), 5);
    assert_int_equal(ration_rule_totals(r, "both", 4, &totals), 0);
    assert_int_equal(totals.allowed, 25);
    assert_int_equal(totals.refused, 35);
    ration_close(r);
}

static void looking_charges_and_counts_nothing(void **state)
{
    struct ration *r = open_rules(layers);
    const char *ann = "ip=192.0.2.1 user=ann method=GET path=/a";
    struct ration_totals totals;

    (void)state;
    for (unsigned i = 0; i < 200; i++)
        assert_true(look(r, ann, T0).decision.allowed);
    assert_int_equal(left_of(r, "per-ip", ann, T0), 100);
    ration_totals(r, &totals);
    assert_int_equal(totals.allowed + totals.refused, 0);
    ration_close(r);
}

/* --- tiers -------------------------------------------------------------------------------- */

static const char plans[] = "limits:\n"
                            "  - name: api\n"
                            "    key: user\n"
                            "    limit:\n"
                            "      by: plan\n"
                            "      free: 10 per minute\n"
                            "      basic: 5 per second\n"
                            "      pro: [50 per hour, 20 per second]\n"
                            "      enterprise: unlimited\n"
                            "      default: free\n";

static void the_tier_chooses_the_limit(void **state)
{
    struct ration *r = open_rules(plans);
    struct ration_outcome out;

    (void)state;
    assert_int_equal(admitted(r, "user=a plan=free", 60, T0), 10);
    assert_int_equal(admitted(r, "user=b plan=basic", 60, T0), 5);
    assert_int_equal(admitted(r, "user=c plan=pro", 60, T0), 20);
    assert_int_equal(admitted(r, "user=d", 60, T0), 10);
    assert_int_equal(admitted(r, "user=e plan=unheard-of", 60, T0), 10);
    out = decide(r, "user=a plan=enterprise", T0);
    assert_true(out.decision.allowed);
    assert_int_equal(out.kind, RATION_BY_LIMITS);
    assert_int_equal(out.limit_count, 0);
    assert_string_equal(out.rule, "api");
    assert_true(out.decision.verdict.remaining == UINT64_MAX);
    ration_close(r);
}

static void flapping_between_tiers_mints_nothing(void **state)
{
    static const char *const tiers[] = {"user=ann plan=free", "user=ann plan=basic",
                                        "user=ann plan=pro"};
    struct ration *r = open_rules(plans);
    unsigned count = 0;

    (void)state;
    for (unsigned i = 0; i < 300; i++)
        count += decide(r, tiers[i % 3], T0).decision.allowed;
    assert_true(count <= 20);
    assert_int_equal(admitted(r, "user=ann plan=free", 10, T0), 0);
    ration_close(r);
}

static void every_admission_counts_once_in_each_state_of_other_tiers(void **state)
{
    struct ration *r = open_rules("limits:\n"
                                  "  - name: api\n"
                                  "    key: user\n"
                                  "    algorithm: fixed-window\n"
                                  "    limit:\n"
                                  "      by: plan\n"
                                  "      one: [100 per minute, 1000 per hour]\n"
                                  "      two: [100 per 2 minutes, 1000 per 2 hours]\n"
                                  "      three: 1000 per 3 hours\n"
                                  "      default: one\n");
    struct ration_outcome out;

    (void)state;
    assert_int_equal(admitted(r, "user=ann plan=one", 10, T0), 10);
    out = look(r, "user=ann plan=two", T0);
    assert_int_equal(out.limits[0].verdict.remaining, 90);
    assert_int_equal(out.limits[1].verdict.remaining, 990);
    /* The share of the limit in the same place: a tenth of 1000. */
    assert_int_equal(left_of(r, "api", "user=ann plan=three", T0), 900);
    ration_close(r);
}

/* --- shadow mode, lists ---------------------------------------------------------------------- */

static void a_shadow_rule_never_refuses_and_says_so(void **state)
{
    struct ration *r =
        open_rules("limits:\n"
                   "  - { name: trial, key: user, limit: 5 per hour, mode: shadow }\n"
                   "  - { name: real, key: user, limit: 8 per hour }\n");
    struct ration_totals totals;

    (void)state;
    for (unsigned i = 0; i < 12; i++) {
        struct ration_outcome out = decide(r, "user=ann", T0);

        assert_int_equal(out.decision.allowed, i < 8);
        assert_int_equal(out.shadow_refused, i >= 5 && i < 8);
        assert_string_equal(out.rule, "real");
        assert_true(out.limits[0].shadow);
        assert_int_equal(out.limits[0].verdict.allowed, i < 5);
    }
    assert_int_equal(ration_rule_totals(r, "trial", 5, &totals), 0);
    assert_int_equal(totals.allowed, 8);
    assert_int_equal(totals.shadowed, 3);
    assert_int_equal(totals.refused, 0);
    ration_totals(r, &totals);
    assert_int_equal(totals.allowed, 8);
    assert_int_equal(totals.refused, 4);
    assert_int_equal(totals.shadowed, 3);
    ration_close(r);
}

static void a_shadow_rule_reports_its_delay(void **state)
{
    struct ration *r =
        open_rules("limits:\n"
                   "  - { name: line, key: user, limit: 1 per second queue 2, mode: shadow }\n"
                   "  - { name: slow, key: user, limit: 4 per hour, mode: shadow,\n"
                   "      throttle: { from: 50%, max_delay: 10s } }\n"
                   "  - { name: real, key: user, limit: 8 per hour }\n");
    const int64_t expected[] = {0, SECOND, 5 * SECOND, 10 * SECOND, 0};
    struct ration_totals totals;

    (void)state;
    for (unsigned i = 0; i < 5; i++) {
        struct ration_outcome out = decide(r, "user=ann", T0);

        assert_true(out.decision.allowed);
        assert_int_equal(out.delay_ns, 0);
        assert_int_equal(out.shadow_delay_ns, expected[i]);
        assert_int_equal(out.shadow_refused, i >= 3);
        assert_int_equal(out.limits[1].verdict.delay_ns, i == 1 ? 0 : expected[i]);
    }
    assert_int_equal(ration_rule_totals(r, "slow", 4, &totals), 0);
    assert_int_equal(totals.shadow_delayed, 2);
    assert_int_equal(totals.delayed, 0);
    assert_int_equal(ration_rule_totals(r, "real", 4, &totals), 0);
    assert_int_equal(totals.shadow_delayed, 0);
    ration_totals(r, &totals);
    assert_int_equal(totals.shadow_delayed, 3);
    ration_close(r);
}

static void a_service_in_shadow_mode_reports_its_delay(void **state)
{
    struct ration *r = open_rules("mode: shadow\n"
                                  "limits:\n"
                                  "  - { name: line, key: user, limit: 1 per second queue 2 }\n");
    struct ration_outcome out = decide(r, "user=ann", T0);

    (void)state;
    assert_int_equal(out.shadow_delay_ns, 0);
    out = decide(r, "user=ann", T0);
    assert_int_equal(out.shadow_delay_ns, SECOND);
    assert_int_equal(out.delay_ns, 0);
    decide(r, "user=ann", T0);
    out = decide(r, "user=ann", T0);
    assert_true(out.shadow_refused);
    assert_int_equal(out.shadow_delay_ns, 0);
    ration_close(r);
}

static void a_service_in_shadow_mode_admits_everything(void **state)
{
    struct ration *r = open_rules("mode: shadow\n"
                                  "deny:\n"
                                  "  - { ip: 192.0.2.66 }\n"
                                  "limits:\n"
                                  "  - { name: a, key: user, limit: 5 per hour }\n"
                                  "  - { name: b, key: none, limit: 10 per hour }\n");
    struct ration_outcome out;

    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        out = decide(r, "user=ann", T0);
        assert_true(out.decision.allowed);
        assert_int_equal(out.shadow_refused, i >= 5);
        assert_int_equal(out.decision.verdict.retry_after_ns, 0);
    }
    /* As if enforced: what would have been refused is not charged. */
    assert_int_equal(left_of(r, "b", "user=ann", T0), 5);
    out = decide(r, "ip=192.0.2.66", T0);
    assert_true(out.decision.allowed);
    assert_true(out.shadow_refused);
    assert_int_equal(out.kind, RATION_BY_DENY_LIST);
    ration_close(r);
}

static void lists_come_before_limits(void **state)
{
    struct ration *r = open_rules("allow:\n"
                                  "  - { ip: 10.0.0.0/8 }\n"
                                  "deny:\n"
                                  "  - { ip: 10.6.6.6 }\n"
                                  "limits:\n"
                                  "  - { name: a, key: ip, limit: 1 per hour }\n");
    struct ration_outcome out;

    (void)state;
    assert_int_equal(admitted(r, "ip=10.1.1.1", 10, T0), 10);
    out = decide(r, "ip=10.1.1.1", T0);
    assert_int_equal(out.kind, RATION_BY_ALLOW_LIST);
    assert_int_equal(out.limit_count, 0);
    out = decide(r, "ip=10.6.6.6", T0);
    assert_int_equal(out.kind, RATION_BY_DENY_LIST);
    assert_false(out.decision.allowed);
    assert_true(out.decision.verdict.retry_after_ns == RATION_NEVER);
    assert_int_equal(out.status, 403);
    assert_int_equal(admitted(r, "ip=192.0.2.1", 10, T0), 1);
    ration_close(r);
}

/* --- calendars, costs ------------------------------------------------------------------------ */

#define HOUR (60 * MINUTE)
/* 2023-11-30T23:00:00Z, midnight in Rome: the month ends. */
#define DECEMBER (INT64_C(1701385200) * SECOND)

static void a_monthly_quota_ends_with_the_month_there(void **state)
{
    struct ration *r =
        open_rules("limits:\n"
                   "  - { name: m, key: user, limit: 5 per calendar month Europe/Rome }\n");

    (void)state;
    assert_int_equal(admitted(r, "user=ann", 9, T0), 5);
    assert_int_equal(admitted(r, "user=ann", 9, DECEMBER - SECOND), 0);
    assert_int_equal(admitted(r, "user=ann", 9, DECEMBER + SECOND), 5);
    ration_close(r);
}

/* No earlier than the month's end, at most an hour later, and not all at once. */
static void spread_resets_do_not_herd(void **state)
{
    struct ration *r = open_rules("limits:\n"
                                  "  - name: m\n"
                                  "    key: user\n"
                                  "    limit: 5 per calendar month Europe/Rome\n"
                                  "    spread: 1h\n");
    unsigned by_quarter[4] = {0};
    char words[32];

    (void)state;
    for (unsigned i = 0; i < 200; i++) {
        snprintf(words, sizeof words, "user=%u", i);
        int64_t reset = decide(r, words, T0).decision.verdict.reset_after_ns;
        int64_t late = T0 + reset - DECEMBER;

        assert_true(late > -SECOND && late < HOUR + SECOND);
        by_quarter[late < 0 ? 0 : late >= HOUR ? 3 : late / (HOUR / 4)]++;
        /* The same for every request of the key. */
        assert_true(decide(r, words, T0).decision.verdict.reset_after_ns == reset);
    }
    for (unsigned i = 0; i < 4; i++)
        assert_true(by_quarter[i] > 25);
    ration_close(r);
}

static void the_cost_comes_from_an_attribute_up_to_a_cap(void **state)
{
    struct ration *r = open_rules("limits:\n"
                                  "  - name: c\n"
                                  "    key: user\n"
                                  "    limit: 100 per hour\n"
                                  "    cost: { attribute: tokens, default: 2, max: 40 }\n");

    (void)state;
    assert_int_equal(decide(r, "user=ann tokens=10", T0).decision.verdict.remaining, 90);
    assert_int_equal(decide(r, "user=ann", T0).decision.verdict.remaining, 88);
    assert_int_equal(decide(r, "user=ann tokens=many", T0).decision.verdict.remaining, 86);
    assert_int_equal(decide(r, "user=ann tokens=1000000", T0).decision.verdict.remaining, 46);
    assert_int_equal(decide(r, "user=ann tokens=999", T0).decision.verdict.remaining, 6);
    assert_false(decide(r, "user=ann tokens=7", T0).decision.allowed);
    assert_int_equal(decide(r, "user=ann tokens=6", T0).decision.verdict.remaining, 0);
    ration_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_refusal_by_one_rule_charges_none),
        cmocka_unit_test(a_user_over_the_hour_spends_nothing_of_the_address),
        cmocka_unit_test(an_absent_key_leaves_the_rule_out),
        cmocka_unit_test(the_attribute_that_was_chosen_is_part_of_the_key),
        cmocka_unit_test(two_limits_of_one_rule_both_hold),
        cmocka_unit_test(looking_charges_and_counts_nothing),
        cmocka_unit_test(the_tier_chooses_the_limit),
        cmocka_unit_test(flapping_between_tiers_mints_nothing),
        cmocka_unit_test(every_admission_counts_once_in_each_state_of_other_tiers),
        cmocka_unit_test(a_shadow_rule_never_refuses_and_says_so),
        cmocka_unit_test(a_shadow_rule_reports_its_delay),
        cmocka_unit_test(a_service_in_shadow_mode_reports_its_delay),
        cmocka_unit_test(a_service_in_shadow_mode_admits_everything),
        cmocka_unit_test(lists_come_before_limits),
        cmocka_unit_test(a_monthly_quota_ends_with_the_month_there),
        cmocka_unit_test(spread_resets_do_not_herd),
        cmocka_unit_test(the_cost_comes_from_an_attribute_up_to_a_cap),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
