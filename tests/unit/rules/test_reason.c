/* SPDX-License-Identifier: Apache-2.0 */
/* Why rules apply to requests and why not, in words. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "rules/match/reason.h"

#define TEXT                                                                                       \
    "limits:\n"                                                                                    \
    "  - name: conditions\n"                                                                       \
    "    when: { method: [GET, HEAD], path: /api/**, ip: { cidr: [10.0.0.0/8] } }\n"               \
    "    key: ip\n"                                                                                \
    "    limit: 1 per second\n"                                                                    \
    "  - name: absent\n"                                                                           \
    "    when: { user: { present: false } }\n"                                                     \
    "    limit: 1 per second\n"                                                                    \
    "  - name: keyed\n"                                                                            \
    "    key: [user or api_key]\n"                                                                 \
    "    limit: 1 per second\n"                                                                    \
    "  - name: tiered\n"                                                                           \
    "    limit: { by: plan, free: 1 per second, pro: unlimited }\n"                                \
    "  - name: either\n"                                                                           \
    "    when: [{ path: /a/* }, { method: POST, size: { above: 10 } }]\n"                          \
    "    limit: 1 per second\n"                                                                    \
    "  - name: small\n"                                                                            \
    "    when: { size: { above: -1, below: 1_000, not: { below: 5 } } }\n"                         \
    "    limit: 1 per second\n"

struct fixture {
    struct rn_report report;
    struct rn_ruleset *ruleset;
};

static int set_up(void **state)
{
    static struct fixture f;

    rn_report_init(&f.report);
    f.ruleset = rn_ruleset_parse(RN_SLICE("rules"), RN_SLICE(TEXT), &f.report);
    *state = &f;
    return f.ruleset == NULL;
}

static int tear_down(void **state)
{
    struct fixture *f = *state;

    rn_ruleset_free(f->ruleset);
    rn_report_done(&f->report);
    return 0;
}

/* Names and values one after the other, up to NULL. */
static void expect(struct fixture *f, uint32_t rule, const char *expected,
                   const char *const *attributes)
{
    struct ration_attribute given[8];
    struct ration_request request = {.attributes = given};
    struct rn_values values;
    struct rn_buf out = {0};
    struct rn_match match;

    for (; *attributes; attributes += 2)
        given[request.count++] = (struct ration_attribute){attributes[0], strlen(attributes[0]),
                                                           attributes[1], strlen(attributes[1])};
    rn_values_resolve(f->ruleset, &request, &values);
    rn_reason_write(&out, f->ruleset, &f->ruleset->rules[rule], &values,
                    rn_match_explain(f->ruleset, &f->ruleset->rules[rule], &values, &match));
    rn_buf_put_char(&out, '\0');
    assert_string_equal(out.data, expected);
    rn_buf_done(&out);
}

#define EXPECT(rule, expected, ...)                                                                \
    expect(*state, rule, expected, (const char *const[]){__VA_ARGS__, NULL})

static void the_first_failing_condition_is_named(void **state)
{
    EXPECT(0, "method \"PUT\" is not one of GET, HEAD", "method", "PUT", "path", "/x");
    EXPECT(0, "method is absent; it must be one of GET, HEAD", "path", "/x");
    EXPECT(0, "path \"/x\" does not match /api/**", "method", "GET", "path", "/x");
    EXPECT(0, "ip \"192.0.2.7\" is not in 10.0.0.0/8", "method", "GET", "path", "/api/x", "ip",
           "192.0.2.7");
}

static void all_conditions_that_hold_are_named(void **state)
{
    EXPECT(
        0,
        "method \"GET\" is one of GET, HEAD; path \"/api/x\" matches /api/**; ip \"10.1.2.3\" is "
        "in 10.0.0.0/8",
        "method", "GET", "path", "/api/x", "ip", "10.1.2.3");
    EXPECT(2, "the rule has no conditions", "user", "ada");
}

static void a_negated_condition_is_described_as_such(void **state)
{
    EXPECT(1, "user is absent", "ip", "::1");
    EXPECT(1, "user \"ada\" is present, which it must not", "user", "ada");
}

static void a_missing_key_or_tier_is_named(void **state)
{
    EXPECT(2, "no key: user and api_key are absent", "ip", "::1");
    EXPECT(3, "no tier: plan is absent, and there is no default", "ip", "::1");
    EXPECT(3, "no tier: plan \"gold\" is none of free, pro, and there is no default", "plan",
           "gold");
    EXPECT(3, "the rule has no conditions; the tier is unlimited", "plan", "pro");
}

static void the_alternative_that_holds_is_named(void **state)
{
    EXPECT(4, "alternative 1 of 2: path \"/a/b\" matches /a/*", "path", "/a/b", "method", "POST");
    EXPECT(4, "alternative 2 of 2: method \"POST\" is POST; size \"11\" is above 10", "method",
           "POST", "size", "11");
}

static void the_first_failure_of_each_alternative_is_named(void **state)
{
    EXPECT(4,
           "no alternative holds: (1) path \"/b\" does not match /a/*; (2) size \"9\" is not above "
           "10",
           "path", "/b", "method", "POST", "size", "9");
    EXPECT(
        4,
        "no alternative holds: (1) path is absent; it must match /a/*; (2) method \"GET\" is not "
        "POST",
        "method", "GET");
}

static void comparisons_of_numbers_are_described(void **state)
{
    EXPECT(5, "size \"7\" is above -1; size \"7\" is below 1000; size \"7\" is not below 5", "size",
           "7");
    EXPECT(5, "size \"1e3\" is not below 1000", "size", "1e3");
    EXPECT(5, "size \"4\" is below 5, which it must not", "size", "4");
    EXPECT(5, "size \"big\" is not a number; it must be above -1", "size", "big");
    EXPECT(5, "size is absent; it must be above -1", "ip", "::1");
}

static void values_are_escaped(void **state)
{
    EXPECT(0, "method \"\\x1b[2J\\\"\" is not one of GET, HEAD", "method", "\x1b[2J\"");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_first_failing_condition_is_named),
        cmocka_unit_test(all_conditions_that_hold_are_named),
        cmocka_unit_test(a_negated_condition_is_described_as_such),
        cmocka_unit_test(a_missing_key_or_tier_is_named),
        cmocka_unit_test(the_alternative_that_holds_is_named),
        cmocka_unit_test(the_first_failure_of_each_alternative_is_named),
        cmocka_unit_test(comparisons_of_numbers_are_described),
        cmocka_unit_test(values_are_escaped),
    };

    return cmocka_run_group_tests(tests, set_up, tear_down);
}
