/* SPDX-License-Identifier: Apache-2.0 */
/* Which limit a descriptor finds and which counter it is charged to, fact by
 * fact. test_envoy_trees.c compares random trees with a naive matcher. */
#include "envoy_fixture.h"

static void exact_values_come_before_wildcards_before_the_bare_key(void **state)
{
    (void)state;
    struct rn_ruleset *r = load_good("wildcards.yaml", 0);

    assert_int_equal(RATE(r, "wildcards", "path=/api/status"), 5000);
    assert_int_equal(RATE(r, "wildcards", "path=/api/orders"), 100);
    assert_int_equal(RATE(r, "wildcards", "path=/admin"), 2);
    assert_int_equal(RATE(r, "wildcards", "path=/home"), 1000);
    assert_int_equal(RATE(r, "wildcards", "path="), 1000);
    rn_ruleset_free(r);
}

static void wildcards_are_tried_in_file_order(void **state)
{
    (void)state;
    struct rn_ruleset *r = load_good("wildcards.yaml", 0);

    /* Each matched by a later pattern, too. */
    assert_int_equal(RATE(r, "wildcards", "path=/api/v1/export/a.csv"), 1);
    assert_int_equal(RATE(r, "wildcards", "path=/api/admin"), 100);
    rn_ruleset_free(r);
}

static void a_star_may_stand_anywhere_and_often(void **state)
{
    (void)state;
    struct rn_ruleset *r =
        load_sound("domain: d\n"
                   "descriptors:\n"
                   "- {key: k, value: 'a*b*c', rate_limit: {unit: day, requests_per_unit: 1}}\n"
                   "- {key: k, value: '*z', rate_limit: {unit: day, requests_per_unit: 2}}\n");

    assert_int_equal(RATE(r, "d", "k=abc"), 1);
    assert_int_equal(RATE(r, "d", "k=a-b-b-c"), 1);
    assert_int_equal(RATE(r, "d", "k=ac"), -1);
    assert_int_equal(RATE(r, "d", "k=z"), 2);
    assert_int_equal(RATE(r, "d", "k=a*b*c"), 1);
    rn_ruleset_free(r);
}

static void an_empty_value_is_matched_by_a_star_or_the_bare_key(void **state)
{
    (void)state;
    struct rn_ruleset *r =
        load_sound("domain: d\n"
                   "descriptors:\n"
                   "- {key: k, value: '*', rate_limit: {unit: day, requests_per_unit: 1}}\n"
                   "- {key: l, value: '', rate_limit: {unit: day, requests_per_unit: 2}}\n"
                   "- {key: l, value: 'x*', rate_limit: {unit: day, requests_per_unit: 3}}\n");
    struct rn_envoy_entry nothing = {RN_SLICE("k"), {NULL, 0}};
    struct answer a;

    assert_int_equal(RATE(r, "d", "k="), 1);
    assert_int_equal(RATE(r, "d", "l="), 2);
    a.limit = rn_envoy_match(r, RN_SLICE("d"), &nothing, 1, a.parts, &a.part_count);
    assert_int_equal(rate_of(a.limit), 1);
    nothing.key = (struct rn_slice){NULL, 0};
    assert_null(rn_envoy_match(r, RN_SLICE("d"), &nothing, 1, a.parts, &a.part_count));
    rn_ruleset_free(r);
}

static void a_request_that_spells_a_pattern_has_no_exact_value(void **state)
{
    (void)state;
    struct rn_ruleset *r =
        load_sound("domain: d\n"
                   "descriptors:\n"
                   "- {key: k, value: 'x*y', rate_limit: {unit: day, requests_per_unit: 1}}\n"
                   "- {key: k, value: 'x*', rate_limit: {unit: day, requests_per_unit: 2}}\n");

    assert_int_equal(RATE(r, "d", "k=x*"), 2);
    assert_int_equal(RATE(r, "d", "k=x*y"), 1);
    assert_int_equal(RATE(r, "d", "k=x*-y"), 1);
    rn_ruleset_free(r);
}

static void a_limit_applies_at_exactly_its_depth(void **state)
{
    (void)state;
    struct rn_ruleset *r = load_good("nested.yaml", 0);

    assert_int_equal(RATE(r, "nested", "tenant=t"), -1);
    assert_int_equal(RATE(r, "nested", "tenant=t", "service=mail"), 600);
    assert_int_equal(RATE(r, "nested", "tenant=t", "service=mail", "method=GET"), -1);
    assert_int_equal(RATE(r, "nested", "tenant=t", "service=search"), -1);
    assert_int_equal(RATE(r, "nested", "tenant=t", "service=search", "method=POST", "user=u"), 3);
    assert_int_equal(RATE(r, "nested", "tenant=t", "service=search", "method=POST", "user=robot"),
                     1);
    assert_int_equal(RATE(r, "nested", "service=mail", "tenant=t"), -1);
    assert_null(ask(r, "nested", NULL).limit);
    rn_ruleset_free(r);
}

static void a_level_once_chosen_is_not_left_again(void **state)
{
    (void)state;
    struct rn_ruleset *r = load_sound(
        "domain: d\n"
        "descriptors:\n"
        "- {key: a, value: x, rate_limit: {unit: day, requests_per_unit: 1}}\n"
        "- {key: a, descriptors: [{key: b, rate_limit: {unit: day, requests_per_unit: 2}}]}\n");

    assert_int_equal(RATE(r, "d", "a=y", "b=1"), 2);
    assert_int_equal(RATE(r, "d", "a=x", "b=1"), -1);
    rn_ruleset_free(r);
}

static void an_unknown_descriptor_has_no_limit(void **state)
{
    (void)state;
    struct rn_ruleset *r = load_good("messaging.yaml", 0);

    assert_int_equal(RATE(r, "elsewhere", "message_type=marketing"), -1);
    assert_int_equal(RATE(r, "messaging", "kind=marketing"), -1);
    assert_int_equal(RATE(r, "", "message_type=marketing"), -1);
    rn_ruleset_free(r);
}

static void a_descriptor_without_rate_limit_is_found(void **state)
{
    (void)state;
    struct rn_ruleset *r = load_good("whitelist.yaml", 0);
    struct answer a = ask(r, "whitelist", "client=monitoring", NULL);

    assert_non_null(a.limit);
    assert_null(a.limit->limit);
    assert_null(a.limit->rule);
    assert_false(a.limit->unlimited);
    assert_int_equal(RATE(r, "whitelist", "client=other"), 60);
    rn_ruleset_free(r);
}

static void equal_descriptors_share_a_counter_and_others_do_not(void **state)
{
    (void)state;
    struct rn_ruleset *r = load_good("nested.yaml", 0);
#define ASK(tenant, user) ask(r, "nested", tenant, "service=search", "method=POST", user, NULL)
    struct answer a = ASK("tenant=t", "user=u");

    assert_int_equal(a.part_count, 8);
    assert_true(rn_slice_is(a.parts[0], "tenant") && rn_slice_is(a.parts[1], "t"));
    assert_true(same_counter(a, ASK("tenant=t", "user=u")));
    assert_false(same_counter(a, ASK("tenant=t", "user=v")));
    assert_false(same_counter(a, ASK("tenant=s", "user=u")));
#undef ASK
    rn_ruleset_free(r);
}

static void share_threshold_counts_by_the_pattern(void **state)
{
    (void)state;
    struct rn_ruleset *r = load_good("share_threshold.yaml", 0);
    struct answer a = ask(r, "shared", "file=downloads/a", NULL);
    struct answer b = ask(r, "shared", "file=previews/a", NULL);
    struct answer c = ask(r, "shared", "route=/v1/orders", "client=x", NULL);

    assert_true(a.limit->share_threshold && !b.limit->share_threshold);
    assert_true(same_counter(a, ask(r, "shared", "file=downloads/b", NULL)));
    assert_false(same_counter(b, ask(r, "shared", "file=previews/b", NULL)));
    /* Also where the limit is a level below. */
    assert_true(c.limit->share_threshold);
    assert_true(same_counter(c, ask(r, "shared", "route=/v2/orders", "client=x", NULL)));
    assert_false(same_counter(c, ask(r, "shared", "route=/v1/orders", "client=y", NULL)));
    rn_ruleset_free(r);
}

static void thousands_of_values_are_all_found(void **state)
{
    enum { VALUES = 5000 };
    char *text = malloc(VALUES * 100), *end = text, entry[40];

    (void)state;
    assert_non_null(text);
    append_text(&end, "domain: d\ndescriptors:\n");
    for (int i = 0; i < VALUES; i++)
        append_text(
            &end, "- {key: k, value: v%d, rate_limit: {unit: day, requests_per_unit: %d}}\n", i, i);
    struct rn_ruleset *r = load_sound(text);

    for (int i = 0; i < VALUES; i++) {
        snprintf(entry, sizeof entry, "k=v%d", i);
        assert_int_equal(RATE(r, "d", entry), i);
    }
    assert_int_equal(RATE(r, "d", "k=v5000"), -1);
    rn_ruleset_free(r);
    free(text);
}

static void depth_is_limited_only_by_the_document(void **state)
{
    enum { DEPTH = 31 };
    char text[4096], *end = text;
    struct rn_envoy_entry entries[RN_ENVOY_DEPTH_MAX + 1];
    struct rn_slice parts[RN_ENVOY_PARTS_MAX];
    uint32_t count = 0;

    (void)state;
    append_text(&end, "{domain: d, descriptors: [");
    for (int i = 0; i < DEPTH - 1; i++)
        append_text(&end, "{key: k, descriptors: [");
    append_text(&end, "{key: k, rate_limit: {unit: day, requests_per_unit: 9}}");
    for (int i = 0; i < DEPTH - 1; i++)
        append_text(&end, "]}");
    append_text(&end, "]}");
    struct rn_ruleset *r = load_sound(text);

    for (size_t i = 0; i <= RN_ENVOY_DEPTH_MAX; i++)
        entries[i] = (struct rn_envoy_entry){RN_SLICE("k"), RN_SLICE("v")};
    for (size_t i = 0; i <= RN_ENVOY_DEPTH_MAX; i++)
        assert_int_equal(rate_of(rn_envoy_match(r, RN_SLICE("d"), entries, i, parts, &count)),
                         i == DEPTH ? 9 : -1);
    assert_int_equal(count, 2 * DEPTH);
    rn_ruleset_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exact_values_come_before_wildcards_before_the_bare_key),
        cmocka_unit_test(wildcards_are_tried_in_file_order),
        cmocka_unit_test(a_star_may_stand_anywhere_and_often),
        cmocka_unit_test(an_empty_value_is_matched_by_a_star_or_the_bare_key),
        cmocka_unit_test(a_request_that_spells_a_pattern_has_no_exact_value),
        cmocka_unit_test(a_limit_applies_at_exactly_its_depth),
        cmocka_unit_test(a_level_once_chosen_is_not_left_again),
        cmocka_unit_test(an_unknown_descriptor_has_no_limit),
        cmocka_unit_test(a_descriptor_without_rate_limit_is_found),
        cmocka_unit_test(equal_descriptors_share_a_counter_and_others_do_not),
        cmocka_unit_test(share_threshold_counts_by_the_pattern),
        cmocka_unit_test(thousands_of_values_are_all_found),
        cmocka_unit_test(depth_is_limited_only_by_the_document),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
