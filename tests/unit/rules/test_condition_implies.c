/* SPDX-License-Identifier: Apache-2.0 */
/* Whether one condition follows from another: by example, and on random pairs against
 * all values of a small world. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "rules/match/condition.h"
#include "rules/match/match.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

enum { WORD, PATH, ADDRESS, OTHER, ATTRIBUTES };
static const struct rn_attribute attributes[ATTRIBUTES] = {
    [WORD] = {.name = RN_SLICE_INIT("word")},
    [PATH] = {.name = RN_SLICE_INIT("path")},
    [ADDRESS] = {.name = RN_SLICE_INIT("ip"), .is_ip = true},
    [OTHER] = {.name = RN_SLICE_INIT("other")},
};
static const struct rn_ruleset ruleset = {.attributes = attributes, .attribute_count = ATTRIBUTES};

/* --- by example ------------------------------------------------------------------------ */

static bool implies(enum rn_test narrow, const char *inner, enum rn_test wide, const char *outer)
{
    struct rn_slice values[] = {rn_slice_of(inner), rn_slice_of(outer)};
    struct rn_condition a = {.test = narrow, .values = &values[0], .value_count = 1};
    struct rn_condition b = {.test = wide, .values = &values[1], .value_count = 1};

    a.is_path = inner[0] == '/' && narrow != RN_TEST_EQUALS;
    b.is_path = outer[0] == '/' && wide != RN_TEST_EQUALS;
    return rn_condition_implies(&a, &b);
}

static void narrower_tests_imply_wider_ones(void **state)
{
    (void)state;
    assert_true(implies(RN_TEST_ABOVE, "11", RN_TEST_ABOVE, "10.5"));
    assert_true(implies(RN_TEST_BELOW, "-2", RN_TEST_BELOW, "-2.0"));
    assert_true(implies(RN_TEST_EQUALS, "11", RN_TEST_ABOVE, "10.5"));
    assert_true(implies(RN_TEST_EQUALS, "/a/b", RN_TEST_PATTERN, "/a/**"));
    assert_true(implies(RN_TEST_PATTERN, "/a/{id}/c", RN_TEST_PATTERN, "/a/**"));
    assert_true(implies(RN_TEST_PATTERN, "/a/b/**", RN_TEST_PATTERN, "/a/**"));
    assert_true(implies(RN_TEST_PATTERN, "/a/*", RN_TEST_PREFIX, "/a/"));
    assert_true(implies(RN_TEST_PATTERN, "ab*", RN_TEST_PATTERN, "a*"));
    assert_true(implies(RN_TEST_PREFIX, "ab", RN_TEST_PREFIX, "a"));
    assert_true(implies(RN_TEST_PREFIX, "ab", RN_TEST_PRESENT, ""));
}

static void unrelated_tests_do_not_imply_each_other(void **state)
{
    (void)state;
    assert_false(implies(RN_TEST_ABOVE, "10", RN_TEST_ABOVE, "11"));
    assert_false(implies(RN_TEST_ABOVE, "10", RN_TEST_BELOW, "11"));
    assert_false(implies(RN_TEST_PATTERN, "/a/**", RN_TEST_PATTERN, "/a/*"));
    assert_false(implies(RN_TEST_PATTERN, "/a/**", RN_TEST_PATTERN, "/a/*/**"));
    assert_false(implies(RN_TEST_PREFIX, "/api", RN_TEST_PREFIX, "/api/"));
    assert_false(implies(RN_TEST_PATTERN, "*", RN_TEST_PRESENT, ""));
    assert_false(implies(RN_TEST_PRESENT, "", RN_TEST_PATTERN, "a*"));
}

/* --- random pairs ---------------------------------------------------------------------- */

static uint32_t random_below(uint32_t n)
{
    static uint64_t seed = 1;

    seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(seed >> 33) % n;
}
#define PICK(array) array[random_below((uint32_t)COUNT(array))]

static const char *const words[] = {"a",   "ab", "b",  "ba",  "bb", "abab", "-1", "0", "1", "1.0",
                                    "1.5", "2",  "10", "1e1", "/",  "/a",   "//", "x", "",  "a/b"};
static const char *const globs[] = {"a*", "*b", "*", "a", "ab", "*a*", "1*", "a*b", "**", "/*"};
static const char *const bounds[] = {"-1", "0", "1", "1.00", "1.5", "2", "1e1"};
static const char *const paths[] = {"/",      "/a",  "/b",    "/a/b",   "/a/b/c", "/b/a",
                                    "/a/a/b", "/ab", "/ab/a", "/b/b/a", "",       "/a/b/a/b"};
static const char *const path_globs[] = {
    "/",    "/a",    "/**",     "/a/**", "/a/*",   "/*",   "/{x}",  "/a/{x}", "/a/b",    "/a/b/**",
    "/*/b", "/**/b", "/a/**/b", "/a*",   "/a*/**", "/*/*", "/*b/*", "/*/**",  "/**/a/**"};
static const char *const path_prefixes[] = {"/", "/a", "/a/", "/a/b", "/a/b/", "/ab", "/b"};
static const char *const addresses[] = {"10.0.0.1", "10.1.0.1", "11.0.0.1", "192.0.2.1", "::1"};
static struct rn_cidr networks[] = {{{{10}, 32}, 8}, {{{10, 1}, 32}, 16}, {{{11}, 32}, 8},
                                    {{{10}, 32}, 7}, {{{0}, 32}, 0},      {{{0}, 128}, 0}};
static struct rn_cidr_set sets[] = {{&networks[0], 1}, {&networks[1], 1}, {&networks[2], 1},
                                    {&networks[3], 1}, {&networks[4], 1}, {&networks[4], 2},
                                    {&networks[1], 2}, {&networks[0], 0}};

static struct rn_slice random_value(const struct rn_condition *c)
{
    if (c->test == RN_TEST_ABOVE || c->test == RN_TEST_BELOW)
        return rn_slice_of(PICK(bounds));
    if (c->attribute == PATH) {
        if (c->test == RN_TEST_PATTERN)
            return rn_slice_of(PICK(path_globs));
        return rn_slice_of(c->test == RN_TEST_PREFIX ? PICK(path_prefixes) : PICK(paths));
    }
    if (c->attribute == ADDRESS)
        return rn_slice_of(PICK(addresses));
    return rn_slice_of(c->test == RN_TEST_PATTERN ? PICK(globs) : PICK(words));
}

static struct rn_condition random_condition(uint16_t attribute, struct rn_slice values[3])
{
    static const enum rn_test tests[] = {RN_TEST_EQUALS,  RN_TEST_PATTERN, RN_TEST_PREFIX,
                                         RN_TEST_PRESENT, RN_TEST_ABOVE,   RN_TEST_BELOW};
    struct rn_condition c = {.attribute = attribute, .test = PICK(tests), .values = values};

    if (attribute == ADDRESS)
        c.test = random_below(4) ? RN_TEST_CIDR : RN_TEST_PRESENT;
    if (attribute == PATH && (c.test == RN_TEST_ABOVE || c.test == RN_TEST_BELOW))
        c.test = RN_TEST_PATTERN;
    c.is_path = attribute == PATH && (c.test == RN_TEST_PATTERN || c.test == RN_TEST_PREFIX);
    c.negated = random_below(4) == 0;
    if (c.test == RN_TEST_CIDR)
        c.networks = &PICK(sets);
    else if (c.test == RN_TEST_ABOVE || c.test == RN_TEST_BELOW)
        c.value_count = 1;
    else if (c.test != RN_TEST_PRESENT)
        c.value_count = random_below(4);
    for (uint32_t i = 0; i < c.value_count; i++)
        values[i] = random_value(&c);
    return c;
}

/* The value that the first holds for and the second does not; NULL: none is known. */
static const char *exception(const struct rn_condition *narrow, const struct rn_condition *wide)
{
    static const char *const *const pools[] = {words, paths, addresses};
    static const size_t sizes[] = {COUNT(words), COUNT(paths), COUNT(addresses)};
    static struct rn_values values;

    for (size_t i = 0; i <= sizes[narrow->attribute]; i++) {
        bool absent = i == sizes[narrow->attribute];
        const char *text = absent ? "absent" : pools[narrow->attribute][i];

        values.value[narrow->attribute] = absent ? (struct rn_slice){NULL, 0} : rn_slice_of(text);
        if (narrow->attribute == ADDRESS && !absent)
            assert_int_equal(
                rn_ip_parse(text, strlen(text), &values.address[narrow->attribute], NULL), 0);
        values.has_number[narrow->attribute] =
            !absent && rn_decimal_parse(rn_slice_of(text), &values.number[narrow->attribute]);
        if (rn_condition_holds(&ruleset, narrow, &values) &&
            !rn_condition_holds(&ruleset, wide, &values))
            return text;
    }
    return NULL;
}

static void an_implied_condition_holds_too(void **state)
{
    uint32_t followed = 0, not_told = 0;

    (void)state;
    for (int i = 0; i < 200000; i++) {
        uint16_t attribute = (uint16_t)random_below(OTHER);
        struct rn_slice inner[3], outer[3];
        struct rn_condition narrow = random_condition(attribute, inner);
        struct rn_condition wide = random_condition(attribute, outer);
        const char *exempt = exception(&narrow, &wide);

        if (rn_condition_implies(&narrow, &wide)) {
            if (exempt != NULL)
                fail_msg("%d: attribute %d, tests %d%s and %d%s, %.*s and %.*s: not for %s", i,
                         attribute, narrow.test, narrow.negated ? " negated" : "", wide.test,
                         wide.negated ? " negated" : "", (int)inner[0].len, inner[0].data,
                         (int)outer[0].len, outer[0].data, exempt);
            followed++;
        } else {
            not_told += exempt == NULL;
        }
    }
    assert_in_range(followed, 10000, 100000);
    assert_in_range(not_told, 1, 60000); /* also pairs that this small world cannot tell apart */
}

static void conditions_on_different_attributes_are_independent(void **state)
{
    struct rn_condition a = {.attribute = WORD, .test = RN_TEST_PRESENT}, b = a;

    (void)state;
    assert_true(rn_condition_implies(&a, &b));
    b.attribute = OTHER;
    assert_false(rn_condition_implies(&a, &b));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(narrower_tests_imply_wider_ones),
        cmocka_unit_test(unrelated_tests_do_not_imply_each_other),
        cmocka_unit_test(an_implied_condition_holds_too),
        cmocka_unit_test(conditions_on_different_attributes_are_independent),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
