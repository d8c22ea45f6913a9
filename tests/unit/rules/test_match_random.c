/* SPDX-License-Identifier: Apache-2.0 */
/* The index against the loop that asks every rule, on random rules and requests. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "match_fixture.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static uint32_t random_below(uint32_t n)
{
    static uint64_t state = UINT64_C(88172645463325252);

    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (uint32_t)((state >> 16) % n);
}

/* Values that both rules and requests choose from; some of one-ofs are long
 * enough to take every branch of the hash. */
static const char *const texts[] = {"",       "a",           "bb",         "GET",
                                    "POST",   "example.com", "abcdefghij", "abcdefghijklmnopq",
                                    "/a/b/c", "/b/a/c"};
static const char *const patterns[] = {"a*", "*b", "*", "GET", "POST", "*.com", "example.com"};
static const char *const path_patterns[] = {"/",
                                            "/**",
                                            "/a",
                                            "/a/**",
                                            "/a/b",
                                            "/a/*/c",
                                            "/{x}/b",
                                            "/a/b/c/d",
                                            "/*/b/**/d/",
                                            "/**/d",
                                            "/a*/b",
                                            "/b/{x}/d",
                                            "/b/{x}/c",
                                            "//b//",
                                            "/b/**",
                                            "/a/{x}/c/**",
                                            "/c/c/c/c/c/c/c/c/c/c/c/c/c/c/c/c/c/d"};
static const char *const path_pieces[] = {"/a", "/b", "/c", "/d", "/", "/ab", "?q", "/c/c/c/c/c/c"};
static const char *const numbers[] = {"-7", "0", "9.5", "10", "1e2", "ten"};
static const char *const addresses[] = {"10.0.0.1", "10.0.0.2",        "192.0.2.9",
                                        "::1",      "2001:db8::1:2:3", "nobody"};
static struct rn_cidr networks[] = {{{{10}, 32}, 8}, {{{0x20, 0x01}, 128}, 16}};
static struct rn_cidr_set network_set = {networks, 2};

#define PICK(array) array[random_below((uint32_t)COUNT(array))]

static struct rn_slice random_value(const struct rn_condition *c)
{
    if (c->test == RN_TEST_PATTERN)
        return rn_slice_of(c->is_path ? PICK(path_patterns) : PICK(patterns));
    if (c->test == RN_TEST_ABOVE || c->test == RN_TEST_BELOW)
        return rn_slice_of(PICK(numbers));
    if (c->attribute == PATH)
        return rn_slice_of(PICK(path_patterns));
    return rn_slice_of(c->attribute == IP ? PICK(addresses) : PICK(texts));
}

static struct rn_condition random_condition(struct rn_arena *arena)
{
    static const uint16_t subjects[] = {METHOD, PATH, PATH, HOST, IP, USER, USER, COST};
    static const enum rn_test tests[] = {RN_TEST_EQUALS,  RN_TEST_EQUALS, RN_TEST_EQUALS,
                                         RN_TEST_PATTERN, RN_TEST_PREFIX, RN_TEST_CIDR,
                                         RN_TEST_PRESENT};
    struct rn_condition c = {.attribute = PICK(subjects), .test = PICK(tests)};
    uint32_t count = attributes[c.attribute].is_number ? 1
                     : random_below(10)                ? 1 + random_below(3)
                                                       : random_below(20);
    struct rn_slice *values = rn_arena_calloc(arena, count, sizeof *values);

    c.negated = random_below(8) == 0;
    if (c.attribute == PATH && random_below(4))
        c.test = RN_TEST_PATTERN;
    if (attributes[c.attribute].is_number)
        c.test = random_below(2) ? RN_TEST_ABOVE : RN_TEST_BELOW;
    c.is_path = c.test == RN_TEST_PATTERN && (c.attribute == PATH || random_below(4) == 0);
    for (uint32_t i = 0; i < count; i++)
        values[i] = random_value(&c);
    c.values = values;
    c.value_count = count;
    c.networks = &network_set;
    return c;
}

/* One, or up to five; some have the same conditions. */
static void random_alternatives(struct rn_arena *arena, uint32_t most_conditions,
                                struct rn_rule *rule)
{
    uint32_t count = random_below(3) ? 1 : 1 + random_below(5);
    struct rn_alternative *all = rn_arena_calloc(arena, count, sizeof *all);

    for (uint32_t n = 0; n < count; n++) {
        struct rn_condition *conditions =
            rn_arena_calloc(arena, most_conditions, sizeof *conditions);

        all[n].condition_count = random_below(most_conditions + 1);
        all[n].conditions = conditions;
        for (uint32_t i = 0; i < all[n].condition_count; i++)
            conditions[i] = random_condition(arena);
        if (n > 0 && random_below(4) == 0)
            all[n] = all[n - 1];
    }
    rule->alternatives = all;
    rule->alternative_count = count;
}

static struct rn_rule random_rule(struct rn_arena *arena, uint32_t most_conditions)
{
    static const struct rn_key_part keys[] = {
        {{USER, IP}, 2, 32, 64}, {{IP}, 1, 24, 64}, {{HOST, METHOD, PATH}, 3, 32, 64}};
    struct rn_rule rule = plain_rule();

    random_alternatives(arena, most_conditions, &rule);
    rule.key_count = random_below(3);
    rule.key = &keys[random_below(2)];
    if (random_below(3) == 0) {
        rule.tier_choice = RN_TIER_BY_ONE;
        rule.tier_attribute = TIER;
        rule.tiers = tiers;
        rule.tier_count = 3;
        rule.default_tier = random_below(2) ? UINT32_MAX : 0;
    }
    rule.cost = (struct rn_cost){random_below(3), random_below(2) ? COST : RN_NO_ATTRIBUTE, 9};
    if (random_below(2))
        rule.priority = (struct rn_priority){PRIORITY, levels, 3, 2};
    return rule;
}

struct text {
    char bytes[200];
};

static void random_path(struct text *out)
{
    uint32_t count = 1 + random_below(6);

    out->bytes[0] = '\0';
    for (uint32_t i = 0; i < count; i++)
        strcat(out->bytes, PICK(path_pieces));
}

static struct ration_request random_request(struct ration_attribute given[ATTRIBUTES],
                                            struct text *path)
{
    static const char *const costs[] = {"1", "77", "9.75", "-8", "x", "", "10", "1e2"};
    const char *const values[ATTRIBUTES] = {PICK(texts), path->bytes,
                                            PICK(texts), PICK(addresses),
                                            PICK(texts), tiers[random_below(3)].value.data,
                                            PICK(costs), levels[random_below(3)].name.data};
    struct ration_request request = {.attributes = given, .cost = random_below(3)};

    random_path(path);
    for (uint32_t i = 0; i < ATTRIBUTES; i++)
        if (random_below(8) != 0)
            given[request.count++] = (struct ration_attribute){
                attributes[i].name.data, attributes[i].name.len, values[i], strlen(values[i])};
    return request;
}

static void assert_same_match(const struct rn_match *found, const struct rn_match *expected,
                              uint64_t request_cost)
{
    uint64_t cost = expected->cost ? expected->cost : request_cost ? request_cost : 1;

    assert_ptr_equal(found->rule, expected->rule);
    assert_ptr_equal(found->tier, expected->tier);
    assert_true(found->cost == cost);
    assert_int_equal(found->keep_percent, expected->keep_percent);
    for (uint32_t i = 0; i < expected->rule->key_count; i++)
        assert_true(rn_slice_equal(found->key[i], expected->key[i]));
}

/* Asks every rule. Returns how many apply. */
static uint32_t compare_with_loop(const struct ration_request *request)
{
    static struct rn_match explained;
    struct rn_values *values = malloc(sizeof *values);
    uint32_t count = 0;

    assert_non_null(values);
    rn_match_request(&ruleset, request, &matches);
    rn_values_resolve(&ruleset, request, values);
    for (uint32_t i = 0; i < ruleset.rule_count; i++) {
        enum rn_why why = rn_match_explain(&ruleset, &rules[i], values, &explained).why;

        if (why != RN_WHY_APPLIES && why != RN_WHY_UNLIMITED)
            continue;
        if (count < matches.count)
            assert_same_match(&matches.items[count], &explained, request->cost);
        count++;
    }
    assert_int_equal(matches.outcome, count > RN_MATCHES_MAX ? RN_MATCH_TOO_MANY : RN_MATCH_LIMITS);
    assert_int_equal(matches.count, count > RN_MATCHES_MAX ? 0 : count);
    free(values);
    return count;
}

static void the_index_finds_what_asking_every_rule_finds(void **state)
{
    uint32_t some = 0, many = 0;

    (void)state;
    for (uint32_t n = 0; n < 1000; n++) {
        uint32_t rule_count = 1 + random_below(n % 4 ? 60 : RULES_MAX);
        uint32_t most_conditions = 1 + random_below(4);

        for (uint32_t i = 0; i < rule_count; i++)
            rules[i] = random_rule(&ruleset.arena, most_conditions);
        compile(rule_count);
        for (uint32_t i = 0; i < 200; i++) {
            struct ration_attribute given[ATTRIBUTES];
            struct text path;
            struct ration_request request = random_request(given, &path);
            uint32_t count = compare_with_loop(&request);

            some += count > 0;
            many += count > RN_MATCHES_MAX;
        }
        discard();
    }
    assert_in_range(some, 20000, 199000); /* neither always nor never */
    assert_in_range(many, 100, 100000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_index_finds_what_asking_every_rule_finds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
