/* SPDX-License-Identifier: Apache-2.0 */
/* The factor of a rule: what is admitted, told, given back and carried over at a factor. */
#include "factor_fixture.h"

#include <ration/envoy.h>

#include "limiter/rulebook/explain.h"

#define HOUR (60 * MINUTE)
#define RULE(algorithm)                                                                            \
    "limits: [{name: a, key: user, limit: 100 per hour, algorithm: " algorithm "}]"

static const char bucket[] = RULE("token-bucket");
static const char *const each[] = {
    RULE("token-bucket"),
    RULE("fixed-window"),
    RULE("sliding-window"),
    RULE("sliding-window, sub_windows: 6"),
    RULE("sliding-log"),
    "limits: [{name: a, key: user, limit: 100 per hour in steps of 36s}]",
    "limits: [{name: a, key: user, limit: 100 per hour queue 99}]",
};

/* --- in force ---------------------------------------------------------------------------- */

static void the_next_decision_uses_it(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(each); i++) {
        struct ration *r = open_factor_rules(each[i]);
        bool stepped = strstr(each[i], "steps") != NULL;

        assert_int_equal(get_factor(r, "a"), 100);
        assert_int_equal(set_factor(r, "a", 50), 100);
        assert_int_equal(get_factor(r, "a"), 50);
        struct ration_outcome out = decide(r, "user=ann", T0);

        assert_int_equal(out.decision.verdict.limit, 50);
        assert_int_equal(out.limits[0].verdict.limit, 50);
        assert_int_equal(out.decision.verdict.remaining, 49);
        assert_int_equal(admitted(r, "user=ann", 200, T0), 49);
        assert_int_equal(decide(r, "user=ann", T0).decision.verdict.limit, 50);
        assert_int_equal(set_factor(r, "a", 200), 50);
        assert_int_equal(decide(r, "user=bob", T0).decision.verdict.limit, stepped ? 100 : 200);
        assert_int_equal(admitted(r, "user=bob", 300, T0), stepped ? 99 : 199);
        ration_close(r);
    }
}

static void a_factor_that_is_not_listed_counts_as_the_next_lower(void **state)
{
    static const struct {
        unsigned set, get;
    } cases[] = {{55, 50},   {100, 100}, {9, 10},     {0, 100},
                 {199, 190}, {200, 200}, {4000, 200}, {1, 10}};
    struct ration *r = open_factor_rules(bucket);

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        set_factor(r, "a", cases[i].set);
        assert_int_equal(get_factor(r, "a"), cases[i].get);
    }
    ration_close(r);
}

static void a_rule_without_factors_stays_as_written(void **state)
{
    struct ration *r = open_rules(bucket);

    (void)state;
    assert_int_equal(set_factor(r, "a", 50), 100);
    assert_int_equal(get_factor(r, "a"), 100);
    assert_int_equal(admitted(r, "user=ann", 200, T0), 100);
    ration_close(r);
}

static void every_tier_has_it(void **state)
{
    struct ration *r = open_factor_rules("limits:\n"
                                         "  - name: a\n"
                                         "    key: user\n"
                                         "    algorithm: fixed-window\n"
                                         "    limit:\n"
                                         "      by: tier\n"
                                         "      free: 10 per hour\n"
                                         "      pro: 40 per day\n"
                                         "      default: free\n");

    (void)state;
    set_factor(r, "a", 50);
    assert_int_equal(admitted(r, "user=ann tier=free", 50, T0), 5);
    assert_int_equal(admitted(r, "user=bob tier=pro", 50, T0), 20);
    /* What one tier admits counts in the other: half of 5, and half of 20. */
    assert_int_equal(admitted(r, "user=cid tier=free", 5, T0), 5);
    assert_int_equal(admitted(r, "user=cid tier=pro", 50, T0), 0);
    set_factor(r, "a", 100);
    assert_true(admitted(r, "user=cid tier=pro", 50, T0) <= 40 - 5);
    ration_close(r);
}

/* All of them are charged, or none. */
static void several_rules_with_factors_of_their_own(void **state)
{
    struct ration *r = open_factor_rules("limits:\n"
                                         "  - {name: a, key: user, limit: 10 per hour}\n"
                                         "  - {name: b, key: user, limit: 12 per hour}\n");

    (void)state;
    set_factor(r, "b", 50);
    assert_int_equal(admitted(r, "user=ann", 50, T0), 6);
    assert_int_equal(left_of(r, "a", "user=ann", T0), 4);
    set_factor(r, "a", 50);
    set_factor(r, "b", 100);
    assert_int_equal(left_of(r, "a", "user=ann", T0), 2);
    assert_int_equal(left_of(r, "b", "user=ann", T0), 0);
    ration_close(r);
}

static void a_soft_part_and_a_reserve_are_scaled_with_it(void **state)
{
    struct ration *r =
        open_factor_rules("limits:\n"
                          "  - {name: a, key: user, limit: 100 per hour, soft: 10%}\n");
    struct ration_outcome out;

    (void)state;
    set_factor(r, "a", 50);
    out = decide(r, "user=ann", T0);
    assert_int_equal(out.decision.verdict.limit, 50);
    assert_int_equal(admitted(r, "user=ann", 49, T0), 49);
    out = decide(r, "user=ann", T0);
    assert_true(out.decision.allowed && out.soft);
    assert_int_equal(admitted(r, "user=ann", 20, T0), 4);
    factor_rules(r,
                 "limits:\n"
                 "  - name: a\n"
                 "    key: user\n"
                 "    limit: 100 per hour\n"
                 "    priority: {by: level, levels: {high: 0%, low: 20%}, default: high}\n",
                 T0);
    assert_int_equal(get_factor(r, "a"), 50);
    assert_int_equal(admitted(r, "user=bob level=low", 100, T0), 40);
    assert_int_equal(admitted(r, "user=bob level=high", 100, T0), 10);
    ration_close(r);
}

static void a_cost_that_fits_only_as_written_has_a_wait(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(each); i++) {
        struct ration *r = open_factor_rules(each[i]);
        struct ration_outcome out;

        set_factor(r, "a", 50);
        out = decide_cost(r, "user=ann", 80, T0);
        assert_false(out.decision.allowed);
        assert_true(out.decision.verdict.retry_after_ns > 0);
        assert_true(out.decision.verdict.retry_after_ns != RATION_NEVER);
        out = decide_cost(r, "user=ann", 101, T0);
        assert_true(out.decision.verdict.retry_after_ns == RATION_NEVER);
        ration_close(r);
    }
}

struct seen {
    unsigned factor;
    uint64_t limit, remaining;
};

static int see_rule(void *arg, const struct rn_explained_rule *rule)
{
    *(struct seen *)arg = (struct seen){.factor = rule->factor,
                                        .limit = rule->outcome->limits[0].verdict.limit,
                                        .remaining = rule->outcome->limits[0].verdict.remaining};
    return 0;
}

static void an_explanation_tells_the_factor_and_the_limit_in_force(void **state)
{
    struct ration *r = open_factor_rules(bucket);
    struct seen seen;
    struct words w;

    (void)state;
    split_words(&w, "user=ann");
    struct rn_explain explain = {
        .request = &w.request, .now_ns = T0, .arg = &seen, .see = see_rule};

    set_factor(r, "a", 50);
    assert_int_equal(rn_explain_run(r, &explain), 0);
    assert_int_equal(seen.factor, 50);
    assert_int_equal(seen.limit, 50);
    assert_int_equal(seen.remaining, 50);
    rules_at(r, bucket, T0);
    assert_int_equal(rn_explain_run(r, &explain), 0);
    assert_int_equal(seen.factor, 0);
    assert_int_equal(seen.limit, 100);
    ration_close(r);
}

/* --- receipts ---------------------------------------------------------------------------- */

static void a_refund_is_worth_what_was_paid(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(each) - 1; i++) { /* a queue gives its last place back alone */
        struct ration *r = open_factor_rules(each[i]);
        struct ration_outcome first = decide_cost(r, "user=ann", 30, T0);
        struct ration_outcome second = decide_cost(r, "user=ann", 30, T0);

        set_factor(r, "a", 50);
        assert_int_equal(ration_outcome_give_back(r, &second, T0), 0);
        set_factor(r, "a", 100);
        assert_int_equal(left_of(r, "a", "user=ann", T0), 70);
        assert_int_equal(ration_outcome_give_back(r, &first, T0), 0);
        assert_int_equal(left_of(r, "a", "user=ann", T0), 100);

        set_factor(r, "a", 50);
        first = decide_cost(r, "user=bob", 40, T0);
        assert_true(first.decision.allowed);
        set_factor(r, "a", 100);
        assert_int_equal(ration_outcome_give_back(r, &first, T0), 0);
        assert_int_equal(left_of(r, "a", "user=bob", T0), 100);
        ration_close(r);
    }
}

static void a_reservation_is_settled_at_its_price(void **state)
{
    struct ration *r = open_factor_rules(bucket);
    char ticket[RATION_TICKET_SIZE];
    struct ration_outcome out;
    struct words w;

    (void)state;
    split_words(&w, "user=ann");
    w.request.cost = 60;
    assert_int_equal(ration_decide_reserve(r, &w.request, MINUTE, T0, &out, ticket), 0);
    set_factor(r, "a", 50);
    assert_int_equal(ration_ticket_commit(r, ticket, strlen(ticket), false, 30, T0), 0);
    set_factor(r, "a", 100);
    assert_int_equal(left_of(r, "a", "user=ann", T0), 70);

    set_factor(r, "a", 50);
    split_words(&w, "user=bob");
    w.request.cost = 10;
    assert_int_equal(ration_decide_reserve(r, &w.request, MINUTE, T0, &out, ticket), 0);
    set_factor(r, "a", 100);
    assert_int_equal(ration_ticket_commit(r, ticket, strlen(ticket), false, 20, T0), 0);
    assert_int_equal(left_of(r, "a", "user=bob", T0), 60);
    ration_close(r);
}

/* 10 per 3 hours at 70 % and at 75 % both hold 7 units, at different prices. */
static void of_two_prices_the_cheaper_is_given_back(void **state)
{
    static const uint16_t near[] = {70, 75, 100};
    struct ration *r = open_limits(NULL, 0);
    struct ration_outcome out;

    (void)state;
    assert_int_equal(try_factor_rules(r, "limits: [{name: a, key: user, limit: 10 per 3h}]", near,
                                      COUNT(near), T0),
                     0);
    for (unsigned percent = 70; percent <= 75; percent += 5) {
        const char *words = percent == 70 ? "user=ann" : "user=bob";

        set_factor(r, "a", percent);
        out = decide_cost(r, words, 7, T0);
        assert_true(out.decision.allowed);
        assert_int_equal(out.decision.verdict.limit, 7);
        assert_int_equal(ration_outcome_give_back(r, &out, T0), 0);
        set_factor(r, "a", 100);
        assert_true(left_of(r, "a", words, T0) <= 10);
        assert_true(left_of(r, "a", words, T0) >= 9);
    }
    ration_close(r);
}

static void a_refund_after_the_factor_is_gone_never_mints(void **state)
{
    static const uint16_t other[] = {60, 100};

    (void)state;
    for (unsigned percent = 10; percent <= 90; percent += 10) {
        struct ration *r = open_factor_rules("limits: [{name: a, key: user, limit: 33 per hour}]");
        struct ration_outcome first, out;

        first = decide_cost(r, "user=ann", 13, T0);
        set_factor(r, "a", percent);
        out = decide_cost(r, "user=ann", 33 * percent / 100 / 3, T0);
        assert_int_equal(try_factor_rules(r, "limits: [{name: a, key: user, limit: 33 per hour}]",
                                          other, COUNT(other), T0),
                         0);
        set_factor(r, "a", 60);
        if (out.decision.allowed)
            assert_int_equal(ration_outcome_give_back(r, &out, T0), 0);
        set_factor(r, "a", 100);
        assert_true(left_of(r, "a", "user=ann", T0) <= 20);
        assert_int_equal(ration_outcome_give_back(r, &first, T0), 0);
        assert_true(left_of(r, "a", "user=ann", T0) <= 33);
        ration_close(r);
    }
}

static void a_late_debit_has_the_price_of_its_decision(void **state)
{
    struct ration *r = open_factor_rules(
        "limits: [{name: a, key: user, limit: 100 per hour, charge_on: status 401}]");
    struct ration_outcome out;

    (void)state;
    set_factor(r, "a", 50);
    out = decide_cost(r, "user=ann", 10, T0);
    assert_int_equal(out.due_count, 1);
    set_factor(r, "a", 100);
    assert_int_equal(ration_outcome_charge(r, &out, 401, T0, NULL), 0);
    assert_int_equal(left_of(r, "a", "user=ann", T0), 80);
    ration_close(r);
}

/* --- single clients, operators ------------------------------------------------------------- */

static void an_override_has_it_too(void **state)
{
    struct ration *r = open_factor_rules(bucket);
    struct ration_outcome out;

    (void)state;
    set_limit(r, "a", "user=ann", "1000 per hour");
    set_factor(r, "a", 50);
    out = decide_cost(r, "user=ann", 300, T0);
    assert_true(out.decision.allowed);
    assert_int_equal(out.decision.verdict.limit, 500);
    assert_int_equal(left_of(r, "a", "user=ann", T0), 200);
    set_factor(r, "a", 100);
    assert_int_equal(left_of(r, "a", "user=ann", T0), 400);
    assert_int_equal(ration_outcome_give_back(r, &out, T0), 0);
    assert_int_equal(left_of(r, "a", "user=ann", T0), 1000);
    set_factor(r, "a", 20);
    set_limit(r, "a", "user=bob", "50 per day");
    assert_int_equal(admitted(r, "user=bob", 30, T0), 10);
    ration_close(r);
}

/* What the rule's limit had admitted is a share of the override, whatever the factor. */
static void an_override_starts_with_the_share_that_is_spent(void **state)
{
    struct ration *r = open_factor_rules(bucket);

    (void)state;
    set_factor(r, "a", 50);
    assert_int_equal(admitted(r, "user=ann", 25, T0), 25);
    set_limit(r, "a", "user=ann", "1000 per day");
    assert_in_range(left_of(r, "a", "user=ann", T0), 249, 250);
    set_factor(r, "a", 100);
    assert_in_range(left_of(r, "a", "user=ann", T0), 499, 500);
    ration_close(r);
}

static void operators_change_what_is_in_force(void **state)
{
    struct ration *r = open_factor_rules(bucket);
    struct words w;

    (void)state;
    split_words(&w, "user=ann");
    set_factor(r, "a", 50);
    assert_int_equal(ration_state_set_remaining(r, &w.request, "a", 1, 20, T0), 0);
    assert_int_equal(left_of(r, "a", "user=ann", T0), 20);
    assert_int_equal(ration_state_adjust(r, &w.request, "a", 1, 5, T0), 0);
    assert_int_equal(left_of(r, "a", "user=ann", T0), 15);
    set_factor(r, "a", 100);
    assert_int_equal(left_of(r, "a", "user=ann", T0), 30);
    assert_int_equal(ration_state_reset(r, &w.request, "a", 1, T0, NULL), 0);
    assert_int_equal(left_of(r, "a", "user=ann", T0), 100);
    ration_close(r);
}

static void a_given_limit_of_envoy_has_it_too(void **state)
{
    const struct ration_descriptor_entry entry = {"user", 4, "ann", 3};
    struct ration_descriptor_ask ask = {.entries = &entry, .count = 1};
    struct ration_descriptors request = {
        .domain = "shop", .domain_len = 4, .asks = &ask, .count = 1};
    struct ration *r = open_factor_rules(shop);
    struct ration_descriptors_outcome out;
    struct rn_book *book = __atomic_load_n(&r->shelf.book, __ATOMIC_RELAXED);

    (void)state;
    rn_factor_set(r, book, &book->ruleset->rules[0], 50);
    assert_int_equal(ration_decide_descriptors(r, &request, T0, &out), 0);
    assert_int_equal(out.statuses[0].requests_per_unit, 5);
    assert_int_equal(out.statuses[0].remaining, 4);
    ask.limit_given = true;
    ask.requests_per_unit = 20;
    ask.unit = RATION_UNIT_HOUR;
    assert_int_equal(ration_decide_descriptors(r, &request, T0, &out), 0);
    assert_int_equal(out.statuses[0].requests_per_unit, 10);
    assert_int_equal(out.statuses[0].remaining, 8);
    ration_close(r);
}

/* --- reloads, files ------------------------------------------------------------------------ */

static void a_reload_keeps_factor_and_state(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(each); i++) {
        struct ration *r = open_factor_rules(each[i]);

        set_factor(r, "a", 50);
        assert_int_equal(admitted(r, "user=ann", 20, T0), 20);
        factor_rules(r, each[i], T0);
        assert_int_equal(get_factor(r, "a"), 50);
        assert_int_equal(admitted(r, "user=ann", 200, T0), 30);
        rules_at(r, each[i], T0); /* the rule has no factors any more */
        assert_int_equal(get_factor(r, "a"), 100);
        assert_true(admitted(r, "user=ann", 200, T0) <= 50);
        factor_rules(r, each[i], T0);
        assert_int_equal(get_factor(r, "a"), 50);
        assert_int_equal(admitted(r, "user=ann", 200, T0), 0);
        ration_close(r);
    }
}

/* What was spent of the old shape is a share, whatever the factor was and is. */
static void a_new_shape_inherits_the_share(void **state)
{
    struct ration *r = open_factor_rules(bucket);

    (void)state;
    set_factor(r, "a", 50);
    assert_int_equal(admitted(r, "user=ann", 25, T0), 25);
    factor_rules(r, "limits: [{name: a, key: user, limit: 200 per day}]", T0 + SECOND);
    assert_int_equal(get_factor(r, "a"), 50);
    assert_in_range(left_of(r, "a", "user=ann", T0 + SECOND), 49, 50);
    assert_in_range(admitted(r, "user=ann", 200, T0 + SECOND), 49, 50);
    ration_close(r);
}

/* A rate whose units are no whole nanoseconds at some factor has another form with factors. */
static void a_state_is_read_with_and_without_factors(void **state)
{
    static const char fast[] =
        "limits: [{name: a, key: user, limit: 1000000 per second burst 1000}]";
    struct ration *r = open_rules(fast);

    (void)state;
    assert_true(decide_cost(r, "user=ann", 400, T0).decision.allowed);
    factor_rules(r, fast, T0);
    assert_int_equal(left_of(r, "a", "user=ann", T0), 600);
    set_factor(r, "a", 70);
    assert_int_equal(left_of(r, "a", "user=ann", T0), 420);
    assert_true(decide_cost(r, "user=ann", 350, T0).decision.allowed);
    rules_at(r, fast, T0);
    assert_in_range(left_of(r, "a", "user=ann", T0), 99, 100); /* 1428.57 ns each, rounded up */
    ration_close(r);
}

static struct ration *open_at(const char *path)
{
    struct ration_options options = {.state_path = path, .memory_bytes = UINT64_C(1) << 20};
    struct ration *r = NULL;
    struct ration_error error;

    if (ration_open(&options, &r, &error) != 0)
        fail_msg("%s", error.text);
    return r;
}

static void all_users_of_a_file_have_it_and_a_restart_keeps_it(void **state)
{
    char path[] = "/tmp/ration-test-XXXXXX";
    int fd = mkstemp(path);

    (void)state;
    close(fd);
    unlink(path);
    struct ration *r = open_at(path), *other = open_at(path);

    factor_rules(r, bucket, T0);
    factor_rules(other, bucket, T0);
    set_factor(r, "a", 50);
    assert_int_equal(get_factor(other, "a"), 50);
    assert_int_equal(decide(other, "user=ann", T0).decision.verdict.limit, 50);
    ration_close(r);
    ration_close(other);
    r = open_at(path);
    factor_rules(r, bucket, T0);
    assert_int_equal(get_factor(r, "a"), 50);
    ration_close(r);
    unlink(path);
}

static void a_full_board_keeps_the_old_rules(void **state)
{
    struct ration *r = open_factor_rules(bucket);

    (void)state;
    memset(rn_table_board(r->table) + PAUSE_WORDS + 2, 0xFF,
           RN_BOARD_BYTES - 8 * (PAUSE_WORDS + 2));
    assert_int_equal(try_factor_rules(r, "limits: [{name: b, key: user, limit: 1 per hour}]",
                                      ten_by_ten, COUNT(ten_by_ten), T0),
                     RATION_EBOARD);
    assert_int_equal(set_factor(r, "a", 50), 100);
    assert_int_equal(admitted(r, "user=ann", 200, T0), 50);
    ration_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_next_decision_uses_it),
        cmocka_unit_test(a_factor_that_is_not_listed_counts_as_the_next_lower),
        cmocka_unit_test(a_rule_without_factors_stays_as_written),
        cmocka_unit_test(every_tier_has_it),
        cmocka_unit_test(several_rules_with_factors_of_their_own),
        cmocka_unit_test(a_soft_part_and_a_reserve_are_scaled_with_it),
        cmocka_unit_test(a_cost_that_fits_only_as_written_has_a_wait),
        cmocka_unit_test(an_explanation_tells_the_factor_and_the_limit_in_force),
        cmocka_unit_test(a_refund_is_worth_what_was_paid),
        cmocka_unit_test(a_reservation_is_settled_at_its_price),
        cmocka_unit_test(of_two_prices_the_cheaper_is_given_back),
        cmocka_unit_test(a_refund_after_the_factor_is_gone_never_mints),
        cmocka_unit_test(a_late_debit_has_the_price_of_its_decision),
        cmocka_unit_test(an_override_has_it_too),
        cmocka_unit_test(an_override_starts_with_the_share_that_is_spent),
        cmocka_unit_test(operators_change_what_is_in_force),
        cmocka_unit_test(a_given_limit_of_envoy_has_it_too),
        cmocka_unit_test(a_reload_keeps_factor_and_state),
        cmocka_unit_test(a_new_shape_inherits_the_share),
        cmocka_unit_test(a_state_is_read_with_and_without_factors),
        cmocka_unit_test(all_users_of_a_file_have_it_and_a_restart_keeps_it),
        cmocka_unit_test(a_full_board_keeps_the_old_rules),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
