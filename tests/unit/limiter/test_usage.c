/* SPDX-License-Identifier: Apache-2.0 */
/* Usage: what is counted, and for which client and period. */
#include "usage_fixture.h"

#include <ration/clients.h>

#define DAY (24 * 60 * MINUTE)

static const char by_user[] =
    "limits:\n  - { name: a, key: user, limit: 5 per hour, usage: true }\n";

static void units_admitted_and_refused_are_counted_by_client(void **state)
{
    struct ration *r = open_usage(by_user);

    (void)state;
    assert_int_equal(admitted(r, "user=ann", 7, T0), 5);
    assert_int_equal(admitted(r, "user=bob", 2, T0), 2);
    look(r, "user=bob", T0);
    assert_rows(r, T0, "a ann 2023-11 5/2/0\na bob 2023-11 2/0/0\n");
    ration_close(r);
}

static void usage_survives_closing_and_is_shared(void **state)
{
    struct ration *r = open_usage(by_user), *other = open_usage(by_user);

    (void)state;
    decide(r, "user=ann", T0);
    decide(other, "user=ann", T0);
    assert_rows(r, T0, "a ann 2023-11 2/0/0\n");
    ration_close(r);
    ration_close(other);
    r = open_usage(by_user);
    assert_rows(r, T0, "a ann 2023-11 2/0/0\n");
    ration_close(r);
}

/* Some of so many clients have one group twice among those that their entry may lie in. */
static void a_client_whose_groups_coincide_is_counted_once(void **state)
{
    struct ration *r = open_usage(by_user);
    char user[32];

    (void)state;
    for (int i = 0; i < 2000; i++) {
        snprintf(user, sizeof user, "user=u%d", i);
        decide(r, user, T0);
    }
    struct rows rows = all_rows(r, T0);

    assert_int_equal(rows.count, 2000);
    assert_int_equal(rows.admitted, 2000);
    ration_close(r);
}

/* A rule without limits beside it takes the long way to a decision. */
static void a_request_that_a_ban_refuses_is_counted_once(void **state)
{
    static const char *const texts[] = {
        "limits:\n  - { name: a, key: user, limit: 2 per hour, usage: true,\n"
        "      escalate: { after: 1 refusals within 10s, ban: 1m } }\n",
        "limits:\n  - { name: b, key: user, limit: 2 per hour, usage: true,\n"
        "      escalate: { after: 1 refusals within 10s, ban: 1m } }\n"
        "  - { name: c, key: user, limit: unlimited }\n"};

    (void)state;
    for (size_t i = 0; i < COUNT(texts); i++) {
        struct ration *r = open_usage(texts[i]);

        assert_int_equal(admitted(r, "user=ann", 3, T0), 2);
        for (int n = 0; n < 4; n++)
            assert_int_equal(decide(r, "user=ann", T0).kind, RATION_BY_ESCALATION);
        ration_close(r);
    }
    struct ration *r = open_usage(texts[1]);

    assert_rows(r, T0, "a ann 2023-11 2/5/0\nb ann 2023-11 2/5/0\n");
    ration_close(r);
}

static void the_cost_is_what_counts(void **state)
{
    struct ration *r = open_usage("limits:\n  - { name: a, key: user, limit: 50 per hour, "
                                  "cost: { attribute: tokens }, usage: true }\n");

    (void)state;
    decide(r, "user=ann tokens=40", T0);
    decide(r, "user=ann tokens=40", T0);
    assert_rows(r, T0, "a ann 2023-11 40/40/0\n");
    ration_close(r);
}

/* Nobody gets a negative bill by asking for much. */
static void counters_do_not_wrap(void **state)
{
    struct ration *r = open_usage("limits:\n  - { name: a, key: user, limit: unlimited, "
                                  "cost: { attribute: tokens }, usage: true }\n"
                                  "  - { name: b, key: user, limit: 5 per hour, "
                                  "cost: { attribute: many }, usage: true }\n");
    struct words w;
    struct ration_outcome out;

    (void)state;
    for (int i = 0; i < 3; i++) {
        split_words(&w, "user=ann tokens=18446744073709551615 many=9223372036854775807");
        assert_int_equal(ration_decide(r, &w.request, T0, &out), 0);
        decide(r, "user=ann tokens=18446744073709551615 many=1", T0);
    }
    struct rows rows = all_rows(r, T0);

    assert_true(rows.admitted > 0 && rows.refused > 0);
    struct ration_error error;
    const struct ration_usage_query ann = {.rule = "b",
                                           .rule_len = 1,
                                           .client = "ann",
                                           .client_len = 3,
                                           .period = "current",
                                           .period_len = 7};

    assert_int_equal(ration_usage_correct(r, &ann, INT64_MAX, &error), RATION_EINVAL);
    assert_int_equal(ration_usage_correct(r, &ann, INT64_MIN, &error), RATION_EINVAL);
    assert_string_equal(error.text, "-9223372036854775808 units are more than a counter can hold");
    assert_int_equal(ration_usage_correct(r, &ann, -5, &error), 0);
    ration_close(r);
}

static void each_rule_counts_once_and_only_those_that_refused_count_a_refusal(void **state)
{
    struct ration *r =
        open_usage("limits:\n"
                   "  - { name: a, key: user, limit: [1 per second, 3 per hour], usage: true }\n"
                   "  - { name: b, key: ip, limit: 100 per hour, usage: { per: day } }\n"
                   "  - { name: c, key: ip, limit: 100 per hour }\n"
                   "  - { name: all, key: none, limit: 100 per hour, usage: { per: year } }\n");

    (void)state;
    assert_int_equal(admitted(r, "user=ann ip=192.0.2.1", 3, T0), 1);
    assert_rows(r, T0, "a ann 2023-11 1/2/0\nall  2023 1/0/0\nb 192.0.2.1 2023-11-14 1/0/0\n");
    ration_close(r);
}

static void a_rule_without_limits_counts(void **state)
{
    struct ration *r = open_usage("limits:\n"
                                  "  - name: a\n"
                                  "    key: [user, ip]\n"
                                  "    limit: { by: plan, pro: unlimited, default: 1 per hour }\n"
                                  "    usage: { per: week }\n");
    struct ration_outcome out;

    (void)state;
    assert_int_equal(admitted(r, "user=ann ip=192.0.2.1 plan=pro", 9, T0), 9);
    assert_int_equal(admitted(r, "user=bob ip=192.0.2.1 plan=free", 9, T0), 1);
    assert_rows(r, T0, "a ann 192.0.2.1 2023-W46 9/0/0\na bob 192.0.2.1 2023-W46 1/8/0\n");
    out = decide(r, "user=ann ip=192.0.2.1 plan=pro", T0);
    assert_int_equal(ration_outcome_give_back(r, &out, T0), 0);
    assert_rows(r, T0, "a ann 192.0.2.1 2023-W46 9/0/0\na bob 192.0.2.1 2023-W46 1/8/0\n");
    ration_close(r);
}

static void shadow_counts_as_admitted(void **state)
{
    struct ration *r = open_usage("limits:\n"
                                  "  - { name: a, key: user, limit: 1 per hour, mode: shadow, "
                                  "usage: true }\n");
    struct ration_outcome out;

    (void)state;
    assert_int_equal(admitted(r, "user=ann", 3, T0), 3);
    assert_rows(r, T0, "a ann 2023-11 3/0/0\n");
    rules_at(r, by_user, T0);
    ration_shadow_set(r, true);
    assert_int_equal(admitted(r, "user=ann", 9, T0), 9);
    assert_rows(r, T0, "a ann 2023-11 12/0/0\n");
    out = decide(r, "user=ann", T0); /* over the limit, and admitted all the same */
    assert_rows(r, T0, "a ann 2023-11 13/0/0\n");
    assert_int_equal(ration_outcome_give_back(r, &out, T0), 0);
    assert_rows(r, T0, "a ann 2023-11 12/0/0\n");
    ration_close(r);
}

static void periods_change_at_the_boundary_of_the_calendar(void **state)
{
    struct ration *r = open_usage("limits:\n"
                                  "  - { name: a, key: user, limit: 1000 per hour, usage: { per: "
                                  "month, zone: Europe/Rome, keep: 2 } }\n");
    /* 2023-12-01 00:00 in Rome is 23:00 the day before in UTC. */
    int64_t december = INT64_C(1701385200) * SECOND;

    (void)state;
    decide(r, "user=ann", T0);
    decide(r, "user=ann", stopped_at(r, december - 1));
    decide(r, "user=ann", stopped_at(r, december));
    assert_rows(r, december, "a ann 2023-11 2/0/0\na ann 2023-12 1/0/0\n");
    decide(r, "user=ann", stopped_at(r, december - 1)); /* the clock was set back */
    assert_rows(r, december - 1, "a ann 2023-11 3/0/0\na ann 2023-12 1/0/0\n");
    assert_rows(r, december + 40 * DAY, "a ann 2023-11 3/0/0\na ann 2023-12 1/0/0\n");
    assert_rows(r, december + 70 * DAY, "a ann 2023-12 1/0/0\n"); /* two months later */
    ration_close(r);
}

static void what_is_given_back_leaves_the_period_of_the_take(void **state)
{
    struct ration *r = open_usage("limits:\n  - { name: a, key: user, limit: [5 per hour, 9 per "
                                  "day], usage: { per: day } }\n");
    int64_t tomorrow = T0 + DAY;
    struct ration_outcome out = decide(r, "user=ann", T0);

    (void)state;
    assert_int_equal(out.receipt_count, 3);
    decide(r, "user=ann", T0);
    stopped_at(r, tomorrow);
    decide(r, "user=ann", tomorrow);
    assert_int_equal(ration_outcome_give_back(r, &out, tomorrow), 0);
    assert_rows(r, tomorrow, "a ann 2023-11-14 1/0/0\na ann 2023-11-15 1/0/0\n");
    ration_close(r);
}

static void tickets_settle_usage_once(void **state)
{
    struct ration *r =
        open_usage("limits:\n"
                   "  - name: a\n"
                   "    key: user\n"
                   "    limit: { by: plan, pro: unlimited, default: 1000 per hour }\n"
                   "    usage: { per: year }\n");
    const char *const clients[] = {"user=ann plan=free", "user=bob plan=pro"};
    char ticket[RATION_TICKET_SIZE];
    struct ration_outcome out;
    struct words w;

    (void)state;
    for (unsigned i = 0; i < COUNT(clients); i++) {
        split_words(&w, clients[i]);
        w.request.cost = 100;
        assert_int_equal(ration_decide_reserve(r, &w.request, MINUTE, T0, &out, ticket), 0);
        assert_int_equal(ration_ticket_commit(r, ticket, strlen(ticket), false, 30, T0), 0);
        assert_int_equal(ration_ticket_commit(r, ticket, strlen(ticket), false, 30, T0),
                         RATION_EALREADY);
        assert_int_equal(ration_decide_reserve(r, &w.request, MINUTE, T0, &out, ticket), 0);
        assert_int_equal(ration_ticket_refund(r, ticket, strlen(ticket), T0), 0);
        assert_int_equal(ration_decide_reserve(r, &w.request, MINUTE, T0, &out, ticket), 0);
        assert_int_equal(ration_ticket_commit(r, ticket, strlen(ticket), false, 150, T0), 0);
        assert_int_equal(ration_decide_reserve(r, &w.request, MINUTE, T0, &out, ticket), 0);
        assert_int_equal(ration_ticket_commit(r, ticket, strlen(ticket), true, 0, T0), 0);
    }
    assert_rows(r, T0, "a ann 2023 280/0/0\na bob 2023 280/0/0\n");
    ration_close(r);
}

static void a_charge_by_outcome_counts_when_it_is_made(void **state)
{
    struct ration *r = open_usage("limits:\n"
                                  "  - name: a\n"
                                  "    key: user\n"
                                  "    limit: { by: plan, pro: unlimited, default: 5 per hour }\n"
                                  "    charge_on: status 4xx\n"
                                  "    usage: true\n");
    const char *const clients[] = {"user=ann plan=free", "user=bob plan=pro"};
    char ticket[RATION_TICKET_SIZE];
    struct ration_outcome out;

    (void)state;
    for (unsigned i = 0; i < COUNT(clients); i++) {
        out = decide(r, clients[i], T0);
        assert_int_equal(ration_outcome_charge(r, &out, 404, T0, NULL), 0);
        out = decide(r, clients[i], T0);
        assert_int_equal(ration_outcome_charge(r, &out, 200, T0, NULL), 0);
        out = decide(r, clients[i], T0);
        assert_int_equal(ration_outcome_ticket(r, &out, MINUTE, ticket), 0);
        assert_int_equal(ration_ticket_charge(r, ticket, strlen(ticket), 401, T0, NULL), 0);
        assert_int_equal(ration_ticket_charge(r, ticket, strlen(ticket), 401, T0, NULL),
                         RATION_EALREADY);
    }
    assert_rows(r, T0, "a ann 2023-11 2/0/0\na bob 2023-11 2/0/0\n");
    out = decide(r, "user=ann", T0);
    assert_int_equal(ration_outcome_charge(r, &out, 404, stopped_at(r, T0 + 30 * DAY), NULL), 0);
    assert_rows(r, T0, "a ann 2023-11 3/0/0\na bob 2023-11 2/0/0\n");
    ration_close(r);
}

static void what_a_ban_refuses_counts_as_refused(void **state)
{
    struct ration *r = open_usage("limits:\n"
                                  "  - { name: a, key: user, limit: 2 per hour, usage: true, "
                                  "escalate: { after: 2 refusals within 1m, ban: 1h } }\n");
    struct ration_attribute user = {"user", 4, "bob", 3};
    struct ration_ban ban = {.attributes = &user, .count = 1};

    (void)state;
    assert_int_equal(admitted(r, "user=ann", 9, T0), 2);
    assert_int_equal(decide(r, "user=ann", T0).kind, RATION_BY_ESCALATION);
    assert_int_equal(ration_ban_set(r, &ban, NULL), 0);
    assert_int_equal(decide(r, "user=bob", T0).kind, RATION_BY_BAN);
    look(r, "user=bob", T0);
    assert_rows(r, T0, "a ann 2023-11 2/8/0\na bob 2023-11 0/1/0\n");
    ration_close(r);
}

static void what_is_admitted_without_the_server_counts(void **state)
{
    struct ration *r = open_usage(
        "limits:\n"
        "  - { name: a, key: user, limit: 1 per hour, usage: true, on_store_failure: allow }\n"
        "  - { name: b, key: user, limit: 1 per hour, usage: true, on_store_failure: local }\n");
    struct ration_outcome out;
    struct words w;

    (void)state;
    split_words(&w, "user=ann");
    for (unsigned i = 0; i < 3; i++)
        assert_int_equal(rn_fallback_decide(r, &w.request, T0, &out), 0);
    assert_rows(r, T0, "a ann 2023-11 1/0/0\nb ann 2023-11 1/2/0\n");
    ration_close(r);
}

static void a_reload_keeps_usage_and_another_calendar_has_rows_of_its_own(void **state)
{
    struct ration *r = open_usage(by_user);

    (void)state;
    decide(r, "user=ann", T0);
    rules_at(r, "limits:\n  - { name: a, key: user, limit: 9 per day, usage: true }\n", T0);
    decide(r, "user=ann", T0);
    rules_at(r, "limits:\n  - { name: a, key: user, limit: 9 per day, usage: { per: day } }\n", T0);
    decide(r, "user=ann", T0);
    rules_at(r, "limits:\n  - { name: a, key: user, limit: 9 per day }\n", T0);
    decide(r, "user=ann", T0);
    assert_rows(r, T0, "a ann 2023-11 2/0/0\na ann 2023-11-14 1/0/0\n");
    ration_close(r);
}

static void usage_without_a_state_file_is_an_error(void **state)
{
    struct ration *r = open_limits(NULL, 0);
    struct ration_report *report;

    (void)state;
    assert_int_equal(ration_rules_parse(r, "x.yaml", by_user, sizeof by_user - 1, &report),
                     RATION_EPARSE);
    assert_non_null(strstr(ration_report_text(report),
                           "x.yaml:2:5: error: \"a\" has usage, which is kept beside a state file, "
                           "and there is none; name one (rationd: --state FILE, library: "
                           "state_path), or leave usage out"));
    ration_report_free(report);
    ration_close(r);
}

static void a_usage_file_that_cannot_be_used_is_an_error(void **state)
{
    struct ration *r = open_state(0);
    struct ration_report *report;
    char path[300];
    FILE *file;

    (void)state;
    snprintf(path, sizeof path, "%s.usage", state_path);
    file = fopen(path, "w");
    assert_non_null(file);
    fputs("something else", file);
    fclose(file);
    assert_int_equal(ration_rules_parse(r, "x.yaml", by_user, sizeof by_user - 1, &report),
                     RATION_EPARSE);
    assert_non_null(strstr(ration_report_text(report), "\"a\" has usage: usage file \""));
    assert_non_null(strstr(ration_report_text(report), "not a usage file of ration"));
    ration_report_free(report);
    ration_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        USAGE_TEST(units_admitted_and_refused_are_counted_by_client),
        USAGE_TEST(usage_survives_closing_and_is_shared),
        USAGE_TEST(a_client_whose_groups_coincide_is_counted_once),
        USAGE_TEST(a_request_that_a_ban_refuses_is_counted_once),
        USAGE_TEST(the_cost_is_what_counts),
        USAGE_TEST(counters_do_not_wrap),
        USAGE_TEST(each_rule_counts_once_and_only_those_that_refused_count_a_refusal),
        USAGE_TEST(a_rule_without_limits_counts),
        USAGE_TEST(shadow_counts_as_admitted),
        USAGE_TEST(periods_change_at_the_boundary_of_the_calendar),
        USAGE_TEST(what_is_given_back_leaves_the_period_of_the_take),
        USAGE_TEST(tickets_settle_usage_once),
        USAGE_TEST(a_charge_by_outcome_counts_when_it_is_made),
        USAGE_TEST(what_a_ban_refuses_counts_as_refused),
        USAGE_TEST(what_is_admitted_without_the_server_counts),
        USAGE_TEST(a_reload_keeps_usage_and_another_calendar_has_rows_of_its_own),
        USAGE_TEST(usage_without_a_state_file_is_an_error),
        USAGE_TEST(a_usage_file_that_cannot_be_used_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
