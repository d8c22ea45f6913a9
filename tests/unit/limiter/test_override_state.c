/* SPDX-License-Identifier: Apache-2.0 */
/* Clients that have an override: their tickets are settled, their state is changed,
 * and what they have spent is counted, as for any other. */
#include "clients_fixture.h"
#include "ticket_fixture.h"

#define HOUR (60 * MINUTE)

static const char tiers[] = "limits:\n"
                            "  - name: a\n"
                            "    key: user\n"
                            "    algorithm: sliding-log\n"
                            "    limit:\n"
                            "      by: plan\n"
                            "      free: 10 per 10s\n"
                            "      pro: 90 per minute\n"
                            "      gold: unlimited\n"
                            "      default: free\n";

static uint64_t left_of_ann(struct ration *r, int64_t now_ns)
{
    return left_of(r, "a", "user=ann", stopped_at(r, now_ns));
}

/* --- tickets ------------------------------------------------------------------------------ */

static const char *const texts[] = {
    "40 per hour",          "20 per hour burst 5",        "60 per day",  "60 per hour queue 20",
    "200 per calendar day", "240 per day in steps of 1h", "10 per hour", "4000000 per hour burst 9",
};

static void what_was_not_used_comes_back(void **state)
{
    static const char *const algorithms[] = {"token-bucket", "fixed-window", "sliding-log",
                                             "sliding-window"};
    char rules[120];

    (void)state;
    for (size_t a = 0; a < COUNT(algorithms); a++)
        for (size_t i = 0; i < COUNT(texts); i++) {
            struct slip slip, other;

            snprintf(rules, sizeof rules,
                     "limits:\n  - { name: a, key: user, limit: 10 per hour, algorithm: %s }\n",
                     algorithms[a]);
            struct ration *r = open_rules(rules);

            set_limit(r, "a", "user=ann", texts[i]);
            uint64_t full = left_of_ann(r, T0);

            reserve(r, "user=ann", 4, T0, &slip);
            assert_int_equal(left_of_ann(r, T0), full - 4);
            assert_int_equal(commit(r, &slip, 1, T0), 0);
            assert_int_equal(left_of_ann(r, T0), full - 1);
            assert_int_equal(commit(r, &slip, 1, T0), RATION_EALREADY);
            reserve(r, "user=ann", 2, T0, &slip);
            assert_int_equal(refund(r, &slip, T0), 0);
            other.out = decide(r, "user=ann", T0);
            assert_int_equal(left_of_ann(r, T0), full - 2);
            assert_int_equal(ration_outcome_give_back(r, &other.out, T0), 0);
            assert_int_equal(left_of_ann(r, T0), full - 1);
            ration_close(r);
        }
}

/* It is found by the client and its shape. */
static void what_an_override_that_is_gone_was_charged_is_burnt(void **state)
{
    struct ration *r = open_rules(by_user);
    struct slip slip;

    (void)state;
    set_limit(r, "a", "user=ann", "100 per day");
    reserve(r, "user=ann", 40, T0, &slip);
    set_limit(r, "a", "user=ann", "100 per 2 days");
    assert_int_equal(left_of_ann(r, T0), 60);
    assert_int_equal(refund(r, &slip, T0), RATION_EGONE);
    assert_int_equal(left_of_ann(r, T0), 60);
    reserve(r, "user=ann", 40, T0, &slip);
    delete_limit(r, "a", "user=ann");
    set_limit(r, "a", "user=bob", "100 per 2 days"); /* of another client */
    assert_int_equal(refund(r, &slip, T0), RATION_EGONE);
    ration_close(r);
}

static void one_of_the_same_shape_gets_back_what_another_was_charged(void **state)
{
    struct ration *r = open_rules(by_user);
    struct slip slip;

    (void)state;
    set_limit(r, "a", "user=ann", "1000 per hour");
    reserve(r, "user=ann", 500, T0, &slip);
    set_limit(r, "a", "user=ann", "100 per hour");
    assert_int_equal(left_of_ann(r, T0), 50);
    assert_int_equal(refund(r, &slip, T0), 0);
    assert_int_equal(left_of_ann(r, T0), 100);
    reserve(r, "user=ann", 50, T0, &slip);
    delete_limit(r, "a", "user=ann"); /* the rule's own, then: half of 10 */
    assert_int_equal(left_of_ann(r, T0), 5);
    assert_int_equal(refund(r, &slip, T0), 0);
    assert_int_equal(left_of_ann(r, T0), 10);
    reserve(r, "user=ann", 5, T0, &slip);
    set_limit(r, "a", "user=ann", "100 per hour");
    assert_int_equal(left_of_ann(r, T0), 50);
    assert_int_equal(refund(r, &slip, T0), 0);
    assert_int_equal(left_of_ann(r, T0), 100);
    ration_close(r);
}

static void places_are_known_by_tickets(void **state)
{
    struct ration *r = open_rules(by_user);
    struct slip one, two, three;
    int64_t lasts_ns;

    (void)state;
    set_limit(r, "a", "user=ann", "2 concurrent");
    acquire(r, "user=ann", 0, T0, &one);
    reserve(r, "user=ann", 1, T0, &two);
    acquire(r, "user=ann", 0, T0, &three);
    assert_true(one.out.decision.allowed && two.out.decision.allowed);
    assert_false(three.out.decision.allowed);
    assert_string_equal(three.text, "");
    assert_int_equal(refund(r, &two, T0), 0);
    assert_int_equal(left_of_ann(r, T0), 1);
    delete_limit(r, "a", "user=ann"); /* a place is held whatever holds by now */
    assert_int_equal(renew(r, &one, MINUTE, T0, &lasts_ns), 0);
    assert_int_equal(release(r, &one, T0), 0);
    assert_int_equal(release(r, &one, T0), RATION_EGONE);
    ration_close(r);
}

/* --- the state of a client ------------------------------------------------------------------ */

static int reset(struct ration *r, const char *words, uint32_t *count)
{
    struct words w;

    split_words(&w, words);
    return ration_state_reset(r, &w.request, "a", 1, T0, count);
}

static int adjust(struct ration *r, const char *words, int64_t add, int64_t now_ns)
{
    struct words w;

    split_words(&w, words);
    return ration_state_adjust(r, &w.request, "a", 1, add, now_ns);
}

static int set_remaining(struct ration *r, const char *words, uint64_t remaining, int64_t now_ns)
{
    struct words w;

    split_words(&w, words);
    return ration_state_set_remaining(r, &w.request, "a", 1, remaining, now_ns);
}

static void a_reset_forgets_the_override_and_what_is_under_it(void **state)
{
    struct ration *r = open_rules(by_user);
    uint32_t count = 0;

    (void)state;
    set_limit(r, "a", "user=ann", "100 per day");
    set_limit(r, "a", "user=bob", "100 per day");
    assert_int_equal(admitted(r, "user=ann", 100, T0), 100);
    assert_int_equal(admitted(r, "user=bob", 100, T0), 100);
    assert_int_equal(reset(r, "user=ann", &count), 0);
    assert_int_equal(count, 1);
    assert_int_equal(left_of_ann(r, T0), 100);
    assert_int_equal(left_of(r, "a", "user=bob", T0), 0);
    delete_limit(r, "a", "user=ann");
    assert_int_equal(left_of_ann(r, T0), 10);
    set_limit(r, "a", "user=ann", "unlimited");
    assert_int_equal(reset(r, "user=ann", &count), 0);
    assert_int_equal(count, 0);
    ration_close(r);
}

static void a_reset_reaches_an_override_of_a_rule_without_limits(void **state)
{
    struct ration *r = open_rules("limits:\n  - { name: a, key: user, limit: unlimited }\n");
    uint32_t count = 0;

    (void)state;
    set_limit(r, "a", "user=ann", "3 per hour");
    assert_int_equal(admitted(r, "user=ann", 9, T0), 3);
    assert_int_equal(reset(r, "user=ann", &count), 0);
    assert_int_equal(count, 1);
    assert_int_equal(admitted(r, "user=ann", 9, T0), 3);
    set_limit(r, "a", "user=ann", "2 concurrent");
    assert_int_equal(admitted(r, "user=ann", 9, T0), 2);
    assert_int_equal(reset(r, "user=ann", NULL), 0);
    assert_int_equal(admitted(r, "user=ann", 9, T0), 2);
    ration_close(r);
}

/* Of a client that was elsewhere nothing is left, not even that it was. */
static void a_reset_forgets_that_a_client_has_moved(void **state)
{
    struct ration *r = open_rules(tiers);
    struct ration_memory memory;

    (void)state;
    assert_int_equal(reset(r, "user=eve", NULL),
                     0); /* no request came: entries of the reset log alone */
    ration_memory(r, T0, &memory);
    uint64_t logged = memory.live;

    assert_int_equal(admitted(r, "user=ann plan=pro", 99, stopped_at(r, T0)), 90);
    assert_int_equal(reset(r, "user=ann", NULL), 0);
    assert_int_equal(left_of(r, "a", "user=ann plan=pro", T0), 90);
    ration_memory(r, T0, &memory);
    assert_int_equal(memory.live, 2 * logged);
    assert_int_equal(admitted(r, "user=ann plan=free", 99, T0), 10);
    /* Nor of one whose override the rule's limits guard. */
    assert_int_equal(admitted(r, "user=bob plan=pro", 30, T0), 30);
    set_limit(r, "a", "user=bob", "5 per 20s");
    assert_int_equal(reset(r, "user=bob", NULL), 0);
    ration_memory(r, T0, &memory);
    assert_int_equal(memory.live, 2 + 3 * logged + 1); /* both logs of ann; and the override's */
    ration_close(r);
}

static void adjusting_acts_on_the_override(void **state)
{
    struct ration *r = open_rules(by_user);

    (void)state;
    set_limit(r, "a", "user=ann", "100 per day");
    assert_int_equal(adjust(r, "user=ann", 30, T0), 0);
    assert_int_equal(left_of_ann(r, T0), 70);
    assert_int_equal(adjust(r, "user=ann", -10, T0), 0);
    assert_int_equal(left_of_ann(r, T0), 80);
    assert_int_equal(set_remaining(r, "user=ann", 55, T0), 0);
    assert_int_equal(left_of_ann(r, T0), 55);
    assert_int_equal(admitted(r, "user=ann", 99, T0), 55);
    assert_int_equal(set_remaining(r, "user=ann", 1000, T0), 0);
    assert_int_equal(left_of_ann(r, T0), 100);
    set_limit(r, "a", "user=ann", "2 concurrent");
    assert_int_equal(adjust(r, "user=ann", 1, T0), RATION_EPLACES);
    ration_close(r);
}

/* --- adjusting, and guards ------------------------------------------------------------------- */

static void what_is_adjusted_is_counted_in_larger_tiers(void **state)
{
    struct ration *r = open_rules(tiers);

    (void)state;
    assert_int_equal(adjust(r, "user=ann plan=free", 6, stopped_at(r, T0)), 0);
    assert_int_equal(left_of(r, "a", "user=ann plan=free", T0), 4);
    assert_int_equal(left_of(r, "a", "user=ann plan=pro", T0), 84);
    assert_int_equal(adjust(r, "user=ann plan=free", -4, T0), 0);
    assert_int_equal(left_of(r, "a", "user=ann plan=free", T0), 8);
    assert_int_equal(left_of(r, "a", "user=ann plan=pro", T0), 88);
    ration_close(r);
}

/* One that has moved is held to both; what an operator leaves it, it has. */
static void what_is_left_to_a_client_that_has_moved_it_can_take(void **state)
{
    struct ration *r = open_rules(tiers);
    int64_t later = T0 + 20 * SECOND;

    (void)state;
    assert_int_equal(admitted(r, "user=ann plan=pro", 99, stopped_at(r, T0)), 90);
    assert_int_equal(left_of(r, "a", "user=ann plan=free", stopped_at(r, later)), 0);
    assert_int_equal(adjust(r, "user=ann plan=free", -1, later), 0);
    assert_int_equal(left_of(r, "a", "user=ann plan=free", later), 1);
    assert_int_equal(set_remaining(r, "user=ann plan=free", 7, later), 0);
    assert_int_equal(left_of(r, "a", "user=ann plan=free", later), 7);
    assert_int_equal(admitted(r, "user=ann plan=free", 20, later), 7);
    ration_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_not_used_comes_back),
        cmocka_unit_test(what_an_override_that_is_gone_was_charged_is_burnt),
        cmocka_unit_test(one_of_the_same_shape_gets_back_what_another_was_charged),
        cmocka_unit_test(places_are_known_by_tickets),
        cmocka_unit_test(a_reset_forgets_the_override_and_what_is_under_it),
        cmocka_unit_test(a_reset_reaches_an_override_of_a_rule_without_limits),
        cmocka_unit_test(a_reset_forgets_that_a_client_has_moved),
        cmocka_unit_test(adjusting_acts_on_the_override),
        cmocka_unit_test(what_is_adjusted_is_counted_in_larger_tiers),
        cmocka_unit_test(what_is_left_to_a_client_that_has_moved_it_can_take),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
