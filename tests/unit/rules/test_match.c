/* SPDX-License-Identifier: Apache-2.0 */
/* Which rules apply, and to which keys: by example. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "match_fixture.h"

#define GIVEN_MAX 10

/* name, value, ..., NULL */
static void match(const char *const *pairs)
{
    struct ration_attribute given[GIVEN_MAX];
    struct ration_request request = {.attributes = given, .cost = 3};

    for (; pairs[2 * request.count]; request.count++) {
        const char *const *pair = &pairs[2 * request.count];

        given[request.count] =
            (struct ration_attribute){pair[0], strlen(pair[0]), pair[1], strlen(pair[1])};
    }
    rn_match_request(&ruleset, &request, &matches);
}
#define MATCH(...) match((const char *const[]){__VA_ARGS__, NULL})

/* --- conditions, by example ------------------------------------------------------- */

static bool condition_holds(struct rn_condition condition, const char *name, const char *value)
{
    rules[0] = plain_rule();
    rules[0].alternatives =
        &(struct rn_alternative){.conditions = &condition, .condition_count = 1};
    compile(1);
    MATCH(name, value);

    bool found = matches.outcome == RN_MATCH_LIMITS && matches.count == 1;
    struct rn_match explained;
    struct rn_reason reason = rn_match_explain(&ruleset, &rules[0], &matches.values, &explained);

    assert_int_equal(reason.why == RN_WHY_APPLIES, found);
    assert_int_equal(reason.at, 0);
    discard();
    return found;
}

static void every_test_of_a_condition(void **state)
{
    static const struct rn_slice verbs[] = {RN_SLICE_INIT("PUT"), RN_SLICE_INIT("POST")};
    static const struct rn_slice paths[] = {RN_SLICE_INIT("/api/**"), RN_SLICE_INIT("/login")};
    static const struct rn_slice hosts[] = {RN_SLICE_INIT("*.example.com")};
    static struct rn_cidr ten[] = {{{{10}, 32}, 8}};
    struct rn_cidr_set set = rn_cidr_set_build(ten, 1);
    struct rn_condition equals = {METHOD, RN_TEST_EQUALS, .values = verbs, .value_count = 2};
    struct rn_condition path = {PATH, RN_TEST_PATTERN, .is_path = true, .values = paths,
                                .value_count = 2};
    struct rn_condition host = {HOST, RN_TEST_PATTERN, .values = hosts, .value_count = 1};
    struct rn_condition prefix = {USER, RN_TEST_PREFIX, .values = verbs, .value_count = 2};
    struct rn_condition cidr = {IP, RN_TEST_CIDR, .networks = &set};
    struct rn_condition as_text = {USER, RN_TEST_CIDR, .networks = &set};
    struct rn_condition present = {USER, RN_TEST_PRESENT, .negated = false};

    (void)state;
    assert_true(condition_holds(equals, "method", "POST"));
    assert_false(condition_holds(equals, "method", "POS"));
    assert_false(condition_holds(equals, "verb", "POST"));
    assert_true(condition_holds(path, "path", "/api"));
    assert_true(condition_holds(path, "path", "//login/?a=b"));
    assert_false(condition_holds(path, "path", "/login/x"));
    assert_true(condition_holds(host, "host", "a/b.example.com"));
    assert_false(condition_holds(host, "host", "example.com"));
    assert_true(condition_holds(prefix, "user", "PUTTER"));
    assert_false(condition_holds(prefix, "user", "PU"));
    assert_true(condition_holds(cidr, "ip", "10.1.2.3"));
    assert_true(condition_holds(cidr, "ip", "::ffff:10.1.2.3"));
    assert_false(condition_holds(cidr, "ip", "11.1.2.3"));
    assert_false(condition_holds(cidr, "ip", "ten"));
    assert_true(condition_holds(as_text, "user", "10.1.2.3"));
    assert_true(condition_holds(present, "user", "x"));
    assert_false(condition_holds(present, "user", ""));
}

static void numbers_are_compared(void **state)
{
    static const struct rn_slice ten[] = {RN_SLICE_INIT("10")}, cold[] = {RN_SLICE_INIT("-0.5")};
    struct rn_condition above = {COST, RN_TEST_ABOVE, .values = ten, .value_count = 1};
    struct rn_condition below = {COST, RN_TEST_BELOW, .values = cold, .value_count = 1};

    (void)state;
    assert_true(condition_holds(above, "cost", "11"));
    assert_true(condition_holds(above, "cost", "10.0001"));
    assert_true(condition_holds(above, "cost", "99999999999999999999999999"));
    assert_true(condition_holds(above, "cost", "1e3"));
    assert_false(condition_holds(above, "cost", "10"));
    assert_false(condition_holds(above, "cost", "9")); /* though "9" comes after "10" */
    assert_false(condition_holds(above, "cost", "-11"));
    assert_true(condition_holds(below, "cost", "-0.75"));
    assert_false(condition_holds(below, "cost", "-0.5"));
    assert_false(condition_holds(below, "cost", "0"));
}

static void text_is_neither_above_nor_below_a_number(void **state)
{
    static const char *const others[] = {"", "ten", "11 MB", " 11", "+11", "0x11", "11,5"};
    static const struct rn_slice zero[] = {RN_SLICE_INIT("0")};
    struct rn_condition c = {COST, RN_TEST_ABOVE, .values = zero, .value_count = 1};

    (void)state;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        c.test = RN_TEST_ABOVE;
        assert_false(condition_holds(c, "cost", others[i]));
        c.test = RN_TEST_BELOW;
        assert_false(condition_holds(c, "cost", others[i]));
    }
    assert_false(condition_holds(c, "user", "-1")); /* absent */
    c.negated = true;
    assert_true(condition_holds(c, "cost", "ten"));
    assert_true(condition_holds(c, "user", "-1"));
    assert_false(condition_holds(c, "cost", "-1"));
}

static void negated_conditions_hold_for_absent_attributes(void **state)
{
    static const struct rn_slice verbs[] = {RN_SLICE_INIT("GET")};
    struct rn_condition c = {METHOD, RN_TEST_EQUALS, .negated = true, .values = verbs,
                             .value_count = 1};
    struct rn_condition absent = {USER, RN_TEST_PRESENT, .negated = true};

    (void)state;
    assert_true(condition_holds(c, "method", "PUT"));
    assert_true(condition_holds(c, "user", "x"));
    assert_false(condition_holds(c, "method", "GET"));
    assert_true(condition_holds(absent, "user", ""));
    assert_true(condition_holds(absent, "method", "GET"));
    assert_false(condition_holds(absent, "user", "x"));
}

static void a_long_one_of_is_looked_up(void **state)
{
    static char names[1000][8];
    static struct rn_slice users[1000];
    struct rn_condition c = {USER, RN_TEST_EQUALS, .values = users, .value_count = 1000};

    (void)state;
    for (unsigned i = 0; i < 1000; i++) {
        snprintf(names[i], sizeof names[i], "u%u", i);
        users[i] = rn_slice_of(names[i]);
    }
    for (unsigned i = 0; i < 1000; i += 333)
        assert_true(condition_holds(c, "user", names[i]));
    assert_false(condition_holds(c, "user", "u1000"));
    c.negated = true;
    assert_false(condition_holds(c, "user", "u0"));
    assert_true(condition_holds(c, "user", "u"));
}

/* --- keys, tiers, costs ------------------------------------------------------------- */

static void assert_key(uint32_t item, uint32_t part, const char *expected)
{
    struct rn_slice key = matches.items[item].key[part];

    if (!rn_slice_is(key, expected))
        fail_msg("found %.*s, expected %s", (int)key.len, key.data, expected);
}

static void keys_are_the_first_attribute_present(void **state)
{
    static const struct rn_key_part key[] = {{{USER, IP}, 2, 32, 64}, {{METHOD}, 1, 32, 64}};
    struct rn_match explained;
    struct rn_reason reason;

    (void)state;
    rules[0] = plain_rule();
    rules[0].key = key;
    rules[0].key_count = 2;
    compile(1);
    MATCH("user", "ann", "ip", "10.0.0.1", "method", "GET");
    assert_int_equal(matches.count, 1);
    assert_key(0, 0, "ann");
    assert_key(0, 1, "GET");
    MATCH("user", "", "ip", "10.0.0.1", "method", "GET");
    assert_key(0, 0, "10.0.0.1");
    MATCH("ip", "2001:DB8:1:2:3::4", "method", "GET");
    assert_key(0, 0, "2001:db8:1:2::/64");
    MATCH("ip", "somebody", "method", "GET");
    assert_key(0, 0, "somebody");
    MATCH("ip", "10.0.0.1");
    assert_int_equal(matches.count, 0);
    reason = rn_match_explain(&ruleset, &rules[0], &matches.values, &explained);
    assert_int_equal(reason.why, RN_WHY_NO_KEY);
    assert_int_equal(reason.at, 1);
    discard();
}

static void addresses_are_cut_to_each_parts_prefix(void **state)
{
    static const struct rn_key_part key[] = {
        {{IP}, 1, 24, 48}, {{IP}, 1, 32, 128}, {{IP}, 1, 24, 48}, {{IP}, 1, 0, 0}};

    (void)state;
    rules[0] = plain_rule();
    rules[0].key = key;
    rules[0].key_count = 4;
    rules[1] = rules[0];
    compile(2);
    MATCH("ip", "192.0.2.77");
    for (uint32_t i = 0; i < 2; i++) {
        assert_key(i, 0, "192.0.2.0/24");
        assert_key(i, 1, "192.0.2.77");
        assert_key(i, 2, "192.0.2.0/24");
        assert_key(i, 3, "0.0.0.0/0");
    }
    MATCH("ip", "2001:db8:1:2::3");
    assert_key(1, 0, "2001:db8:1::/48");
    assert_key(1, 1, "2001:db8:1:2::3");
    assert_key(1, 3, "::/0");
    discard();
}

static const struct rn_tier *tier_for(const char *value, uint32_t default_tier, enum rn_why why)
{
    struct rn_match explained;

    rules[0] = plain_rule();
    rules[0].tier_choice = RN_TIER_BY_ONE;
    rules[0].tier_attribute = TIER;
    rules[0].tiers = tiers;
    rules[0].tier_count = 3;
    rules[0].default_tier = default_tier;
    compile(1);
    if (value)
        MATCH("tier", value);
    else
        MATCH("user", "x");
    assert_int_equal(rn_match_explain(&ruleset, &rules[0], &matches.values, &explained).why, why);
    discard();
    return matches.count > 0 ? matches.items[0].tier : NULL;
}

static void the_tier_is_chosen_by_value(void **state)
{
    (void)state;
    assert_ptr_equal(tier_for("pro", 0, RN_WHY_APPLIES), &tiers[1]);
    assert_ptr_equal(tier_for("gold", 0, RN_WHY_APPLIES), &tiers[0]);
    assert_ptr_equal(tier_for(NULL, 1, RN_WHY_APPLIES), &tiers[1]);
    assert_ptr_equal(tier_for("", 1, RN_WHY_APPLIES), &tiers[1]);
    assert_ptr_equal(tier_for("enterprise", 0, RN_WHY_UNLIMITED), &tiers[2]);
    assert_null(tier_for("gold", UINT32_MAX, RN_WHY_NO_TIER));
    assert_null(tier_for(NULL, UINT32_MAX, RN_WHY_NO_TIER));
}

static uint64_t cost_for(struct rn_cost cost, const char *value)
{
    rules[0] = plain_rule();
    rules[0].cost = cost;
    compile(1);
    MATCH("cost", value);
    discard();
    return matches.items[0].cost;
}

static void costs_are_read_from_an_attribute(void **state)
{
    struct rn_cost free_choice = {.fixed = 2, .attribute = COST};
    struct rn_cost capped = {.fixed = 2, .attribute = COST, .max = 100};

    (void)state;
    assert_int_equal(cost_for(free_choice, "17"), 17);
    assert_int_equal(cost_for(free_choice, "0017"), 17);
    assert_int_equal(cost_for(free_choice, ""), 2);
    assert_int_equal(cost_for(free_choice, "0"), 2); /* nothing is free by saying so */
    assert_int_equal(cost_for(free_choice, "-1"), 2);
    assert_int_equal(cost_for(free_choice, "1.5"), 2);
    assert_int_equal(cost_for(free_choice, " 7"), 2);
    assert_true(cost_for(free_choice, "18446744073709551615") == UINT64_MAX);
    assert_true(cost_for(free_choice, "18446744073709551616") == UINT64_MAX);
    assert_true(cost_for(free_choice, "99999999999999999999999999") == UINT64_MAX);
    assert_int_equal(cost_for(capped, "100"), 100);
    assert_int_equal(cost_for(capped, "101"), 100);
    assert_int_equal(cost_for(capped, "99999999999999999999999999"), 100);
    assert_int_equal(cost_for((struct rn_cost){5, RN_NO_ATTRIBUTE, 0}, "17"), 5);
    assert_int_equal(cost_for((struct rn_cost){0, RN_NO_ATTRIBUTE, 0}, "17"), 3); /* request's */
}

static uint8_t kept_for(const char *value)
{
    rules[0] = plain_rule();
    rules[0].priority = (struct rn_priority){PRIORITY, levels, 3, 1};
    compile(1);
    MATCH("priority", value);
    discard();
    return matches.items[0].keep_percent;
}

static void priorities_keep_a_share(void **state)
{
    (void)state;
    assert_int_equal(kept_for("critical"), 0);
    assert_int_equal(kept_for("batch"), 50);
    assert_int_equal(kept_for("whatever"), 20);
    assert_int_equal(kept_for(""), 20);
}

/* --- lists, bounds ---------------------------------------------------------------- */

static void deny_comes_before_allow_and_both_before_limits(void **state)
{
    static const struct rn_slice ann[] = {RN_SLICE_INIT("ann")}, put[] = {RN_SLICE_INIT("PUT")};
    const struct rn_condition is_ann = {USER, RN_TEST_EQUALS, .values = ann, .value_count = 1};
    const struct rn_condition is_put = {METHOD, RN_TEST_EQUALS, .values = put, .value_count = 1};
    const struct rn_list_entry lists[] = {{&is_ann, 1, .deny = false}, {&is_put, 1, .deny = true}};

    (void)state;
    rules[0] = plain_rule();
    ruleset.lists = lists;
    ruleset.list_count = 2;
    compile(1);
    MATCH("user", "ann", "method", "PUT");
    assert_int_equal(matches.outcome, RN_MATCH_DENIED);
    assert_ptr_equal(matches.entry, &lists[1]);
    MATCH("user", "ann", "method", "GET");
    assert_int_equal(matches.outcome, RN_MATCH_ALLOWED);
    assert_ptr_equal(matches.entry, &lists[0]);
    assert_int_equal(matches.count, 0);
    MATCH("user", "bob", "method", "GET");
    assert_int_equal(matches.outcome, RN_MATCH_LIMITS);
    assert_null(matches.entry);
    assert_int_equal(matches.count, 1);
    discard();
}

static void too_many_matching_rules_are_reported(void **state)
{
    (void)state;
    for (uint32_t i = 0; i <= RN_MATCHES_MAX; i++)
        rules[i] = plain_rule();
    compile(RN_MATCHES_MAX);
    MATCH("user", "x");
    assert_int_equal(matches.outcome, RN_MATCH_LIMITS);
    assert_int_equal(matches.count, RN_MATCHES_MAX);
    discard();
    compile(RN_MATCHES_MAX + 1);
    MATCH("user", "x");
    assert_int_equal(matches.outcome, RN_MATCH_TOO_MANY);
    assert_int_equal(matches.count, 0);
    discard();
}

/* --- alternatives ------------------------------------------------------------------ */

static void a_rule_applies_once_by_whichever_alternatives_hold(void **state)
{
    static const struct rn_slice ann[] = {RN_SLICE_INIT("ann")}, put[] = {RN_SLICE_INIT("PUT")};
    const struct rn_condition is_ann = {USER, RN_TEST_EQUALS, .values = ann, .value_count = 1};
    const struct rn_condition is_put = {METHOD, RN_TEST_EQUALS, .values = put, .value_count = 1};
    const struct rn_alternative either[] = {{.conditions = &is_ann, .condition_count = 1},
                                            {.conditions = &is_put, .condition_count = 1}};
    static struct rn_match explained;

    (void)state;
    rules[0] = rules[1] = plain_rule();
    rules[0].alternatives = either;
    rules[0].alternative_count = 2;
    compile(2);
    MATCH("user", "ann", "method", "PUT");
    assert_int_equal(matches.count, 2);
    assert_ptr_equal(matches.items[0].rule, &rules[0]);
    assert_ptr_equal(matches.items[1].rule, &rules[1]);
    MATCH("user", "bob", "method", "PUT");
    assert_int_equal(matches.count, 2);
    struct rn_reason reason = rn_match_explain(&ruleset, &rules[0], &matches.values, &explained);
    assert_int_equal(reason.why, RN_WHY_APPLIES);
    assert_int_equal(reason.alternative, 1);
    MATCH("user", "bob", "method", "GET");
    assert_int_equal(matches.count, 1);
    reason = rn_match_explain(&ruleset, &rules[0], &matches.values, &explained);
    assert_int_equal(reason.why, RN_WHY_CONDITION);
    discard();
}

/* Twice as many alternatives hold as rules may apply. */
static void alternatives_do_not_count_as_rules(void **state)
{
    static const struct rn_slice ann[] = {RN_SLICE_INIT("ann")}, put[] = {RN_SLICE_INIT("PUT")};
    const struct rn_condition is_ann = {USER, RN_TEST_EQUALS, .values = ann, .value_count = 1};
    const struct rn_condition is_put = {METHOD, RN_TEST_EQUALS, .values = put, .value_count = 1};
    const struct rn_alternative either[] = {{.conditions = &is_ann, .condition_count = 1},
                                            {.conditions = &is_put, .condition_count = 1}};

    (void)state;
    for (uint32_t i = 0; i < RN_MATCHES_MAX; i++) {
        rules[i] = plain_rule();
        rules[i].alternatives = either;
        rules[i].alternative_count = 2;
    }
    compile(RN_MATCHES_MAX);
    MATCH("user", "ann", "method", "PUT");
    assert_int_equal(matches.outcome, RN_MATCH_LIMITS);
    assert_int_equal(matches.count, RN_MATCHES_MAX);
    discard();
}

/* --- paths with several readings --------------------------------------------------- */

static struct rn_condition path_is(const struct rn_slice *pattern)
{
    return (struct rn_condition){PATH, RN_TEST_PATTERN, .is_path = true, .values = pattern,
                                 .value_count = 1};
}

static void an_entry_denies_by_any_reading_and_allows_by_all(void **state)
{
    static const struct rn_slice health[] = {RN_SLICE_INIT("/health/**")},
                                 admin[] = {RN_SLICE_INIT("/admin/**")};
    const struct rn_condition is_health = path_is(health), is_admin = path_is(admin);
    const struct rn_list_entry lists[] = {{&is_health, 1, .deny = false},
                                          {&is_admin, 1, .deny = true}};
    static const struct {
        const char *path;
        enum rn_match_outcome outcome;
    } cases[] = {
        {"/health/a%2Fb", RN_MATCH_ALLOWED}, /* both readings */
        {"/health%2Fa", RN_MATCH_LIMITS},    /* one of the two */
        {"/health/../x", RN_MATCH_LIMITS},
        {"/%61dmin", RN_MATCH_DENIED},
        {"/admin%2Fx", RN_MATCH_DENIED},
        {"/health/../admin", RN_MATCH_DENIED},
        {"/health/..%2Fx", RN_MATCH_DENIED}, /* unreadable: may be meant, is not allowed */
        {"/x", RN_MATCH_LIMITS},
    };

    (void)state;
    rules[0] = plain_rule();
    ruleset.lists = lists;
    ruleset.list_count = 2;
    compile(1);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        MATCH("path", cases[i].path);
        if (matches.outcome != cases[i].outcome)
            fail_msg("%s: %d", cases[i].path, (int)matches.outcome);
    }
    discard();
}

static void the_key_is_by_the_first_reading_that_the_rule_applies_to(void **state)
{
    static const struct rn_slice two[] = {RN_SLICE_INIT("/a/*")}, one[] = {RN_SLICE_INIT("/*")};
    const struct rn_condition has_two = path_is(two), has_one = path_is(one);
    const struct rn_key_part by_path = {.attributes = {PATH}, .count = 1};

    (void)state;
    rules[0] = rules[1] = rules[2] = plain_rule();
    rules[0].alternatives = &(struct rn_alternative){.conditions = &has_one, .condition_count = 1};
    rules[1].alternatives = &(struct rn_alternative){.conditions = &has_two, .condition_count = 1};
    for (uint32_t i = 0; i < 3; i++) {
        rules[i].key = &by_path;
        rules[i].key_count = 1;
    }
    compile(3);
    MATCH("path", "/a%2fb");
    assert_int_equal(matches.count, 3);
    assert_true(rn_slice_is(matches.items[0].key[0], "/a%2Fb"));
    assert_true(rn_slice_is(matches.items[1].key[0], "/a/b"));
    assert_true(rn_slice_is(matches.items[2].key[0], "/a/b"));
    assert_true(rn_slice_is(matches.values.value[PATH], "/a/b"));
    discard();
}

/* The first alternative fits the second reading, the second alternative the first. */
static void the_first_reading_counts_whichever_alternative_it_fits(void **state)
{
    static const struct rn_slice two[] = {RN_SLICE_INIT("/a/*")}, one[] = {RN_SLICE_INIT("/*")};
    const struct rn_condition has_two = path_is(two), has_one = path_is(one);
    const struct rn_alternative either[] = {{.conditions = &has_one, .condition_count = 1},
                                            {.conditions = &has_two, .condition_count = 1}};
    const struct rn_key_part by_path = {.attributes = {PATH}, .count = 1};

    (void)state;
    rules[0] = plain_rule();
    rules[0].alternatives = either;
    rules[0].alternative_count = 2;
    rules[0].key = &by_path;
    rules[0].key_count = 1;
    compile(1);
    MATCH("path", "/a%2fb");
    assert_int_equal(matches.count, 1);
    assert_true(rn_slice_is(matches.items[0].key[0], "/a/b"));
    MATCH("path", "/x%2F..", "user", "ann"); /* unreadable */
    assert_int_equal(matches.count, 1);
    discard();
}

static void an_unreadable_path_meets_every_rule_or_is_refused(void **state)
{
    static const struct rn_slice a[] = {RN_SLICE_INIT("/a")}, users[] = {RN_SLICE_INIT("ann")};
    struct rn_condition conditions[] = {path_is(a),
                                        {USER, RN_TEST_EQUALS, .values = users, .value_count = 1}};
    struct rn_condition not_a = path_is(a);
    const struct rn_alternative both = {.conditions = conditions, .condition_count = 2},
                                only_not_a = {.conditions = &not_a, .condition_count = 1};

    (void)state;
    not_a.negated = true;
    for (uint32_t i = 0; i <= RN_MATCHES_MAX; i++) {
        rules[i] = plain_rule();
        rules[i].alternatives = i == 1 ? &only_not_a : &both;
    }
    compile(3);
    MATCH("path", "/x%2F..", "user", "ann");
    assert_int_equal(matches.count, 3);
    MATCH("path", "/x%2F..", "user", "bob"); /* other conditions are what they are */
    assert_int_equal(matches.count, 1);
    discard();
    compile(RN_MATCHES_MAX + 1);
    MATCH("path", "/x%2F..", "user", "ann");
    assert_int_equal(matches.outcome, RN_MATCH_DENIED);
    assert_null(matches.entry);
    discard();
}

static void rules_of_envoy_files_are_not_found_by_attributes(void **state)
{
    (void)state;
    rules[0] = rules[1] = plain_rule();
    rules[0].envoy = true;
    compile(2);
    MATCH("user", "x");
    assert_int_equal(matches.count, 1);
    assert_ptr_equal(matches.items[0].rule, &rules[1]);
    discard();
}

static void no_rules_match_nothing(void **state)
{
    (void)state;
    compile(0);
    MATCH("user", "x");
    assert_int_equal(matches.outcome, RN_MATCH_LIMITS);
    assert_int_equal(matches.count, 0);
    discard();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_test_of_a_condition),
        cmocka_unit_test(numbers_are_compared),
        cmocka_unit_test(text_is_neither_above_nor_below_a_number),
        cmocka_unit_test(negated_conditions_hold_for_absent_attributes),
        cmocka_unit_test(keys_are_the_first_attribute_present),
        cmocka_unit_test(addresses_are_cut_to_each_parts_prefix),
        cmocka_unit_test(the_tier_is_chosen_by_value),
        cmocka_unit_test(costs_are_read_from_an_attribute),
        cmocka_unit_test(priorities_keep_a_share),
        cmocka_unit_test(deny_comes_before_allow_and_both_before_limits),
        cmocka_unit_test(too_many_matching_rules_are_reported),
        cmocka_unit_test(a_rule_applies_once_by_whichever_alternatives_hold),
        cmocka_unit_test(alternatives_do_not_count_as_rules),
        cmocka_unit_test(an_entry_denies_by_any_reading_and_allows_by_all),
        cmocka_unit_test(the_key_is_by_the_first_reading_that_the_rule_applies_to),
        cmocka_unit_test(the_first_reading_counts_whichever_alternative_it_fits),
        cmocka_unit_test(an_unreadable_path_meets_every_rule_or_is_refused),
        cmocka_unit_test(rules_of_envoy_files_are_not_found_by_attributes),
        cmocka_unit_test(no_rules_match_nothing),
        cmocka_unit_test(a_long_one_of_is_looked_up),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
