/* SPDX-License-Identifier: Apache-2.0 */
/* Counting by values of descriptors: detailed_metric and value_to_metric. */
#include "descriptors_fixture.h"

#include <stdio.h>

#include "limiter/value_stats.h"

struct seen {
    char descriptor[RN_VALUE_TEXT + 1];
    struct rn_value_totals totals;
};

static struct seen rows[2 * RN_VALUE_ROWS];
static size_t row_count;

static void see(void *arg, struct rn_slice rule, struct rn_slice descriptor,
                const struct rn_value_totals *totals)
{
    (void)arg;
    (void)rule;
    assert_true(row_count < COUNT(rows) && descriptor.len <= RN_VALUE_TEXT);
    rn_slice_copy(rows[row_count].descriptor, sizeof rows[0].descriptor, descriptor);
    rows[row_count++].totals = *totals;
}

/* NULL: there is no such row. */
static const struct rn_value_totals *find(struct ration *r, const char *descriptor)
{
    row_count = 0;
    rn_value_stats_each(r, see, NULL);
    for (size_t i = 0; i < row_count; i++)
        if (strcmp(rows[i].descriptor, descriptor) == 0)
            return &rows[i].totals;
    return NULL;
}

static const char shop[] = "domain: shop\n"
                           "descriptors:\n"
                           "  - key: user\n"
                           "    detailed_metric: true\n"
                           "    rate_limit: {unit: hour, requests_per_unit: 3}\n"
                           "  - key: plain\n"
                           "    rate_limit: {unit: hour, requests_per_unit: 3}\n"
                           "  - key: client\n"
                           "    descriptors:\n"
                           "      - key: path\n"
                           "        value: /api/*\n"
                           "        value_to_metric: true\n"
                           "        rate_limit: {unit: hour, requests_per_unit: 100}\n"
                           "      - key: path\n"
                           "        value: /shared/*\n"
                           "        share_threshold: true\n"
                           "        detailed_metric: true\n"
                           "        rate_limit: {unit: hour, requests_per_unit: 100}\n";

static void a_detailed_metric_has_every_value(void **state)
{
    struct ration *r = open_rules(shop);

    (void)state;
    for (int i = 0; i < 5; i++)
        ask_for(r, "shop", "user=ann", T0);
    ask_for(r, "shop", "user=bob", T0);
    ask_for(r, "shop", "plain=ann", T0);
    assert_int_equal(find(r, "shop.user_ann")->allowed, 3);
    assert_int_equal(find(r, "shop.user_ann")->refused, 2);
    assert_int_equal(find(r, "shop.user_ann")->hits_refused, 2);
    assert_int_equal(find(r, "shop.user_bob")->allowed, 1);
    assert_int_equal(row_count, 2);
    ration_close(r);
}

static void a_value_is_counted_at_the_level_that_asks_for_it(void **state)
{
    struct ration *r = open_rules(shop);

    (void)state;
    ask_for(r, "shop", "client=ann path=/api/x", T0);
    ask_for(r, "shop", "client=bob path=/api/x", T0);
    assert_int_equal(find(r, "shop.client.path_/api/x")->allowed, 2);
    /* With a shared counter there is one value: the pattern. Of the client there are many. */
    ask_for(r, "shop", "client=ann path=/shared/x", T0);
    ask_for(r, "shop", "client=ann path=/shared/y", T0);
    assert_int_equal(find(r, "shop.client_ann.path_/shared/*")->allowed, 2);
    ration_close(r);
}

static void late_debits_count_as_hits(void **state)
{
    struct ration *r = open_rules(shop);
    struct asked a;

    (void)state;
    DESCRIBE(&a, "shop", "user=ann");
    a.asks[0].hits_given = true;
    a.asks[0].hits = 2;
    assert_true(ask(r, &a, T0));
    assert_false(ask(r, &a, T0));
    assert_int_equal(find(r, "shop.user_ann")->hits_allowed, 4);
    ration_close(r);
}

static void values_beyond_the_bound_share_a_row(void **state)
{
    struct ration *r = open_rules(shop);
    char text[32];

    (void)state;
    for (int i = 0; i < 5000; i++) {
        snprintf(text, sizeof text, "user=u%d", i);
        assert_true(ask_for(r, "shop", text, T0));
    }
    assert_int_equal(find(r, RN_VALUE_OTHER)->allowed, 5000 - RN_VALUE_ROWS);
    assert_int_equal(row_count, RN_VALUE_ROWS + 1);
    ask_for(r, "shop", "user=u0", T0);
    assert_int_equal(find(r, "shop.user_u0")->allowed, 2);
    ration_close(r);
}

static void rows_that_look_alike_are_one(void **state)
{
    struct ration *r = open_rules(shop);
    char text[2][2 * RN_VALUE_TEXT];

    (void)state;
    for (int i = 0; i < 2; i++)
        snprintf(text[i], sizeof text[i], "user=%0*d%d", RN_VALUE_TEXT, 0, i);
    ask_for(r, "shop", text[0], T0);
    ask_for(r, "shop", text[1], T0);
    assert_null(find(r, RN_VALUE_OTHER));
    assert_int_equal(row_count, 1);
    assert_int_equal(rows[0].totals.allowed, 2);
    ask_for(r, "shop", "user=\xc3\"\n%", T0);
    assert_non_null(find(r, "shop.user_%C3\"%0A%25"));
    ration_close(r);
}

static void counts_survive_a_reload_unless_other_values_are_counted(void **state)
{
    static const char other[] = "domain: shop\n"
                                "descriptors:\n"
                                "  - key: user\n"
                                "    rate_limit: {unit: hour, requests_per_unit: 3}\n";
    struct ration *r = open_rules(shop);

    (void)state;
    ask_for(r, "shop", "user=ann", T0);
    rules_at(r, shop, T0);
    ask_for(r, "shop", "user=ann", T0);
    assert_int_equal(find(r, "shop.user_ann")->allowed, 2);
    rules_at(r, other, T0);
    ask_for(r, "shop", "user=ann", T0);
    assert_null(find(r, "shop.user_ann"));
    rules_at(r, shop, T0);
    assert_null(find(r, "shop.user_ann"));
    ration_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_detailed_metric_has_every_value),
        cmocka_unit_test(a_value_is_counted_at_the_level_that_asks_for_it),
        cmocka_unit_test(late_debits_count_as_hits),
        cmocka_unit_test(values_beyond_the_bound_share_a_row),
        cmocka_unit_test(rows_that_look_alike_are_one),
        cmocka_unit_test(counts_survive_a_reload_unless_other_values_are_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
