/* SPDX-License-Identifier: Apache-2.0 */
/* What clients earn, in decisions: which limit is in force, what counts and what does not. */
#include "factor_fixture.h"

#include "limiter/reputation/earned.h"

#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)
#define EARN "earn: {every: 24h, add: 10%, up_to: 120%, lost_by: 3 refusals within 1h}"
#define FIXED "algorithm: fixed-window, " EARN
#define RULE(algorithm)                                                                            \
    "limits: [{name: a, key: user, limit: 100 per hour, algorithm: " algorithm ", " EARN "}]"

static const char bucket[] = RULE("token-bucket");
static const char *const each[] = {
    RULE("token-bucket"),
    RULE("fixed-window"),
    RULE("sliding-window"),
    RULE("sliding-window, sub_windows: 6"),
    RULE("sliding-log"),
    "limits: [{name: a, key: user, limit: 100 per hour queue 99, " EARN "}]",
    "limits: [{name: a, key: user, limit: [100 per hour, 1000 per 6h], " EARN "}]",
    /* decided at length: */
    "limits: [{name: a, key: user, limit: 100 per hour, " EARN
    ", priority: {by: importance, levels: {high: 0%, low: 50%}, default: high}}]",
    "limits: [{name: a, key: user, limit: 100 per hour, " EARN ", throttle: {from: 99%}}]",
};

/* The limit that the next decision would tell. */
static uint64_t limit_of(struct ration *r, const char *words, int64_t now_ns)
{
    return look(r, words, now_ns).decision.verdict.limit;
}

/* One request each day, `days` of them; returns the time of the last. */
static int64_t come_daily(struct ration *r, const char *words, unsigned days, int64_t from_ns)
{
    for (unsigned i = 0; i < days; i++)
        assert_true(decide(r, words, from_ns + i * DAY).decision.allowed);
    return from_ns + (days - 1) * DAY;
}

/* --- in force ------------------------------------------------------------------------------- */

static void a_client_that_comes_daily_has_more(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(each); i++) {
        struct ration *r = open_rules(each[i]);
        int64_t now_ns = come_daily(r, "user=ann", 2, T0);

        assert_int_equal(limit_of(r, "user=ann", now_ns), 110);
        assert_int_equal(decide(r, "user=ann", now_ns).limits[0].amount, 110);
        now_ns = come_daily(r, "user=ann", 2, now_ns);
        assert_int_equal(limit_of(r, "user=ann", now_ns), 120);
        now_ns = come_daily(r, "user=ann", 2, now_ns);
        assert_int_equal(limit_of(r, "user=ann", now_ns), 120);
        assert_int_equal(admitted(r, "user=ann", 200, stopped_at(r, now_ns + 12 * HOUR)), 120);
        assert_int_equal(admitted(r, "user=bob", 200, stopped_at(r, now_ns + 12 * HOUR)), 100);
        ration_close(r);
    }
}

static void every_tier_has_it(void **state)
{
    struct ration *r = open_rules("limits:\n"
                                  "  - name: a\n"
                                  "    key: user\n"
                                  "    algorithm: fixed-window\n"
                                  "    limit: {by: tier, free: 10 per hour, pro: 40 per day}\n"
                                  "    " EARN "\n");
    int64_t now_ns = come_daily(r, "user=ann tier=free", 3, T0) + HOUR;

    (void)state;
    assert_int_equal(limit_of(r, "user=ann tier=free", now_ns), 12);
    assert_int_equal(limit_of(r, "user=ann tier=pro", now_ns), 48);
    /* All of one tier leaves nothing in the other: both are asked at what was earned. */
    assert_int_equal(admitted(r, "user=ann tier=free", 30, stopped_at(r, now_ns)), 12);
    assert_int_equal(admitted(r, "user=ann tier=pro", 60, stopped_at(r, now_ns)), 0);
    ration_close(r);
}

static void it_multiplies_the_factor_of_the_rule(void **state)
{
    static const char text[] = "signals: {load: {source: push, expires: 1h}}\n"
                               "limits:\n"
                               "  - name: a\n"
                               "    key: user\n"
                               "    limit: 100 per hour\n"
                               "    earn: {every: 24h, add: 50%, up_to: 200%}\n"
                               "    adapt: {when: load above 10, to: 50%, restore: {by: 25%}}\n"
                               "    elastic: {up_to: 200%, while: load below 5, by: 50%}\n";
    struct ration *r = open_rules(text);
    int64_t now_ns = come_daily(r, "user=ann", 2, T0);

    (void)state;
    assert_int_equal(limit_of(r, "user=ann", now_ns), 150);
    set_factor(r, "a", 50);
    assert_int_equal(limit_of(r, "user=ann", now_ns), 75);
    assert_int_equal(limit_of(r, "user=bob", now_ns), 50);
    set_factor(r, "a", 75);
    assert_int_equal(limit_of(r, "user=ann", now_ns), 112);
    set_factor(r, "a", 200);
    assert_int_equal(limit_of(r, "user=ann", now_ns), 300);
    now_ns = come_daily(r, "user=ann", 3, now_ns);
    assert_int_equal(limit_of(r, "user=ann", now_ns), 400);
    ration_close(r);
}

static void a_rule_without_signals_needs_no_word_of_the_board(void **state)
{
    struct ration *r = open_rules(bucket);
    const struct rn_book *book = r->shelf.book;

    (void)state;
    assert_false(rn_factor_is_set(book, &book->ruleset->rules[0]));
    set_factor(r, "a", 50);
    assert_int_equal(get_factor(r, "a"), 100);
    ration_close(r);
}

/* An operator's word stands. */
static void an_override_stands_as_written(void **state)
{
    struct ration *r = open_rules(bucket);
    int64_t now_ns = come_daily(r, "user=ann", 3, ration_now(r) - 2 * DAY);

    (void)state;
    set_limit(r, "a", "user=ann", "1000 per hour");
    assert_int_equal(limit_of(r, "user=ann", now_ns), 1000);
    delete_limit(r, "a", "user=ann");
    assert_int_equal(limit_of(r, "user=ann", now_ns), 120);
    ration_close(r);
}

/* Half of what the client had earned is spent: half of the override is. */
static void an_override_starts_with_the_share_that_is_spent(void **state)
{
    struct ration *r = open_rules(RULE("fixed-window"));
    int64_t now_ns = come_daily(r, "user=ann", 3, ration_now(r) - 2 * DAY);

    (void)state;
    assert_true(decide_cost(r, "user=ann", 59, now_ns).decision.allowed);
    set_limit(r, "a", "user=ann", "1000 per day");
    assert_int_equal(limit_of(r, "user=ann", now_ns), 1000);
    assert_in_range(left_of(r, "a", "user=ann", now_ns), 490, 1000);
    ration_close(r);
}

/* --- earned and lost ------------------------------------------------------------------------ */

static void refusals_in_an_hour_lose_all(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(each); i++) {
        struct ration *r = open_rules(each[i]);
        int64_t now_ns = come_daily(r, "user=ann", 3, T0);
        struct ration_reputation_totals totals;

        for (unsigned n = 0; n < 2; n++)
            assert_false(decide_cost(r, "user=ann", 500, now_ns).decision.allowed);
        assert_int_equal(limit_of(r, "user=ann", now_ns), 120);
        assert_false(decide_cost(r, "user=ann", 500, now_ns + HOUR - SECOND).decision.allowed);
        assert_int_equal(limit_of(r, "user=ann", now_ns + HOUR), 100);
        now_ns = come_daily(r, "user=ann", 2, now_ns + HOUR);
        assert_int_equal(limit_of(r, "user=ann", now_ns), 110);
        ration_reputation_totals(r, &totals);
        assert_int_equal(totals.steps, 3);
        assert_int_equal(totals.lost_steps, 1);
        ration_close(r);
    }
}

static void the_next_window_counts_from_one(void **state)
{
    struct ration *r = open_rules(bucket);
    int64_t now_ns = come_daily(r, "user=ann", 3, T0);

    (void)state;
    for (unsigned n = 0; n < 20; n++)
        decide_cost(r, "user=ann", 500, now_ns + n * 31 * MINUTE);
    assert_int_equal(limit_of(r, "user=ann", now_ns), 120);
    ration_close(r);
}

/* What is no offence for escalate loses nothing either. */
static void other_refusals_lose_nothing(void **state)
{
    static const char text[] =
        "signals: {load: {source: push, expires: 1h}}\n"
        "limits:\n"
        "  - name: a\n"
        "    key: user\n"
        "    limit: 100 per hour\n"
        "    priority: {by: importance, levels: {high: 0%, low: 50%}, default: high}\n"
        "    earn: {every: 24h, add: 20%, up_to: 120%, lost_by: 1 refusals within 1h}\n"
        "    adapt: {when: load above 10, to: 50%}\n";
    struct ration *r = open_rules(text);
    int64_t now_ns = come_daily(r, "user=ann", 2, T0);
    struct ration_outcome out;
    struct words w;

    (void)state;
    assert_false(decide_cost(r, "user=ann importance=low", 61, now_ns).decision.allowed);
    set_factor(r, "a", 50);
    assert_false(decide_cost(r, "user=ann", 90, now_ns).decision.allowed);
    set_factor(r, "a", 100);
    split_words(&w, "user=ann");
    w.request.cost = 500;
    assert_int_equal(ration_decide_peek(r, &w.request, now_ns, &out), 0);
    assert_false(out.decision.allowed);
    w.request.shadow = true;
    assert_int_equal(ration_decide(r, &w.request, now_ns, &out), 0);
    assert_true(out.shadow_refused);
    assert_int_equal(limit_of(r, "user=ann", now_ns), 120);
    w.request.shadow = false;
    assert_int_equal(ration_decide(r, &w.request, now_ns, &out), 0);
    assert_int_equal(limit_of(r, "user=ann", now_ns), 100);
    ration_close(r);
}

static void only_admissions_earn(void **state)
{
    struct ration *r = open_rules(bucket);
    struct ration_outcome out;
    struct words w;

    (void)state;
    split_words(&w, "user=ann");
    for (int day = 0; day < 3; day++) {
        look(r, "user=ann", T0 + day * DAY);
        decide_cost(r, "user=ann", 500, T0 + day * DAY);
        w.request.shadow = true;
        assert_int_equal(ration_decide(r, &w.request, T0 + day * DAY, &out), 0);
    }
    come_daily(r, "user=ann", 1, T0 + 3 * DAY);
    assert_int_equal(limit_of(r, "user=ann", T0 + 3 * DAY), 100);
    ration_close(r);
}

static void each_rule_counts_for_itself(void **state)
{
    struct ration *r = open_rules("limits:\n"
                                  "  - {name: a, key: user, limit: 100 per hour, " FIXED "}\n"
                                  "  - {name: b, key: ip, limit: 1000 per hour, " FIXED "}\n"
                                  "  - {name: c, key: user, limit: 10000 per hour}\n");
    int64_t now_ns = come_daily(r, "user=ann ip=192.0.2.1", 2, T0);

    (void)state;
    come_daily(r, "user=bob ip=192.0.2.1", 1, now_ns);
    assert_int_equal(left_of(r, "a", "user=ann ip=192.0.2.1", now_ns), 109);
    assert_int_equal(left_of(r, "b", "user=bob ip=192.0.2.1", now_ns), 1098);
    assert_int_equal(left_of(r, "a", "user=bob ip=192.0.2.1", now_ns), 99);
    assert_int_equal(left_of(r, "c", "user=ann ip=192.0.2.1", now_ns), 9999);
    for (unsigned i = 0; i < 3; i++) /* a refuses, b does not */
        assert_false(decide_cost(r, "user=ann ip=192.0.2.1", 500, now_ns).decision.allowed);
    assert_int_equal(left_of(r, "a", "user=ann ip=192.0.2.1", now_ns), 99);
    assert_int_equal(left_of(r, "b", "user=bob ip=192.0.2.1", now_ns), 1098);
    ration_close(r);
}

/* --- receipts, operators, reloads ------------------------------------------------------------ */

/* Buckets keep times: a refund at another step is worth what was paid, at most. */
static void a_refund_after_a_loss_never_mints(void **state)
{
    (void)state;
    for (size_t i = 0; i < 5; i++) {
        struct ration *r = open_rules(each[i]);
        int64_t now_ns = stopped_at(r, come_daily(r, "user=ann", 3, T0) + 6 * HOUR);
        struct ration_outcome out = decide_cost(r, "user=ann", 60, now_ns);

        assert_true(out.decision.allowed);
        for (unsigned n = 0; n < 3; n++)
            decide_cost(r, "user=ann", 500, stopped_at(r, now_ns));
        assert_int_equal(limit_of(r, "user=ann", stopped_at(r, now_ns)), 100);
        uint64_t left = left_of(r, "a", "user=ann", stopped_at(r, now_ns));

        assert_true(left == 40 || left == 50); /* windows count units, buckets shares */
        assert_int_equal(ration_outcome_give_back(r, &out, stopped_at(r, now_ns)), 0);
        assert_int_equal(left_of(r, "a", "user=ann", stopped_at(r, now_ns)), 100);
        assert_int_equal(admitted(r, "user=ann", 200, stopped_at(r, now_ns)), 100);
        ration_close(r);
    }
}

static void a_late_debit_has_the_price_of_its_decision(void **state)
{
    struct ration *r = open_rules("limits:\n"
                                  "  - name: a\n"
                                  "    key: user\n"
                                  "    limit: 100 per hour\n"
                                  "    charge_on: status 401\n"
                                  "    earn: {every: 24h, add: 100%, up_to: 200%}\n");
    int64_t now_ns = come_daily(r, "user=ann", 2, T0);
    struct ration_outcome out = decide_cost(r, "user=ann", 100, now_ns);
    uint32_t count;

    (void)state;
    assert_int_equal(out.decision.verdict.limit, 200);
    for (unsigned n = 0; n < 3; n++)
        decide_cost(r, "user=ann", 500, now_ns);
    assert_int_equal(limit_of(r, "user=ann", now_ns), 100);
    assert_int_equal(ration_outcome_charge(r, &out, 401, now_ns, &count), 0);
    assert_int_equal(left_of(r, "a", "user=ann", now_ns), 50);
    ration_close(r);
}

static void operators_see_and_change_what_is_in_force(void **state)
{
    struct ration *r = open_rules(bucket);
    int64_t now_ns = come_daily(r, "user=ann", 3, T0);
    struct words w;

    (void)state;
    split_words(&w, "user=ann");
    assert_int_equal(ration_state_set_remaining(r, &w.request, "a", 1, 110, now_ns), 0);
    assert_int_equal(left_of(r, "a", "user=ann", now_ns), 110);
    assert_int_equal(ration_state_adjust(r, &w.request, "a", 1, 50, now_ns), 0);
    assert_int_equal(left_of(r, "a", "user=ann", now_ns), 60);
    assert_int_equal(ration_state_reset(r, &w.request, "a", 1, now_ns, NULL), 0);
    assert_int_equal(left_of(r, "a", "user=ann", now_ns), 120);
    ration_close(r);
}

static void a_reload_counts_at_once(void **state)
{
    struct ration *r = open_rules(bucket);
    int64_t now_ns = come_daily(r, "user=ann", 3, T0);

    (void)state;
    rules_at(r, "limits: [{name: a, key: user, limit: 100 per hour}]", now_ns);
    assert_int_equal(limit_of(r, "user=ann", now_ns), 100);
    rules_at(r,
             "limits: [{name: a, key: user, limit: 100 per hour, "
             "earn: {every: 24h, add: 5%, up_to: 115%}}]",
             now_ns);
    assert_int_equal(limit_of(r, "user=ann", now_ns), 115);
    rules_at(r, bucket, now_ns);
    assert_int_equal(limit_of(r, "user=ann", now_ns), 120);
    ration_close(r);
}

static void what_was_earned_outlives_the_process(void **state)
{
    struct ration *r = open_state_rules(bucket);
    int64_t now_ns = come_daily(r, "user=ann", 3, ration_now(r) - 3 * DAY);

    (void)state;
    ration_close(r);
    r = open_state_rules(bucket);
    assert_int_equal(limit_of(r, "user=ann", now_ns), 120);
    ration_close(r);
}

static int remove_state(void **state)
{
    (void)state;
    remove_files();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_client_that_comes_daily_has_more),
        cmocka_unit_test(every_tier_has_it),
        cmocka_unit_test(it_multiplies_the_factor_of_the_rule),
        cmocka_unit_test(a_rule_without_signals_needs_no_word_of_the_board),
        cmocka_unit_test(an_override_stands_as_written),
        cmocka_unit_test(an_override_starts_with_the_share_that_is_spent),
        cmocka_unit_test(refusals_in_an_hour_lose_all),
        cmocka_unit_test(the_next_window_counts_from_one),
        cmocka_unit_test(other_refusals_lose_nothing),
        cmocka_unit_test(only_admissions_earn),
        cmocka_unit_test(each_rule_counts_for_itself),
        cmocka_unit_test(a_refund_after_a_loss_never_mints),
        cmocka_unit_test(a_late_debit_has_the_price_of_its_decision),
        cmocka_unit_test(operators_see_and_change_what_is_in_force),
        cmocka_unit_test(a_reload_counts_at_once),
        cmocka_unit_test_setup_teardown(what_was_earned_outlives_the_process, remove_state,
                                        remove_state),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
