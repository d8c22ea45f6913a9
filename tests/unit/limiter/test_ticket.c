/* SPDX-License-Identifier: Apache-2.0 */
/* Tickets of reservations: what they are worth, and for how long. */
#include "ticket_fixture.h"

#include <stdlib.h>
#include <unistd.h>

/* --- reservations -------------------------------------------------------------------------- */

static void what_was_not_used_comes_back(void **state)
{
    struct ration *r = open_rules(tokens);
    struct slip slip;

    (void)state;
    reserve(r, "user=ann", 400, T0, &slip);
    assert_true(slip.out.decision.allowed);
    assert_int_equal(strspn(slip.text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                       "0123456789-_"),
                     strlen(slip.text));
    assert_int_equal(left_of(r, "minute", "user=ann", T0), 600);
    assert_int_equal(commit(r, &slip, 100, T0), 0);
    assert_int_equal(left_of(r, "minute", "user=ann", T0), 900);
    assert_int_equal(left_of(r, "day", "user=ann", T0), 4900);
    ration_close(r);
}

static void a_reservation_is_settled_once(void **state)
{
    struct ration *r = open_rules(tokens);
    struct slip first, second;

    (void)state;
    reserve(r, "user=ann", 400, T0, &first);
    reserve(r, "user=ann", 300, T0, &second);
    assert_int_equal(refund(r, &first, T0), 0);
    assert_int_equal(refund(r, &first, T0), RATION_EALREADY);
    assert_int_equal(commit(r, &first, 0, T0), RATION_EALREADY);
    assert_int_equal(left_of(r, "minute", "user=ann", T0), 700);
    assert_int_equal(
        ration_ticket_commit(r, second.text, strlen(second.text), true, 0, T0 + SECOND), 0);
    assert_int_equal(refund(r, &second, T0 + SECOND), RATION_EALREADY);
    assert_int_equal(left_of(r, "day", "user=ann", T0), 4700);
    ration_close(r);
}

static void after_its_time_the_charge_stands(void **state)
{
    struct ration *r = open_rules(tokens);
    struct slip slip;

    (void)state;
    reserve(r, "user=ann", 400, T0, &slip);
    assert_int_equal(refund(r, &slip, T0 + MINUTE), RATION_EGONE);
    assert_int_equal(commit(r, &slip, 1, T0 + 60 * MINUTE), RATION_EGONE);
    assert_int_equal(left_of(r, "day", "user=ann", T0 + 60 * MINUTE), 4600);
    ration_close(r);
}

static void more_than_was_reserved_is_charged_in_full(void **state)
{
    struct ration *r = open_rules(tokens);
    struct slip slip;

    (void)state;
    reserve(r, "user=ann", 400, T0, &slip);
    assert_int_equal(commit(r, &slip, 900, T0), 0);
    assert_int_equal(commit(r, &slip, 900, T0), RATION_EALREADY);
    assert_int_equal(left_of(r, "minute", "user=ann", T0), 100);
    reserve(r, "user=ann", 100, T0, &slip);
    assert_int_equal(commit(r, &slip, 600, T0), 0);
    assert_int_equal(left_of(r, "minute", "user=ann", T0), 0);
    reserve(r, "user=ann", 1, T0 + MINUTE / 4, &slip);
    assert_false(slip.out.decision.allowed); /* half a minute's worth is owed */
    assert_int_equal(left_of(r, "day", "user=ann", T0), 5000 - 900 - 600);
    ration_close(r);
}

static void a_rule_with_a_cost_of_its_own_is_not_charged_more(void **state)
{
    struct ration *r = open_rules("limits:\n"
                                  "  - { name: units, key: user, limit: 100 per hour }\n"
                                  "  - { name: calls, key: user, limit: 100 per hour, cost: 2 }\n");
    struct slip slip;

    (void)state;
    reserve(r, "user=ann", 50, T0, &slip);
    assert_int_equal(commit(r, &slip, 60, T0), 0);
    assert_int_equal(left_of(r, "units", "user=ann", T0), 40);
    assert_int_equal(left_of(r, "calls", "user=ann", T0), 98);
    ration_close(r);
}

static void a_rule_with_a_cost_of_its_own_keeps_at_most_that(void **state)
{
    struct ration *r = open_rules("limits:\n"
                                  "  - { name: units, key: user, limit: 100 per hour }\n"
                                  "  - { name: calls, key: user, limit: 100 per hour, cost: 2 }\n");
    struct slip slip;

    (void)state;
    reserve(r, "user=ann", 50, T0, &slip);
    assert_int_equal(left_of(r, "calls", "user=ann", T0), 98);
    assert_int_equal(commit(r, &slip, 10, T0), 0);
    assert_int_equal(left_of(r, "units", "user=ann", T0), 90);
    assert_int_equal(left_of(r, "calls", "user=ann", T0), 98);
    ration_close(r);
}

static void a_refusal_has_no_ticket_and_charges_nothing(void **state)
{
    struct ration *r = open_rules(tokens);
    struct slip slip;

    (void)state;
    reserve(r, "user=ann", 1001, T0, &slip);
    assert_false(slip.out.decision.allowed);
    assert_string_equal(slip.text, "");
    assert_int_equal(refund(r, &slip, T0), RATION_EINVAL);
    assert_int_equal(left_of(r, "minute", "user=ann", T0), 1000);
    ration_close(r);
}

static void without_a_rule_there_is_a_ticket_too(void **state)
{
    struct ration *r = open_rules(tokens);
    struct slip slip;

    (void)state;
    reserve(r, "ip=192.0.2.1", 7, T0, &slip);
    assert_true(slip.out.decision.allowed);
    assert_int_equal(commit(r, &slip, 8, T0), 0);
    assert_int_equal(commit(r, &slip, 3, T0), RATION_EALREADY);
    ration_close(r);
}

static void a_timeout_out_of_range_is_refused(void **state)
{
    static const int64_t bad[] = {0, -1, 999999, INT64_C(86400) * SECOND + 1, INT64_MAX};
    struct ration *r = open_rules(tokens);
    struct ration_limit limit = named("", "5 per minute").limit;
    struct ration_charge c = {.ad_hoc = &limit, .key = "k", .key_len = 1, .cost = 1};
    struct slip slip;
    struct words w;

    (void)state;
    split_words(&w, "user=ann");
    for (size_t i = 0; i < COUNT(bad); i++) {
        assert_int_equal(ration_decide_reserve(r, &w.request, bad[i], T0, &slip.out, slip.text),
                         RATION_EINVAL);
        assert_int_equal(ration_reserve_ticket(r, &c, bad[i], T0, slip.text), RATION_EINVAL);
    }
    assert_int_equal(left_of(r, "minute", "user=ann", T0), 1000);
    ration_close(r);
}

/* --- across reloads and processes ---------------------------------------------------------------
 */

static void a_reload_that_keeps_the_rule_keeps_the_ticket(void **state)
{
    struct ration *r = open_rules(tokens);
    struct slip slip;

    (void)state;
    reserve(r, "user=ann", 400, T0, &slip);
    rules_at(r, tokens, T0);
    assert_int_equal(commit(r, &slip, 100, T0), 0);
    assert_int_equal(left_of(r, "minute", "user=ann", T0), 900);
    ration_close(r);
}

static void what_a_rule_that_is_gone_was_charged_is_burnt(void **state)
{
    struct ration *r = open_rules(tokens);
    struct slip both, one, kept;

    (void)state;
    reserve(r, "user=ann", 400, T0, &both);
    reserve(r, "user=ann", 100, T0, &one);
    reserve(r, "user=ann", 100, T0, &kept);
    rules_at(r, "limits:\n  - { name: minute, key: user, limit: 1000 per minute }\n", T0);
    assert_int_equal(refund(r, &one, T0), 0); /* one of its limits is still there */
    assert_int_equal(left_of(r, "minute", "user=ann", T0), 500);
    rules_at(r, "limits:\n  - { name: other, key: user, limit: 1000 per minute }\n", T0);
    assert_int_equal(refund(r, &both, T0), RATION_EGONE);
    assert_int_equal(refund(r, &both, T0), RATION_EALREADY);
    assert_int_equal(commit(r, &kept, 100, T0), 0); /* nothing to give back */
    rules_at(r, tokens, T0);
    assert_int_equal(left_of(r, "day", "user=ann", T0), 4400);
    ration_close(r);
}

static void a_smaller_limit_gets_back_the_share_that_was_charged(void **state)
{
    struct ration *r = open_rules("limits:\n  - { name: m, key: user, limit: 1000 per minute }\n");
    struct slip slip, rest;

    (void)state;
    reserve(r, "user=ann", 400, T0, &slip);
    reserve(r, "user=ann", 600, T0, &rest);
    rules_at(r, "limits:\n  - { name: m, key: user, limit: 10 per minute }\n", T0);
    assert_int_equal(left_of(r, "m", "user=ann", T0), 0);
    assert_int_equal(refund(r, &slip, T0), 0);
    assert_int_equal(left_of(r, "m", "user=ann", T0), 4);
    rules_at(r, "limits:\n  - { name: m, key: user, limit: 1000 per minute }\n", T0);
    assert_int_equal(left_of(r, "m", "user=ann", T0), 400);
    ration_close(r);
}

static void a_ticket_outlives_its_process(void **state)
{
    char path[] = "/tmp/ration-test-XXXXXX";
    struct slip slip, place;
    int64_t now_ns;

    (void)state;
    close(mkstemp(path));
    unlink(path);
    struct ration *r = open_file(path);

    now_ns = ration_now(r);
    rules_at(r,
             "limits:\n"
             "  - { name: m, key: user, limit: 1000 per hour }\n"
             "  - { name: c, key: user, limit: 3 concurrent }\n",
             now_ns);
    reserve(r, "user=ann", 1, now_ns, &slip);
    acquire(r, "user=ann", MINUTE, now_ns, &place);
    ration_close(r);

    r = open_file(path);
    rules_at(r,
             "limits:\n"
             "  - { name: m, key: user, limit: 1000 per hour }\n"
             "  - { name: c, key: user, limit: 3 concurrent }\n",
             now_ns);
    assert_int_equal(left_of(r, "m", "user=ann", now_ns), 998);
    assert_int_equal(left_of(r, "c", "user=ann", now_ns), 1);
    assert_int_equal(refund(r, &slip, now_ns), 0);
    assert_int_equal(refund(r, &slip, now_ns), RATION_EALREADY);
    assert_int_equal(release(r, &place, now_ns), 0);
    assert_int_equal(release(r, &place, now_ns), RATION_EGONE);
    assert_int_equal(left_of(r, "m", "user=ann", now_ns), 999);
    assert_int_equal(left_of(r, "c", "user=ann", now_ns), 3);
    ration_close(r);
    unlink(path);
}

static void of_two_processes_that_share_the_file_one_settles(void **state)
{
    char path[] = "/tmp/ration-test-XXXXXX";
    struct slip slip;

    (void)state;
    close(mkstemp(path));
    unlink(path);
    struct ration *a = open_file(path), *b = open_file(path);
    int64_t now_ns = ration_now(a);

    rules_at(a, tokens, now_ns);
    rules_at(b, tokens, now_ns);
    reserve(a, "user=ann", 400, now_ns, &slip);
    assert_int_equal(commit(b, &slip, 100, now_ns), 0);
    assert_int_equal(refund(a, &slip, now_ns), RATION_EALREADY);
    assert_int_equal(left_of(a, "minute", "user=ann", now_ns), 900);
    ration_close(a);
    ration_close(b);
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_not_used_comes_back),
        cmocka_unit_test(a_reservation_is_settled_once),
        cmocka_unit_test(after_its_time_the_charge_stands),
        cmocka_unit_test(more_than_was_reserved_is_charged_in_full),
        cmocka_unit_test(a_rule_with_a_cost_of_its_own_is_not_charged_more),
        cmocka_unit_test(a_rule_with_a_cost_of_its_own_keeps_at_most_that),
        cmocka_unit_test(a_refusal_has_no_ticket_and_charges_nothing),
        cmocka_unit_test(without_a_rule_there_is_a_ticket_too),
        cmocka_unit_test(a_timeout_out_of_range_is_refused),
        cmocka_unit_test(a_reload_that_keeps_the_rule_keeps_the_ticket),
        cmocka_unit_test(what_a_rule_that_is_gone_was_charged_is_burnt),
        cmocka_unit_test(a_smaller_limit_gets_back_the_share_that_was_charged),
        cmocka_unit_test(a_ticket_outlives_its_process),
        cmocka_unit_test(of_two_processes_that_share_the_file_one_settles),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
