/* SPDX-License-Identifier: Apache-2.0 */
/* What an operator can do to the state of a client. */
#include "rules_fixture.h"

#include <stdio.h>

static int reset(struct ration *r, const char *words, const char *rule, uint32_t *count)
{
    struct words w;

    split_words(&w, words);
    return ration_state_reset(r, &w.request, rule, rule ? strlen(rule) : 0, T0, count);
}

static int adjust(struct ration *r, const char *words, const char *rule, int64_t add)
{
    struct words w;

    split_words(&w, words);
    return ration_state_adjust(r, &w.request, rule, rule ? strlen(rule) : 0, add, T0);
}

static int set_remaining(struct ration *r, const char *words, const char *rule, uint64_t remaining)
{
    struct words w;

    split_words(&w, words);
    return ration_state_set_remaining(r, &w.request, rule, rule ? strlen(rule) : 0, remaining, T0);
}

static const char plans[] =
    "limits:\n"
    "  - name: api\n"
    "    key: user\n"
    "    limit:\n"
    "      by: plan\n"
    "      free: 10 per minute\n"
    "      pro: [500 per hour, 20 per second]\n"
    "      gold: unlimited\n"
    "      default: free\n"
    "  - { name: login, key: user, when: { path: /login }, limit: 5 per hour }\n"
    "  - { name: work, key: user, limit: 3 concurrent }\n";

/* --- reset ------------------------------------------------------------------------------------ */

static void a_reset_forgets_all_rules_that_apply(void **state)
{
    struct ration *r = open_rules(plans);
    uint32_t count = 0;

    (void)state;
    assert_int_equal(admitted(r, "user=ann path=/login", 3, T0), 3);
    assert_int_equal(admitted(r, "user=bob path=/login", 3, T0), 3);
    assert_int_equal(reset(r, "user=ann path=/login", NULL, &count), 0);
    assert_int_equal(count, 3);
    assert_int_equal(left_of(r, "api", "user=ann", T0), 10);
    assert_int_equal(left_of(r, "login", "user=ann path=/login", T0), 5);
    assert_int_equal(left_of(r, "work", "user=ann", T0), 3);
    assert_int_equal(left_of(r, "api", "user=bob", T0), 7); /* no other client changed */
    ration_close(r);
}

static void a_reset_of_one_rule_leaves_the_others(void **state)
{
    struct ration *r = open_rules(plans);
    uint32_t count = 0;

    (void)state;
    assert_int_equal(admitted(r, "user=ann path=/login", 3, T0), 3);
    assert_int_equal(reset(r, "user=ann path=/login", "login", &count), 0);
    assert_int_equal(count, 1);
    assert_int_equal(left_of(r, "login", "user=ann path=/login", T0), 5);
    assert_int_equal(left_of(r, "api", "user=ann", T0), 7);
    ration_close(r);
}

static void a_reset_forgets_what_was_spent_under_every_tier(void **state)
{
    struct ration *r = open_rules(plans);
    uint32_t count = 9;

    (void)state;
    decide(r, "user=ann plan=free", T0);
    decide(r, "user=ann plan=pro", T0);
    assert_int_equal(reset(r, "user=ann plan=gold", "api", &count), 0);
    assert_int_equal(count, 0); /* no limit applies to gold, */
    assert_int_equal(left_of(r, "api", "user=ann plan=free", T0), 10);
    struct ration_outcome out = look(r, "user=ann plan=pro", T0);

    assert_int_equal(out.limits[0].verdict.remaining, 500);
    assert_int_equal(out.limits[1].verdict.remaining, 20);
    ration_close(r);
}

static void what_was_spent_before_a_reload_is_forgotten_too(void **state)
{
    struct ration *r = open_rules("limits:\n  - { name: m, key: user, limit: 10 per minute }\n");

    (void)state;
    assert_int_equal(admitted(r, "user=ann", 10, T0), 10);
    rules_at(r, "limits:\n  - { name: m, key: user, limit: 100 per hour }\n", T0);
    assert_int_equal(reset(r, "user=ann", "m", NULL), 0);
    assert_int_equal(admitted(r, "user=ann", 200, T0), 100);
    ration_close(r);
}

/* --- adjusting ----------------------------------------------------------------------------------
 */

static void units_are_charged_and_given_back(void **state)
{
    static const char *const limits[] = {
        "limit: 50 per minute",
        "limit: 50 per minute in steps of 6s",
        "limit: 40000000 per 3 seconds burst 50",
        "limit: 10 per second queue 49",
        "limit: 50 per minute, algorithm: fixed-window",
        "limit: 50 per calendar month",
        "limit: 50 per minute, algorithm: sliding-log",
        "limit: 50 per minute, algorithm: sliding-window",
    };

    (void)state;
    for (size_t i = 0; i < COUNT(limits); i++) {
        char text[120];

        snprintf(text, sizeof text, "limits:\n  - { name: m, key: user, %s }\n", limits[i]);
        struct ration *r = open_rules(text);

        decide(r, "user=ann", T0);
        uint64_t full = left_of(r, "m", "user=ann", T0) + 1;

        assert_int_equal(adjust(r, "user=ann", "m", 20), 0);
        assert_int_equal(left_of(r, "m", "user=ann", T0), full - 21);
        assert_int_equal(adjust(r, "user=ann", "m", -5), 0);
        assert_int_equal(left_of(r, "m", "user=ann", T0), full - 16);
        assert_int_equal(set_remaining(r, "user=ann", "m", 7), 0);
        assert_int_equal(left_of(r, "m", "user=ann", T0), 7);
        assert_int_equal(set_remaining(r, "user=ann", "m", 30), 0);
        assert_int_equal(left_of(r, "m", "user=ann", T0), 30);
        assert_int_equal(admitted(r, "user=ann", 100, T0), 30);
        assert_int_equal(adjust(r, "user=ann", "m", INT64_MIN), 0);
        assert_int_equal(left_of(r, "m", "user=ann", T0), full);
        assert_int_equal(adjust(r, "user=ann", "m", INT64_MAX), 0);
        assert_int_equal(left_of(r, "m", "user=ann", T0), 0);
        assert_int_equal(set_remaining(r, "user=ann", "m", UINT64_MAX), 0);
        assert_int_equal(left_of(r, "m", "user=ann", T0), full);
        assert_int_equal(left_of(r, "m", "user=bob", T0), full);
        ration_close(r);
    }
}

static void the_soft_part_of_a_limit_stays_apart(void **state)
{
    struct ration *r = open_rules("limits:\n"
                                  "  - { name: s, key: user, limit: 100 per hour, soft: 10% }\n");

    (void)state;
    assert_int_equal(set_remaining(r, "user=ann", "s", 0), 0);
    assert_int_equal(left_of(r, "s", "user=ann", T0), 0);
    assert_int_equal(admitted(r, "user=ann", 50, T0), 10);
    assert_int_equal(set_remaining(r, "user=ann", "s", 200), 0);
    assert_int_equal(admitted(r, "user=ann", 200, T0), 110);
    ration_close(r);
}

static void all_limits_of_a_rule_and_its_tiers_are_adjusted(void **state)
{
    struct ration *r = open_rules(plans);

    (void)state;
    assert_int_equal(adjust(r, "user=ann plan=pro", "api", 4), 0);
    struct ration_outcome out = look(r, "user=ann plan=pro", T0);

    assert_int_equal(out.limits[0].verdict.remaining, 496);
    assert_int_equal(out.limits[1].verdict.remaining, 16);
    assert_true(left_of(r, "api", "user=ann plan=free", T0) <= 6);
    ration_close(r);
}

static void a_share_spent_before_a_reload_is_carried_over_first(void **state)
{
    struct ration *r = open_rules("limits:\n  - { name: m, key: user, limit: 10 per minute }\n");

    (void)state;
    assert_int_equal(admitted(r, "user=ann", 5, T0), 5);
    rules_at(r, "limits:\n  - { name: m, key: user, limit: 100 per hour }\n", T0);
    assert_int_equal(adjust(r, "user=ann", "m", 10), 0);
    assert_int_equal(left_of(r, "m", "user=ann", T0), 40);
    rules_at(r, "limits:\n  - { name: m, key: user, limit: 200 per day }\n", T0);
    assert_int_equal(set_remaining(r, "user=ann", "m", 150), 0);
    assert_int_equal(left_of(r, "m", "user=ann", T0), 150);
    assert_int_equal(admitted(r, "user=ann", 200, T0), 150);
    ration_close(r);
}

/* --- what cannot be
 * ------------------------------------------------------------------------------- */

static void unknown_rules_and_rules_that_do_not_apply_differ(void **state)
{
    struct ration *r = open_rules(plans), *empty = open_limits(NULL, 0);

    (void)state;
    assert_int_equal(reset(r, "user=ann", "logins", NULL), RATION_ENORULE);
    assert_int_equal(adjust(r, "user=ann", "logins", 1), RATION_ENORULE);
    assert_int_equal(reset(r, "user=ann path=/", "login", NULL), RATION_EUNMATCHED);
    assert_int_equal(set_remaining(r, "ip=192.0.2.1", "api", 1), RATION_EUNMATCHED);
    assert_int_equal(reset(r, "ip=192.0.2.1", NULL, NULL), 0);
    assert_int_equal(adjust(empty, "user=ann", "api", 1), RATION_ENORULE);
    assert_int_equal(adjust(empty, "user=ann", NULL, 1), 0);
    ration_close(r);
    ration_close(empty);
}

static void places_are_not_adjusted(void **state)
{
    struct ration *r = open_rules(plans);

    (void)state;
    assert_int_equal(adjust(r, "user=ann", "work", 1), RATION_EPLACES);
    assert_int_equal(set_remaining(r, "user=ann", "work", 1), RATION_EPLACES);
    assert_int_equal(adjust(r, "user=ann", NULL, 1), 0); /* there is another one */
    assert_int_equal(left_of(r, "work", "user=ann", T0), 3);
    assert_int_equal(left_of(r, "api", "user=ann", T0), 9);
    ration_close(r);
}

static void changing_a_state_is_no_decision(void **state)
{
    struct ration *r = open_rules(plans);
    struct ration_totals totals;

    (void)state;
    adjust(r, "user=ann", "api", 5);
    set_remaining(r, "user=ann", "api", 1);
    reset(r, "user=ann", NULL, NULL);
    ration_totals(r, &totals);
    assert_int_equal(totals.allowed + totals.refused + totals.errors, 0);
    assert_int_equal(ration_rule_totals(r, "api", 3, &totals), 0);
    assert_int_equal(totals.allowed + totals.refused + totals.errors, 0);
    ration_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_reset_forgets_all_rules_that_apply),
        cmocka_unit_test(a_reset_of_one_rule_leaves_the_others),
        cmocka_unit_test(a_reset_forgets_what_was_spent_under_every_tier),
        cmocka_unit_test(what_was_spent_before_a_reload_is_forgotten_too),
        cmocka_unit_test(units_are_charged_and_given_back),
        cmocka_unit_test(the_soft_part_of_a_limit_stays_apart),
        cmocka_unit_test(all_limits_of_a_rule_and_its_tiers_are_adjusted),
        cmocka_unit_test(a_share_spent_before_a_reload_is_carried_over_first),
        cmocka_unit_test(unknown_rules_and_rules_that_do_not_apply_differ),
        cmocka_unit_test(places_are_not_adjusted),
        cmocka_unit_test(changing_a_state_is_no_decision),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
