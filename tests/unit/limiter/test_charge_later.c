/* SPDX-License-Identifier: Apache-2.0 */
/* Limits that are charged by outcome: looked at on arrival, charged when the status
 * is known, across reloads, tiers and overrides, by receipt and by ticket. */
#include "clients_fixture.h"

#define HOUR (60 * MINUTE)
#define TICKET_FOR MINUTE

static const char logins[] = "limits:\n"
                             "  - name: logins\n"
                             "    key: user\n"
                             "    limit: 5 per minute\n"
                             "    algorithm: sliding-log\n"
                             "    charge_on: status 401, 403\n";

/* One request that ends like this; whether it was admitted. */
static bool try(struct ration *r, const char *words, unsigned status, int64_t now_ns)
{
    struct ration_outcome out = decide(r, words, now_ns);

    assert_int_equal(ration_outcome_charge(r, &out, status, now_ns, NULL), 0);
    return out.decision.allowed;
}

static unsigned fail_until_refused(struct ration *r, const char *words, int64_t now_ns)
{
    unsigned n = 0;

    while (n < 1000 && try(r, words, 401, now_ns))
        n++;
    return n;
}

/* --- what is charged, and when --------------------------------------------------------------- */

static void only_the_statuses_of_the_rule_are_charged(void **state)
{
    struct ration *r = open_rules(logins);
    static const unsigned others[] = {0, 99, 100, 200, 400, 402, 404, 499, 500, 599, 600, 4010};

    (void)state;
    for (size_t i = 0; i < COUNT(others); i++)
        assert_true(try(r, "user=ann", others[i], T0));
    assert_int_equal(left_of(r, "logins", "user=ann", T0), 5);
    assert_true(try(r, "user=ann", 401, T0));
    assert_true(try(r, "user=ann", 403, T0));
    assert_int_equal(left_of(r, "logins", "user=ann", T0), 3);
    assert_int_equal(fail_until_refused(r, "user=ann", T0), 3);
    assert_false(try(r, "user=ann", 200, T0));
    assert_true(try(r, "user=bob", 200, T0));
    assert_int_equal(left_of(r, "logins", "user=ann", T0 + MINUTE), 5);
    ration_close(r);
}

static void an_outcome_is_charged_once_and_counts_the_limits(void **state)
{
    struct ration *r =
        open_rules("limits:\n"
                   "  - { name: a, key: user, limit: 9 per hour, charge_on: status 401 }\n"
                   "  - { name: b, key: user, limit: 9 per day, charge_on: status 4xx }\n"
                   "  - { name: c, key: user, limit: 9 per minute }\n");
    struct ration_outcome out = decide(r, "user=ann", T0), other = decide(r, "user=ann", T0);
    uint32_t count = 99;

    (void)state;
    assert_int_equal(out.receipt_count, 1);
    assert_int_equal(out.due_count, 2);
    assert_int_equal(ration_outcome_charge(r, &out, 401, T0, &count), 0);
    assert_int_equal(count, 2);
    assert_int_equal(ration_outcome_charge(r, &out, 401, T0, &count), 0);
    assert_int_equal(count, 0);
    assert_int_equal(ration_outcome_charge(r, &other, 404, T0, &count), 0);
    assert_int_equal(count, 1);
    assert_int_equal(left_of(r, "a", "user=ann", T0), 8);
    assert_int_equal(left_of(r, "b", "user=ann", T0), 7);
    assert_int_equal(left_of(r, "c", "user=ann", T0), 7);
    ration_close(r);
}

static void charged_outcomes_are_counted_once_for_each_rule(void **state)
{
    struct ration *r = open_rules(
        "limits:\n"
        "  - { name: a, key: user, limit: [9 per hour, 20 per day], charge_on: status 401 }\n"
        "  - { name: b, key: user, limit: 9 per day, charge_on: status 4xx }\n"
        "  - { name: c, key: user, limit: 9 per minute }\n");
    static const unsigned statuses[] = {200, 401, 404, 401};
    static const char *const rules[] = {"a", "b", "c"};
    uint64_t charged[] = {2, 3, 0};
    struct ration_totals totals;
    char ticket[RATION_TICKET_SIZE];

    (void)state;
    for (size_t i = 0; i < COUNT(statuses); i++)
        assert_true(try(r, "user=ann", statuses[i], T0));
    struct ration_outcome out = decide(r, "user=ann", T0);

    assert_int_equal(ration_outcome_ticket(r, &out, TICKET_FOR, ticket), 0);
    for (int twice = 0; twice < 2; twice++)
        (void)ration_ticket_charge(r, ticket, strlen(ticket), 404, T0, NULL);
    charged[1]++; /* the second time it was over */
    for (size_t i = 0; i < COUNT(rules); i++) {
        assert_int_equal(ration_rule_totals(r, rules[i], 1, &totals), 0);
        assert_int_equal(totals.charged, charged[i]);
    }
    ration_totals(r, &totals);
    assert_int_equal(totals.charged, 4);
    ration_close(r);
}

static void what_arrived_together_is_charged_up_to_one_capacity_beyond(void **state)
{
    struct ration *r = open_rules("limits:\n"
                                  "  - { name: a, key: user, limit: 10 per hour, algorithm: "
                                  "sliding-window, sub_windows: 10, charge_on: status 401 }\n");
    struct ration_outcome out[30];
    struct ration_totals totals;

    (void)state;
    for (unsigned i = 0; i < COUNT(out); i++) {
        out[i] = decide(r, "user=ann", T0);
        assert_true(out[i].decision.allowed);
    }
    for (unsigned i = 0; i < COUNT(out); i++)
        assert_int_equal(ration_outcome_charge(r, &out[i], 401, T0, NULL), 0);
    assert_int_equal(left_of(r, "a", "user=ann", T0), 0);
    assert_int_equal(left_of(r, "a", "user=ann", T0 + 2 * HOUR), 0); /* ten are owed */
    assert_int_equal(left_of(r, "a", "user=ann", T0 + 3 * HOUR), 10);
    ration_totals(r, &totals);
    assert_int_equal(totals.uncollected, 10);
    ration_close(r);
}

static void a_refusal_leaves_nothing_due(void **state)
{
    struct ration *r = open_rules("limits:\n"
                                  "  - { name: a, key: user, limit: 9 per hour, charge_on: status "
                                  "401 }\n"
                                  "  - { name: b, key: user, limit: 1 per hour }\n");

    (void)state;
    assert_int_equal(decide(r, "user=ann", T0).due_count, 1);
    assert_int_equal(decide(r, "user=ann", T0).due_count, 0);
    assert_int_equal(look(r, "user=bob", T0).due_count, 0);
    ration_close(r);
}

static void the_service_in_shadow_mode_charges_and_refuses_no_request(void **state)
{
    struct ration *r = open_rules(logins);

    (void)state;
    ration_shadow_set(r, true);
    assert_int_equal(fail_until_refused(r, "user=ann", T0), 1000);
    assert_true(decide(r, "user=ann", T0).shadow_refused);
    ration_shadow_set(r, false);
    assert_false(decide(r, "user=ann", T0).decision.allowed);
    ration_close(r);
}

static void a_client_that_left_while_waiting_can_still_be_charged(void **state)
{
    struct ration *r = open_rules("limits:\n"
                                  "  - { name: q, key: none, limit: 1 per second queue 9 }\n"
                                  "  - { name: a, key: user, limit: 9 per hour, charge_on: status "
                                  "499 }\n");
    struct ration_outcome out;

    (void)state;
    assert_true(try(r, "user=ann", 200, T0));
    out = decide(r, "user=ann", T0);
    assert_int_equal(out.delay_ns, SECOND);
    assert_int_equal(ration_outcome_give_back(r, &out, T0), 0);
    assert_int_equal(ration_outcome_charge(r, &out, 499, T0, NULL), 0);
    assert_int_equal(decide(r, "user=ann", T0).delay_ns, SECOND);
    assert_int_equal(left_of(r, "a", "user=ann", T0), 8);
    ration_close(r);
}

/* --- against charges by an operator ------------------------------------------------------------
 */

static uint64_t seed;

static unsigned pick(unsigned n)
{
    seed = seed * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (unsigned)(seed >> 33) % n;
}

/* A limit that is charged by outcome, and its twin, to which an operator adds what
 * has failed, are always in the same state. */
static void outcomes_charge_as_much_as_an_operator_would(void **state)
{
    static const char *const kinds[] = {"",
                                        "algorithm: fixed-window",
                                        "algorithm: fixed-window, align: first",
                                        "algorithm: sliding-log",
                                        "algorithm: sliding-window",
                                        "algorithm: sliding-window, sub_windows: 7"};

    (void)state;
    for (size_t kind = 0; kind < COUNT(kinds); kind++) {
        char text[2][300];
        int64_t now = T0;

        for (int i = 0; i < 2; i++)
            snprintf(text[i], sizeof text[i],
                     "limits: [{name: a, key: user, limit: 20 per minute%s%s%s}]",
                     kinds[kind][0] ? ", " : "", kinds[kind],
                     i == 0 ? ", charge_on: status 4xx" : "");
        struct ration *r = open_rules(text[0]), *twin = open_rules(text[1]);
        struct words w;

        split_words(&w, "user=ann");
        seed = kind + 1;
        for (unsigned i = 0; i < 3000; i++) {
            struct ration_outcome out = decide(r, "user=ann", now), seen;
            unsigned status = pick(2) ? 401 : 200;

            now += pick(2) * (int64_t)pick(5000) * 1000000;
            stopped_at(r, now);
            stopped_at(twin, now);
            if (out.decision.allowed && status == 401)
                assert_int_equal(ration_state_adjust(twin, &w.request, NULL, 0, 1, now), 0);
            assert_int_equal(ration_outcome_charge(r, &out, status, now, NULL), 0);
            out = look(r, "user=ann", now);
            seen = look(twin, "user=ann", now);
            assert_int_equal(out.decision.allowed, seen.decision.allowed);
            assert_int_equal(out.decision.verdict.remaining, seen.decision.verdict.remaining);
            assert_int_equal(out.decision.verdict.retry_after_ns,
                             seen.decision.verdict.retry_after_ns);
        }
        ration_close(r);
        ration_close(twin);
    }
}

/* --- tiers and overrides --------------------------------------------------------------------- */

/* If every request fails, it makes no difference when it is charged. */
static void what_always_fails_is_refused_as_if_it_were_charged_on_arrival(void **state)
{
    static const char tiers[] =
        "limits: [{name: a, key: user, limit: {by: tier, free: 5 per minute, "
        "pro: 20 per hour, max: 50 per day, default: free}%s}]";
    static const char *const clients[] = {"user=ann tier=free", "user=ann tier=pro",
                                          "user=ann tier=max"};
    char text[2][300];
    unsigned failures = 0;

    (void)state;
    snprintf(text[0], sizeof text[0], tiers, ", charge_on: status 401");
    snprintf(text[1], sizeof text[1], tiers, "");
    struct ration *r = open_rules(text[0]), *twin = open_rules(text[1]);
    int64_t now = T0;

    for (unsigned i = 0; i < 5000; i++, now += pick(3) * MINUTE) {
        const char *client = clients[pick(3)];
        bool passed = try(r, client, 401, now);

        assert_int_equal(passed, decide(twin, client, now).decision.allowed);
        failures += passed;
    }
    assert_true(failures > 100 && failures < 4000);
    ration_close(r);
    ration_close(twin);
}

static void an_override_is_charged_by_outcome_as_its_rule_is(void **state)
{
    struct ration *r = open_rules(logins);

    (void)state;
    set_limit(r, "logins", "user=ann", "2 per minute");
    set_limit(r, "logins", "user=bob", "8 per hour");
    set_limit(r, "logins", "user=cid", "unlimited");
    assert_true(try(r, "user=ann", 200, T0));
    assert_int_equal(fail_until_refused(r, "user=ann", T0), 2);
    assert_int_equal(fail_until_refused(r, "user=bob", T0), 8);
    assert_int_equal(fail_until_refused(r, "user=cid", T0), 1000);
    assert_int_equal(fail_until_refused(r, "user=dan", T0), 5);
    ration_close(r);
}

static void an_override_that_cannot_be_charged_by_outcome_is_refused(void **state)
{
    struct ration *r = open_rules(logins);
    struct ration_error error;

    (void)state;
    assert_int_equal(try_set(r, "logins", "user=ann", "2 per second queue 9", 0, &error),
                     RATION_EINVAL);
    assert_non_null(strstr(error.text, "charge_on is for limits that are spent"));
    assert_int_equal(try_set(r, "logins", "user=ann", "2 concurrent", 0, &error), RATION_EINVAL);
    ration_close(r);
}

/* --- reloads -----------------------------------------------------------------------------------
 */

static void an_outcome_is_charged_by_the_rules_of_its_time(void **state)
{
    struct ration *r = open_rules(logins);
    struct ration_outcome one = decide(r, "user=ann", T0), two = one, three = one, four = one;

    (void)state;
    rules_at(r,
             "limits: [{name: logins, key: user, limit: 9 per minute, algorithm: sliding-log, "
             "charge_on: status 5xx}]",
             T0);
    assert_int_equal(ration_outcome_charge(r, &one, 401, T0, NULL), 0);
    assert_int_equal(left_of(r, "logins", "user=ann", T0), 9);
    assert_int_equal(ration_outcome_charge(r, &two, 500, T0, NULL), 0);
    assert_int_equal(left_of(r, "logins", "user=ann", T0), 8);
    rules_at(r, "limits: [{name: logins, key: user, limit: 9 per minute, algorithm: sliding-log}]",
             T0);
    assert_int_equal(ration_outcome_charge(r, &three, 200, T0, NULL), 0);
    assert_int_equal(left_of(r, "logins", "user=ann", T0), 7);
    rules_at(r, "limits: [{name: other, key: user, limit: 9 per minute}]", T0);
    assert_int_equal(ration_outcome_charge(r, &four, 401, T0, NULL), RATION_EGONE);
    assert_int_equal(left_of(r, "other", "user=ann", T0), 9);
    ration_close(r);
}

/* A client that has spent under the old limit and comes back with an outcome first. */
static void an_outcome_carries_over_what_was_spent_before_a_reload(void **state)
{
    static const char before[] = "limits: [{name: a, key: user, limit: 10 per hour, charge_on: "
                                 "status 401}]",
                      after[] = "limits: [{name: a, key: user, limit: [10 per day, 10 per hour], "
                                "charge_on: status 401}]";
    struct ration *r = open_rules(before);
    struct ration_outcome out;

    (void)state;
    for (unsigned i = 0; i < 6; i++)
        assert_true(try(r, "user=ann", 401, T0));
    out = decide(r, "user=ann", T0);
    rules_at(r, after, T0);
    assert_int_equal(ration_outcome_charge(r, &out, 401, T0, NULL), 0);
    assert_int_equal(fail_until_refused(r, "user=ann", T0), 3);
    ration_close(r);
}

/* --- tickets -------------------------------------------------------------------------------------
 */

static void ticket_of(struct ration *r, const char *words, int64_t now_ns,
                      char ticket[RATION_TICKET_SIZE])
{
    struct ration_outcome out = decide(r, words, now_ns);

    assert_int_equal(ration_outcome_ticket(r, &out, TICKET_FOR, ticket), 0);
}

static int tell(struct ration *r, const char *ticket, unsigned status, int64_t now_ns)
{
    uint32_t count = 0;
    int code = ration_ticket_charge(r, ticket, strlen(ticket), status, now_ns, &count);

    return code != 0 ? code : (int)count;
}

static void a_ticket_is_charged_once_within_its_time(void **state)
{
    struct ration *r = open_rules(logins);
    char ticket[RATION_TICKET_SIZE];

    (void)state;
    ticket_of(r, "user=ann", T0, ticket);
    assert_int_equal(tell(r, ticket, 200, T0), 0);
    assert_int_equal(tell(r, ticket, 401, T0 + MINUTE - 1), 1);
    assert_int_equal(tell(r, ticket, 401, T0 + MINUTE - 1), RATION_EALREADY);
    assert_int_equal(tell(r, ticket, 401, T0 + MINUTE), RATION_EGONE);
    assert_int_equal(left_of(r, "logins", "user=ann", T0 + MINUTE), 4);
    ticket_of(r, "user=ann", T0, ticket);
    assert_int_equal(tell(r, ticket, 401, T0 + MINUTE), RATION_EGONE);
    assert_int_equal(left_of(r, "logins", "user=ann", T0 + MINUTE), 4);
    ration_close(r);
}

static void a_ticket_outlives_its_process_and_is_charged_by_one_of_two(void **state)
{
    struct ration *r = open_state_rules(logins), *other = open_state_rules(logins);
    char ticket[RATION_TICKET_SIZE];

    (void)state;
    ticket_of(r, "user=ann", T0, ticket);
    ration_close(r);
    r = open_state_rules(logins);
    assert_int_equal(tell(other, ticket, 401, T0), 1);
    assert_int_equal(tell(r, ticket, 401, T0), RATION_EALREADY);
    assert_int_equal(left_of(r, "logins", "user=ann", T0), 4);
    ration_close(r);
    ration_close(other);
    remove_files();
}

static void a_ticket_is_of_one_table_and_one_kind(void **state)
{
    struct ration *r = open_rules(logins), *other = open_rules(logins);
    char ticket[RATION_TICKET_SIZE], reserved[RATION_TICKET_SIZE];
    struct ration_outcome out;
    struct words w;

    (void)state;
    split_words(&w, "user=ann");
    ticket_of(r, "user=ann", T0, ticket);
    assert_int_equal(tell(other, ticket, 401, T0), RATION_EINVAL);
    assert_int_equal(ration_ticket_refund(r, ticket, strlen(ticket), T0), RATION_EINVAL);
    assert_int_equal(ration_ticket_release(r, ticket, strlen(ticket), T0), RATION_EINVAL);
    assert_int_equal(ration_decide_reserve(r, &w.request, MINUTE, T0, &out, reserved), 0);
    assert_int_equal(tell(r, reserved, 401, T0), RATION_EINVAL);
    assert_int_equal(ration_outcome_ticket(r, &out, 0, ticket), RATION_EINVAL);
    out.due_count = 0;
    assert_int_equal(ration_outcome_ticket(r, &out, MINUTE, ticket), 0);
    assert_string_equal(ticket, "");
    ration_close(r);
    ration_close(other);
}

static void as_many_dues_as_can_be_fit_into_a_ticket(void **state)
{
    char text[RATION_CHARGES_MAX * 100], *at = text, ticket[RATION_TICKET_SIZE];

    (void)state;
    at += sprintf(at, "limits:\n");
    for (unsigned i = 0; i < RATION_CHARGES_MAX; i++)
        at += sprintf(
            at, "  - { name: r%u, key: user, limit: 9 per %u minutes, charge_on: status 5xx }\n", i,
            i + 1);
    struct ration *r = open_rules(text);

    ticket_of(r, "user=ann", T0, ticket);
    assert_int_equal(tell(r, ticket, 503, T0), RATION_CHARGES_MAX);
    assert_int_equal(left_of(r, "r0", "user=ann", T0), 8);
    ration_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_statuses_of_the_rule_are_charged),
        cmocka_unit_test(an_outcome_is_charged_once_and_counts_the_limits),
        cmocka_unit_test(charged_outcomes_are_counted_once_for_each_rule),
        cmocka_unit_test(what_arrived_together_is_charged_up_to_one_capacity_beyond),
        cmocka_unit_test(a_refusal_leaves_nothing_due),
        cmocka_unit_test(the_service_in_shadow_mode_charges_and_refuses_no_request),
        cmocka_unit_test(a_client_that_left_while_waiting_can_still_be_charged),
        cmocka_unit_test(outcomes_charge_as_much_as_an_operator_would),
        cmocka_unit_test(what_always_fails_is_refused_as_if_it_were_charged_on_arrival),
        cmocka_unit_test(an_override_is_charged_by_outcome_as_its_rule_is),
        cmocka_unit_test(an_override_that_cannot_be_charged_by_outcome_is_refused),
        cmocka_unit_test(an_outcome_is_charged_by_the_rules_of_its_time),
        cmocka_unit_test(an_outcome_carries_over_what_was_spent_before_a_reload),
        cmocka_unit_test(a_ticket_is_charged_once_within_its_time),
        cmocka_unit_test(a_ticket_outlives_its_process_and_is_charged_by_one_of_two),
        cmocka_unit_test(a_ticket_is_of_one_table_and_one_kind),
        cmocka_unit_test(as_many_dues_as_can_be_fit_into_a_ticket),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
