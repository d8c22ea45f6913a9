/* SPDX-License-Identifier: Apache-2.0 */
/* What each rule has decided lately, second by second, from one set of rules to the next. */
#include "rules_fixture.h"

#include <stdio.h>
#include <stdlib.h>

#include "limiter/rulebook/activity.h"

#define RULE(name, path)                                                                           \
    "  - {name: " name ", when: {path: /" path "}, key: ip, limit: 4 per hour}\n"

static const char two_rules[] = "limits:\n" RULE("first", "a") RULE("second", "b");
static const char turned[] = "limits:\n" RULE("new", "c") RULE("second", "b") RULE("first", "a");

static struct ration *limiter;
static struct rn_activity *activity;

static int begin(void **state)
{
    (void)state;
    limiter = open_rules(two_rules);
    activity = rn_activity_new(limiter);
    return activity ? 0 : -1;
}

static int end(void **state)
{
    (void)state;
    rn_activity_free(activity);
    ration_close(limiter);
    return 0;
}

static struct rn_activity_rule *rule(const char *name)
{
    struct rn_activity_rule *found =
        rn_activity_find(activity, rn_activity_hash(activity, rn_slice_of(name)));

    if (!found)
        fail_msg("%s is not followed", name);
    return found;
}

static void decide_some(const char *words, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        decide(limiter, words, T0);
}

static void assert_rate(const char *name, enum rn_activity_kind kind, double from, double to)
{
    double rate = (double)rule(name)->rates[kind];

    if (rate < from || rate > to)
        fail_msg("%s: %f is not from %f to %f", name, rate, from, to);
}

static void what_was_decided_before_the_first_sample_is_no_step(void **state)
{
    (void)state;
    decide_some("path=/a ip=192.0.2.1", 3);
    rn_activity_sample(activity, 0);
    assert_int_equal(activity->count, 2);
    assert_int_equal(rule("first")->counted[RN_ACTIVITY_ALLOWED], 0);
    rn_activity_sample(activity, 1);
    assert_int_equal(rule("first")->counted[RN_ACTIVITY_ALLOWED], 0);
    assert_rate("first", RN_ACTIVITY_ALLOWED, 0, 0);
}

static void each_second_has_its_own_decisions(void **state)
{
    (void)state;
    rn_activity_sample(activity, 0);
    decide_some("path=/a ip=192.0.2.1", 6);
    decide_some("path=/b ip=192.0.2.1", 1);
    rn_activity_sample(activity, 1);
    assert_int_equal(rule("first")->counted[RN_ACTIVITY_ALLOWED], 4);
    assert_int_equal(rule("first")->counted[RN_ACTIVITY_REFUSED], 2);
    assert_int_equal(rule("first")->counted[RN_ACTIVITY_NEAR], 1);
    assert_int_equal(rule("second")->counted[RN_ACTIVITY_ALLOWED], 1);
    for (int i = 0; i < 3; i++) { /* also when nothing is counted any more */
        rn_activity_sample(activity, 1);
        assert_int_equal(rule("first")->counted[RN_ACTIVITY_ALLOWED], 0);
        assert_int_equal(rule("second")->counted[RN_ACTIVITY_ALLOWED], 0);
    }
}

static void averages_forget_within_minutes(void **state)
{
    (void)state;
    rn_activity_sample(activity, 0);
    for (int i = 0; i < 600; i++) {
        decide_some("path=/b ip=192.0.2.2", 10);
        rn_activity_sample(activity, 1);
    }
    assert_rate("second", RN_ACTIVITY_REFUSED, 9.99, 10.01);
    for (int i = 0; i < 60; i++)
        rn_activity_sample(activity, 1);
    assert_rate("second", RN_ACTIVITY_REFUSED, 3.67, 3.69); /* 10 / e */
    for (int i = 0; i < 1200; i++)
        rn_activity_sample(activity, 1);
    assert_rate("second", RN_ACTIVITY_REFUSED, 0, 0);
}

static void a_late_sample_has_the_average_of_its_seconds(void **state)
{
    (void)state;
    rn_activity_sample(activity, 0);
    for (int i = 0; i < 300; i++) {
        decide_some("path=/b ip=192.0.2.2", 30);
        rn_activity_sample(activity, 3);
        assert_int_equal(rule("second")->counted[RN_ACTIVITY_REFUSED] +
                             rule("second")->counted[RN_ACTIVITY_ALLOWED],
                         30);
    }
    assert_rate("second", RN_ACTIVITY_REFUSED, 9.99, 10.01);
}

static void nothing_is_known_of_a_gap(void **state)
{
    (void)state;
    rn_activity_sample(activity, 0);
    decide_some("path=/a ip=192.0.2.1", 3);
    rn_activity_sample(activity, 1);
    double before = (double)rule("first")->rates[RN_ACTIVITY_ALLOWED];

    decide_some("path=/a ip=192.0.2.3", 4);
    rn_activity_sample(activity, 0);
    assert_int_equal(rule("first")->counted[RN_ACTIVITY_ALLOWED], 0);
    assert_rate("first", RN_ACTIVITY_ALLOWED, before, before);
    decide_some("path=/a ip=192.0.2.4", 2);
    rn_activity_sample(activity, 1);
    assert_int_equal(rule("first")->counted[RN_ACTIVITY_ALLOWED], 2);
}

static void rules_are_followed_by_name(void **state)
{
    (void)state;
    rn_activity_sample(activity, 0);
    decide_some("path=/a ip=192.0.2.1", 2);
    rn_activity_sample(activity, 1);
    rule("first")->kept = true;
    decide_some("path=/a ip=192.0.2.1", 1); /* counted under the rules of before */
    rules_at(limiter, turned, T0);
    decide_some("path=/a ip=192.0.2.3", 2);
    decide_some("path=/c ip=192.0.2.3", 1);
    rn_activity_follow(activity);
    assert_int_equal(activity->count, 3);
    assert_ptr_equal(rule("new"), &activity->rules[0]);
    assert_ptr_equal(rule("first"), &activity->rules[2]);
    assert_true(rule("first")->kept);
    assert_false(rule("new")->kept);
    rn_activity_sample(activity, 1);
    assert_int_equal(rule("first")->counted[RN_ACTIVITY_ALLOWED], 3);
    assert_int_equal(rule("new")->counted[RN_ACTIVITY_ALLOWED], 1);
}

static void a_rule_that_comes_back_begins_again(void **state)
{
    (void)state;
    rn_activity_sample(activity, 0);
    decide_some("path=/a ip=192.0.2.1", 4);
    rn_activity_sample(activity, 1);
    rules_at(limiter, "limits: []\n", T0);
    rules_at(limiter, two_rules, T0); /* before the next sample */
    decide_some("path=/a ip=192.0.2.5", 1);
    rn_activity_sample(activity, 1);
    assert_int_equal(rule("first")->counted[RN_ACTIVITY_ALLOWED], 1);
    rules_at(limiter, "limits: []\n", T0);
    rn_activity_sample(activity, 1);
    assert_int_equal(activity->count, 0);
    assert_null(rn_activity_find(activity, rn_activity_hash(activity, RN_SLICE("first"))));
}

/* Rules beyond the most that are followed have counters, too: one that moves up must not appear as
 * having decided all of it in one second. */
static void a_rule_that_moves_up_is_no_step(void **state)
{
    char *text = malloc((size_t)80 * (RN_ACTIVITY_RULES_MAX + 2)), *to = text;

    (void)state;
    to += sprintf(to, "limits:\n");
    for (int i = 0; i < RN_ACTIVITY_RULES_MAX; i++)
        to +=
            sprintf(to, "  - {name: r%d, when: {path: /r%d}, key: ip, limit: 1 per hour}\n", i, i);
    sprintf(to, RULE("last", "last"));
    rules_at(limiter, text, T0);
    rn_activity_sample(activity, 0);
    assert_int_equal(activity->count, RN_ACTIVITY_RULES_MAX);
    assert_null(rn_activity_find(activity, rn_activity_hash(activity, RN_SLICE("last"))));
    decide_some("path=/last ip=192.0.2.1", 4);
    decide_some("path=/r39999 ip=192.0.2.1", 1);
    rn_activity_sample(activity, 1);
    assert_int_equal(rule("r39999")->counted[RN_ACTIVITY_ALLOWED], 1);
    rules_at(limiter, "limits:\n" RULE("last", "last"), T0);
    decide_some("path=/last ip=192.0.2.2", 2);
    rn_activity_sample(activity, 1);
    assert_int_equal(rule("last")->counted[RN_ACTIVITY_ALLOWED], 2);
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
        TEST(what_was_decided_before_the_first_sample_is_no_step),
        TEST(each_second_has_its_own_decisions),
        TEST(averages_forget_within_minutes),
        TEST(a_late_sample_has_the_average_of_its_seconds),
        TEST(nothing_is_known_of_a_gap),
        TEST(rules_are_followed_by_name),
        TEST(a_rule_that_comes_back_begins_again),
        TEST(a_rule_that_moves_up_is_no_step),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
