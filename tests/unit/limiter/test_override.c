/* SPDX-License-Identifier: Apache-2.0 */
/* Overrides: one client has another limit, and no client gets anything twice. */
#include "clients_fixture.h"

#define HOUR (60 * MINUTE)

static uint64_t left_of_ann(struct ration *r, int64_t now_ns)
{
    return left_of(r, "a", "user=ann", now_ns);
}

/* --- whose limit, and which ------------------------------------------------------------------ */

static void one_client_has_another_limit(void **state)
{
    struct ration *r = open_rules(by_user);

    (void)state;
    set_limit(r, "a", "user=ann", "3 per hour");
    assert_int_equal(admitted(r, "user=ann", 20, T0), 3);
    assert_int_equal(admitted(r, "user=bob", 20, T0), 10);
    set_limit(r, "a", "user=cid", "1000 per hour burst 50");
    assert_int_equal(admitted(r, "user=cid", 99, T0), 50);
    struct ration_outcome out = decide(r, "user=cid", T0);

    assert_false(out.decision.allowed);
    assert_string_equal(out.rule, "a");
    assert_int_equal(out.decision.verdict.limit, 50);
    assert_int_equal(out.decision.verdict.retry_after_ns, HOUR / 1000);
    delete_limit(r, "a", "user=ann");
    assert_int_equal(try_delete(r, "a", "user=ann"), RATION_EGONE);
    ration_close(r);
}

static void unlimited_is_without_limits_and_zero_refuses_all(void **state)
{
    struct ration *r = open_rules(by_user);
    struct ration_outcome out;

    (void)state;
    set_limit(r, "a", "user=ann", "unlimited");
    assert_int_equal(admitted(r, "user=ann", 100, T0), 100);
    out = decide(r, "user=ann", T0);
    assert_int_equal(out.limit_count, 0);
    assert_string_equal(out.rule, "a");
    set_limit(r, "a", "user=ann", "0 per hour");
    assert_int_equal(admitted(r, "user=ann", 10, T0), 0);
    delete_limit(r, "a", "user=ann");
    assert_int_equal(left_of_ann(r, T0), 10);
    ration_close(r);
}

static void it_stands_for_all_limits_of_any_tier(void **state)
{
    struct ration *r = open_rules("limits:\n"
                                  "  - name: a\n"
                                  "    key: user\n"
                                  "    limit:\n"
                                  "      by: tier\n"
                                  "      free: [5 per second, 7 per hour]\n"
                                  "      pro: 100 per hour\n"
                                  "      max: unlimited\n"
                                  "      default: free\n");

    (void)state;
    set_limit(r, "a", "user=ann", "20 per minute");
    assert_int_equal(decide(r, "user=ann tier=free", T0).limit_count, 1);
    assert_int_equal(admitted(r, "user=ann tier=pro", 10, T0), 10);
    assert_int_equal(admitted(r, "user=ann tier=max", 30, T0), 9);
    assert_int_equal(admitted(r, "user=ann tier=free", 10, T0), 0);
    assert_int_equal(admitted(r, "user=bob tier=max", 30, T0), 30);
    delete_limit(r, "a", "user=ann");
    assert_int_equal(admitted(r, "user=ann tier=free", 10, T0), 0);
    ration_close(r);
}

static void the_algorithm_is_the_rules_unless_the_text_implies_another(void **state)
{
    static const struct {
        const char *limit;
        enum ration_algorithm algorithm;
    } texts[] = {
        {"20 per hour", RATION_FIXED_WINDOW},
        {"20 per hour burst 5", RATION_TOKEN_BUCKET},
        {"60 per hour in steps of 1 minute", RATION_TOKEN_BUCKET},
        {"20 per hour queue 5", RATION_LEAKY_BUCKET},
        {"20 per calendar day", RATION_FIXED_WINDOW},
        {"20 concurrent", RATION_CONCURRENCY},
    };
    struct ration *r = open_rules(by_user_window);

    (void)state;
    for (size_t i = 0; i < COUNT(texts); i++) {
        set_limit(r, "a", "user=ann", texts[i].limit);
        assert_int_equal(look(r, "user=ann", T0).limits[0].algorithm, texts[i].algorithm);
    }
    rules_at(r,
             "limits:\n  - { name: a, key: user, limit: 10 per hour, algorithm: sliding-window, "
             "sub_windows: 6 }\n",
             T0);
    set_limit(r, "a", "user=bob", "20 per hour");
    assert_int_equal(look(r, "user=bob", T0).limits[0].algorithm, RATION_SLIDING_WINDOW);
    ration_close(r);
}

static void what_else_the_rule_says_holds(void **state)
{
    struct ration *r = open_rules("limits:\n"
                                  "  - name: a\n"
                                  "    key: user\n"
                                  "    limit: 10 per hour\n"
                                  "    soft: 50%\n"
                                  "    response: { status: 503, message: later }\n");
    struct ration_outcome out;

    (void)state;
    set_limit(r, "a", "user=ann", "20 per day");
    assert_int_equal(admitted(r, "user=ann", 20, T0), 20);
    assert_true(decide(r, "user=ann", T0).soft);
    assert_int_equal(admitted(r, "user=ann", 20, T0), 9);
    out = decide(r, "user=ann", T0);
    assert_int_equal(out.status, 503);
    assert_string_equal(out.message, "later");
    ration_close(r);
}

static void places_are_held_and_released(void **state)
{
    struct ration *r = open_rules("limits:\n  - { name: a, key: user, limit: 1 concurrent }\n");
    struct ration_outcome one, two;

    (void)state;
    one = decide(r, "user=ann", T0);
    set_limit(r, "a", "user=ann", "2 concurrent");
    two = decide(r, "user=ann", T0);
    assert_true(one.decision.allowed && two.decision.allowed);
    assert_int_equal(admitted(r, "user=ann", 1, T0), 0);
    assert_int_equal(ration_outcome_release(r, &two, T0), 0);
    assert_int_equal(admitted(r, "user=ann", 2, T0), 1);
    assert_int_equal(ration_outcome_release(r, &one, T0), 0);
    ration_close(r);
}

/* --- never mints --------------------------------------------------------------------------------
 */

static void the_same_shape_shares_its_state(void **state)
{
    struct ration *r = open_rules(by_user);

    (void)state;
    assert_int_equal(admitted(r, "user=ann", 4, T0), 4);
    set_limit(r, "a", "user=ann", "100 per hour");
    assert_int_equal(left_of_ann(r, T0), 60); /* a bucket its share */
    assert_int_equal(admitted(r, "user=ann", 30, T0), 30);
    delete_limit(r, "a", "user=ann");
    assert_int_equal(left_of_ann(r, T0), 3);
    rules_at(r, by_user_window, T0);
    assert_int_equal(admitted(r, "user=bob", 4, T0), 4);
    set_limit(r, "a", "user=bob", "100 per hour");
    assert_int_equal(left_of(r, "a", "user=bob", T0), 96); /* a window its count */
    ration_close(r);
}

static void another_shape_starts_with_the_share_rounded_up(void **state)
{
    struct ration *r = open_rules(by_user);

    (void)state;
    assert_int_equal(admitted(r, "user=ann", 3, T0), 3);
    set_limit(r, "a", "user=ann", "7 per day");
    assert_int_equal(left_of_ann(r, T0), 4); /* 2.1 */
    assert_int_equal(admitted(r, "user=ann", 9, T0), 4);
    /* Counted under the rule, too, which therefore has nothing left. */
    delete_limit(r, "a", "user=ann");
    assert_int_equal(admitted(r, "user=ann", 9, T0), 0);
    assert_int_equal(admitted(r, "user=ann", 9, T0 + HOUR), 9);
    ration_close(r);
}

static void what_a_reload_has_retired_is_carried_over(void **state)
{
    struct ration *r = open_rules(by_user);

    (void)state;
    assert_int_equal(admitted(r, "user=ann", 10, T0), 10);
    rules_at(r, by_user_window, T0);
    set_limit(r, "a", "user=ann", "100 per day");
    assert_int_equal(admitted(r, "user=ann", 5, T0), 0);
    ration_close(r);
}

/* The rule's smaller state is full then: that is no reason to fill this one. */
static void setting_it_again_takes_nothing_away(void **state)
{
    struct ration *r = open_rules(by_user);

    (void)state;
    set_limit(r, "a", "user=ann", "1000 per day");
    assert_int_equal(admitted(r, "user=ann", 100, T0), 100);
    set_limit(r, "a", "user=ann", "1000 per day");
    assert_int_equal(left_of_ann(r, T0), 900);
    set_limit(r, "a", "user=ann", "2000 per day");
    assert_int_equal(left_of_ann(r, T0), 1800);
    set_limit(r, "a", "user=ann", "1000 per 2 days"); /* of another shape: the share */
    assert_int_equal(left_of_ann(r, T0), 900);
    ration_close(r);
}

struct flap {
    const char *rules, *limit;
    unsigned larger;
};

static void flapping_admits_no_more_than_the_larger(void **state)
{
    static const struct flap flaps[] = {
        {by_user, "100 per hour", 100},
        {by_user, "4 per hour", 10},
        {by_user, "100 per day", 100},
        {by_user, "5 per minute", 10},
        {by_user, "60 per minute burst 40", 40},
        {by_user, "1 per second queue 20", 21},
        {by_user_window, "100 per hour", 100},
        {by_user_window, "30 per day", 30},
        {by_user_window, "100 per minute burst 25", 25},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(flaps); i++)
        for (unsigned turn = 1; turn < 30; turn += 3) {
            struct ration *r = open_rules(flaps[i].rules);
            unsigned sum = 0;

            for (unsigned k = 0; k < 60; k++) {
                sum += admitted(r, "user=ann", turn, T0);
                set_limit(r, "a", "user=ann", flaps[i].limit);
                sum += admitted(r, "user=ann", turn, T0);
                delete_limit(r, "a", "user=ann");
            }
            if (sum > flaps[i].larger || sum == 0)
                fail_msg("%s: %u admitted in turns of %u", flaps[i].limit, sum, turn);
            ration_close(r);
        }
}

/* --- time
 * ------------------------------------------------------------------------------------------ */

static void an_expired_one_counts_no_more(void **state)
{
    struct ration *r = open_rules(by_user);
    struct ration_error error;

    (void)state;
    assert_int_equal(try_set(r, "a", "user=ann", "3 per hour", SECOND, &error), 0);
    assert_int_equal(look(r, "user=ann", T0 + SECOND - 1).decision.verdict.limit, 3);
    assert_int_equal(look(r, "user=ann", T0 + SECOND).decision.verdict.limit, 10);
    assert_int_equal(r->clients.overrides.live, 1);
    assert_int_equal(rn_clients_refresh_at(r, T0 + SECOND, &error), 0);
    assert_int_equal(r->clients.overrides.live, 0);
    assert_int_equal(r->shelf.book->client_index->overrides.live, 0);
    ration_close(r);
}

/* --- reloads
 * ---------------------------------------------------------------------------------------- */

static void they_survive_reloads_and_wait_for_their_rule(void **state)
{
    struct ration *r = open_rules(by_user);

    (void)state;
    set_limit(r, "a", "user=ann", "3 per hour");
    assert_int_equal(ration_rules_version(r), 1);
    rules_at(r, by_user_window, T0);
    assert_int_equal(look(r, "user=ann", T0).decision.verdict.limit, 3);
    rules_at(r, "limits:\n  - { name: b, key: user, limit: 10 per hour }\n", T0);
    assert_string_equal(overrides(r), "a user=ann 3 per hour inactive\n");
    assert_int_equal(look(r, "user=ann", T0).decision.verdict.limit, 10);
    /* The same name and another key is another rule. */
    rules_at(r, "limits:\n  - { name: a, key: [user, ip], limit: 10 per hour }\n", T0);
    assert_string_equal(overrides(r), "a user=ann 3 per hour inactive\n");
    rules_at(r, by_user, T0);
    assert_string_equal(overrides(r), "a user=ann 3 per hour\n");
    assert_int_equal(look(r, "user=ann", T0).decision.verdict.limit, 3);
    assert_int_equal(ration_rules_version(r), 5);
    rules_at(r, "limits:\n  - { name: b, key: user, limit: 10 per hour }\n", T0);
    delete_limit(r, "a", "user=ann"); /* also without the rule */
    assert_string_equal(overrides(r), "");
    ration_close(r);
}

static void an_address_does_not_become_a_network(void **state)
{
    struct ration *r =
        open_rules("limits:\n  - { name: a, key: { ip: { ipv6: 128 } }, limit: 10 per hour }\n");

    (void)state;
    set_limit(r, "a", "ip=2001:db8::1", "3 per hour");
    rules_at(r, "limits:\n  - { name: a, key: { ip: { ipv6: 64 } }, limit: 10 per hour }\n", T0);
    assert_string_equal(overrides(r), "a ip=2001:db8::1 3 per hour inactive\n");
    assert_int_equal(look(r, "ip=2001:db8::1", T0).decision.verdict.limit, 10);
    ration_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_client_has_another_limit),
        cmocka_unit_test(unlimited_is_without_limits_and_zero_refuses_all),
        cmocka_unit_test(it_stands_for_all_limits_of_any_tier),
        cmocka_unit_test(the_algorithm_is_the_rules_unless_the_text_implies_another),
        cmocka_unit_test(what_else_the_rule_says_holds),
        cmocka_unit_test(places_are_held_and_released),
        cmocka_unit_test(the_same_shape_shares_its_state),
        cmocka_unit_test(another_shape_starts_with_the_share_rounded_up),
        cmocka_unit_test(what_a_reload_has_retired_is_carried_over),
        cmocka_unit_test(setting_it_again_takes_nothing_away),
        cmocka_unit_test(flapping_admits_no_more_than_the_larger),
        cmocka_unit_test(an_expired_one_counts_no_more),
        cmocka_unit_test(they_survive_reloads_and_wait_for_their_rule),
        cmocka_unit_test(an_address_does_not_become_a_network),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
