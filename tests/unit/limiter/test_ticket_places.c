/* SPDX-License-Identifier: Apache-2.0 */
/* Places that are known by a ticket, and charges that are given up with an outcome. */
#include "ticket_fixture.h"

static const char workers[] = "limits:\n"
                              "  - { name: calls, key: user, limit: 100 per hour }\n"
                              "  - { name: mine, key: user, limit: 2 concurrent }\n"
                              "  - { name: ours, limit: 3 concurrent }\n";

static uint64_t places_left(struct ration *r, const char *rule, int64_t now_ns)
{
    return left_of(r, rule, "user=ann", now_ns);
}

/* --- leases ---------------------------------------------------------------------------------- */

static void a_ticket_holds_its_places_until_released(void **state)
{
    struct ration *r = open_rules(workers);
    struct slip a, b, c;

    (void)state;
    acquire(r, "user=ann", 0, T0, &a);
    acquire(r, "user=ann", 0, T0, &b);
    acquire(r, "user=ann", 0, T0, &c);
    assert_true(a.out.decision.allowed && b.out.decision.allowed);
    assert_false(c.out.decision.allowed);
    assert_string_equal(c.text, "");
    assert_int_equal(places_left(r, "ours", T0), 1);
    assert_int_equal(release(r, &a, T0), 0);
    assert_int_equal(release(r, &a, T0), RATION_EGONE);
    assert_int_equal(places_left(r, "mine", T0), 1);
    assert_int_equal(places_left(r, "ours", T0), 2);
    assert_int_equal(places_left(r, "calls", T0), 98); /* of those nothing comes back */
    ration_close(r);
}

static void a_lease_lasts_as_long_as_was_asked_for(void **state)
{
    struct ration *r = open_rules(workers);
    struct slip slip;
    int64_t expires_after_ns;

    (void)state;
    acquire(r, "user=ann", 10 * SECOND, T0, &slip);
    assert_int_equal(places_left(r, "mine", T0 + 10 * SECOND - 1), 1);
    assert_int_equal(places_left(r, "mine", T0 + 10 * SECOND), 2);
    assert_int_equal(release(r, &slip, T0 + 10 * SECOND), RATION_EGONE);

    acquire(r, "user=ann", 10 * SECOND, T0, &slip);
    assert_int_equal(renew(r, &slip, 0, T0 + 9 * SECOND, &expires_after_ns), 0);
    assert_int_equal(expires_after_ns, 10 * SECOND);
    assert_int_equal(renew(r, &slip, 30 * SECOND, T0 + 18 * SECOND, &expires_after_ns), 0);
    assert_int_equal(expires_after_ns, 30 * SECOND);
    assert_int_equal(places_left(r, "mine", T0 + 47 * SECOND), 1);
    assert_int_equal(places_left(r, "ours", T0 + 48 * SECOND), 3);
    assert_int_equal(renew(r, &slip, 0, T0 + 48 * SECOND, &expires_after_ns), RATION_EGONE);
    assert_int_equal(expires_after_ns, 30 * SECOND);
    ration_close(r);
}

static void a_lease_of_no_length_is_the_limits_own(void **state)
{
    struct ration *r = open_rules(workers);
    struct slip slip;

    (void)state;
    acquire(r, "user=ann", 0, T0, &slip);
    assert_int_equal(places_left(r, "mine", T0 + MINUTE - 1), 1);
    assert_int_equal(places_left(r, "mine", T0 + MINUTE), 2);
    ration_close(r);
}

static void a_lease_that_cannot_be_is_refused(void **state)
{
    struct ration *r = open_rules(workers);
    struct slip slip;
    struct words w;

    (void)state;
    split_words(&w, "user=ann");
    acquire(r, "user=ann", 0, T0, &slip);
    assert_int_equal(renew(r, &slip, -1, T0, NULL), RATION_EINVAL);
    assert_int_equal(renew(r, &slip, RATION_LEASE_MAX_NS + 1, T0, NULL), RATION_EINVAL);
    assert_int_equal(ration_acquire_request(r, &w.request, -1, T0, &slip.out, slip.text),
                     RATION_EINVAL);
    assert_int_equal(
        ration_acquire_request(r, &w.request, RATION_LEASE_MAX_NS + 1, T0, &slip.out, slip.text),
        RATION_EINVAL);
    assert_int_equal(places_left(r, "mine", T0), 1);
    ration_close(r);
}

static void without_a_concurrency_limit_there_is_no_ticket(void **state)
{
    struct ration *r = open_rules("limits:\n  - { name: m, key: user, limit: 5 per minute }\n");
    struct slip slip;

    (void)state;
    acquire(r, "user=ann", 0, T0, &slip);
    assert_true(slip.out.decision.allowed);
    assert_string_equal(slip.text, "");
    assert_int_equal(left_of(r, "m", "user=ann", T0), 4);
    ration_close(r);
}

static void places_outlive_their_rule(void **state)
{
    struct ration *r = open_rules(workers);
    struct slip slip;

    (void)state;
    acquire(r, "user=ann", 0, T0, &slip);
    rules_at(r, "limits:\n  - { name: other, limit: 1 per hour }\n", T0);
    assert_int_equal(renew(r, &slip, 2 * MINUTE, T0, NULL), 0);
    rules_at(r, workers, T0);
    assert_int_equal(places_left(r, "mine", T0 + MINUTE), 1);
    assert_int_equal(release(r, &slip, T0 + MINUTE), 0);
    assert_int_equal(places_left(r, "mine", T0 + MINUTE), 2);
    ration_close(r);
}

static void a_limit_given_with_the_call_has_places_too(void **state)
{
    struct ration *r = open_limits(NULL, 0);
    struct ration_limit limit = named("", "2 concurrent").limit;
    struct ration_charge c = {.ad_hoc = &limit, .key = "k", .key_len = 1, .cost = 2}, d = c;
    struct slip both, none;
    int64_t expires_after_ns;

    (void)state;
    assert_int_equal(ration_acquire_ticket(r, &c, 5 * SECOND, T0, both.text), 0);
    assert_int_equal(ration_acquire_ticket(r, &d, 5 * SECOND, T0, none.text), 0);
    assert_false(d.verdict.allowed);
    assert_string_equal(none.text, "");
    assert_int_equal(renew(r, &both, 0, T0 + SECOND, &expires_after_ns), 0);
    assert_int_equal(expires_after_ns, 5 * SECOND);
    assert_int_equal(release(r, &both, T0 + SECOND), 0);
    assert_int_equal(release(r, &both, T0 + SECOND), RATION_EGONE);
    assert_int_equal(ration_peek(r, &d, T0 + SECOND), 0);
    assert_int_equal(d.verdict.remaining, 2);
    ration_close(r);
}

static void a_reservation_holds_places_until_it_is_settled(void **state)
{
    struct ration *r = open_rules(workers);
    struct slip refunded, forgotten;

    (void)state;
    reserve(r, "user=ann", 1, T0, &refunded);
    reserve(r, "user=ann", 1, T0, &forgotten);
    assert_int_equal(places_left(r, "mine", T0), 0);
    assert_int_equal(refund(r, &refunded, T0), 0);
    assert_int_equal(places_left(r, "mine", T0), 1);
    assert_int_equal(places_left(r, "ours", T0), 2);
    assert_int_equal(places_left(r, "calls", T0), 99);
    assert_int_equal(places_left(r, "mine", T0 + MINUTE), 2);
    ration_close(r);
}

/* --- giving up an outcome ----------------------------------------------------------------------
 */

static void a_client_that_leaves_gets_back_what_was_charged(void **state)
{
    struct ration *r = open_rules(workers);
    struct ration_outcome out = decide(r, "user=ann", T0);

    (void)state;
    assert_int_equal(places_left(r, "calls", T0), 99);
    assert_int_equal(ration_outcome_give_back(r, &out, T0), 0);
    assert_int_equal(ration_outcome_give_back(r, &out, T0), 0); /* and that is all */
    assert_int_equal(places_left(r, "calls", T0), 100);
    assert_int_equal(places_left(r, "mine", T0), 2);
    decide(r, "user=ann", T0);
    assert_int_equal(ration_outcome_give_back(r, &out, T0), 0);
    assert_int_equal(places_left(r, "calls", T0), 99);
    ration_close(r);
}

static void of_a_queue_only_the_last_one_leaves(void **state)
{
    struct ration *r =
        open_rules("limits:\n  - { name: q, limit: 1 per second queue 9, wait: hold }\n");
    struct ration_outcome first = decide(r, "", T0), second = decide(r, "", T0),
                          third = decide(r, "", T0);

    (void)state;
    assert_int_equal(third.delay_ns, 2 * SECOND);
    assert_int_equal(ration_outcome_give_back(r, &second, T0),
                     0); /* another request is behind it */
    assert_int_equal(decide(r, "", T0).delay_ns, 3 * SECOND);
    assert_int_equal(ration_outcome_give_back(r, &third, T0), 0);
    assert_int_equal(decide(r, "", T0).delay_ns, 4 * SECOND);
    struct ration_outcome last = decide(r, "", T0);

    assert_int_equal(ration_outcome_give_back(r, &last, T0), 0);
    assert_int_equal(decide(r, "", T0).delay_ns, 5 * SECOND);
    (void)first;
    ration_close(r);
}

static void what_is_given_back_after_the_rule_is_gone_is_burnt(void **state)
{
    struct ration *r = open_rules(workers);
    struct ration_outcome out = decide(r, "user=ann", T0);

    (void)state;
    rules_at(r, "limits:\n  - { name: mine, key: user, limit: 2 concurrent }\n", T0);
    assert_int_equal(ration_outcome_give_back(r, &out, T0), RATION_EGONE);
    assert_int_equal(places_left(r, "mine", T0), 2); /* the places are free all the same */
    rules_at(r, workers, T0);
    assert_int_equal(places_left(r, "calls", T0), 99);
    ration_close(r);
}

static void a_look_has_nothing_to_give_back(void **state)
{
    struct ration *r = open_rules(workers);
    struct ration_outcome out = look(r, "user=ann", T0);

    (void)state;
    decide(r, "user=ann", T0);
    assert_int_equal(out.receipt_count, 0);
    assert_int_equal(ration_outcome_give_back(r, &out, T0), 0);
    assert_int_equal(places_left(r, "calls", T0), 99);
    ration_close(r);
}

/* --- a caller's patience
 * -------------------------------------------------------------------------- */

static struct ration_outcome wait_for(struct ration *r, int64_t max_wait_ns)
{
    struct ration_request request = {.max_wait_ns = max_wait_ns};
    struct ration_outcome out;

    assert_int_equal(ration_decide(r, &request, T0, &out), 0);
    return out;
}

static void a_wait_that_is_too_long_for_the_caller_is_a_refusal(void **state)
{
    struct ration *r = open_rules("limits:\n"
                                  "  - { name: q, limit: 1 per second queue 9, max_wait: 3s }\n");

    (void)state;
    assert_int_equal(wait_for(r, 1).delay_ns, 0);
    assert_int_equal(wait_for(r, SECOND).delay_ns, SECOND);
    struct ration_outcome out = wait_for(r, SECOND);

    assert_false(out.decision.allowed);
    assert_int_equal(out.decision.verdict.retry_after_ns, SECOND);
    assert_int_equal(out.receipt_count, 0);
    assert_int_equal(wait_for(r, 0).delay_ns, 2 * SECOND); /* the refusal took no place */
    assert_int_equal(wait_for(r, 60 * SECOND).delay_ns, 3 * SECOND);
    assert_false(wait_for(r, 60 * SECOND).decision.allowed); /* the rule's own counts, too */
    ration_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ticket_holds_its_places_until_released),
        cmocka_unit_test(a_lease_lasts_as_long_as_was_asked_for),
        cmocka_unit_test(a_lease_of_no_length_is_the_limits_own),
        cmocka_unit_test(a_lease_that_cannot_be_is_refused),
        cmocka_unit_test(without_a_concurrency_limit_there_is_no_ticket),
        cmocka_unit_test(places_outlive_their_rule),
        cmocka_unit_test(a_limit_given_with_the_call_has_places_too),
        cmocka_unit_test(a_reservation_holds_places_until_it_is_settled),
        cmocka_unit_test(a_client_that_leaves_gets_back_what_was_charged),
        cmocka_unit_test(of_a_queue_only_the_last_one_leaves),
        cmocka_unit_test(what_is_given_back_after_the_rule_is_gone_is_burnt),
        cmocka_unit_test(a_look_has_nothing_to_give_back),
        cmocka_unit_test(a_wait_that_is_too_long_for_the_caller_is_a_refusal),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
