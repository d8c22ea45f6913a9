/* SPDX-License-Identifier: Apache-2.0 */
/* Hits of Envoy's descriptors: looks, late debits, refunds. */
#include "descriptors_fixture.h"

static void hits_are_the_descriptors_or_the_requests_or_one(void **state)
{
    struct ration *r = open_rules(shop_rules);
    struct asked a;

    (void)state;
    DESCRIBE(&a, "shop", "route=cart");
    ask(r, &a, T0);
    assert_int_equal(out.statuses[0].remaining, 9);
    a.request.hits = 2;
    ask(r, &a, T0);
    assert_int_equal(out.statuses[0].remaining, 7);
    a.asks[0].hits_given = true;
    a.asks[0].hits = 3;
    ask(r, &a, T0);
    assert_int_equal(out.statuses[0].remaining, 4);
    a.asks[0].hits = 0;
    assert_true(ask(r, &a, T0));
    assert_int_equal(out.statuses[0].remaining, 4);
    a.asks[0].hits = 5;
    assert_false(ask(r, &a, T0));
    assert_int_equal(out.statuses[0].remaining, 0); /* what was used is charged all the same */
    ration_close(r);
}

static void a_look_is_over_when_less_than_one_unit_is_left(void **state)
{
    struct ration *r = open_rules(shop_rules);
    struct asked a;

    (void)state;
    DESCRIBE(&a, "shop", "user=ann");
    a.asks[0].hits_given = true;
    for (int i = 0; i < 3; i++) {
        a.asks[0].hits = 0;
        assert_true(ask(r, &a, T0));
        assert_int_equal(out.statuses[0].remaining, 3 - i);
        a.asks[0].hits = 1;
        assert_true(ask(r, &a, T0));
    }
    a.asks[0].hits = 0;
    assert_false(ask(r, &a, T0));
    assert_true(out.statuses[0].over);
    assert_int_equal(out.statuses[0].remaining, 0);
    assert_true(out.statuses[0].reset_ns > 0);
    ration_close(r);
}

/* Envoy looks, and debits when the stream is done: 600 of 1000 an hour each time. */
static void what_a_stream_has_used_counts_in_full(void **state)
{
    struct ration *r = open_rules("domain: llm\n"
                                  "descriptors:\n"
                                  "  - key: user\n"
                                  "    rate_limit: {unit: hour, requests_per_unit: 1000}\n");
    struct ration_totals totals;
    struct asked a;

    (void)state;
    DESCRIBE(&a, "llm", "user=ann");
    a.asks[0].hits_given = true;
    for (int i = 0; i < 2; i++) {
        a.asks[0].hits = 0;
        assert_true(ask(r, &a, T0));
        a.asks[0].hits = 600;
        assert_int_equal(ask(r, &a, T0), i == 0);
    }
    a.asks[0].hits = 0;
    for (int i = 0; i < 10; i++)
        assert_false(ask(r, &a, T0)); /* from the third on */
    assert_true(ask(r, &a, T0 + 60 * MINUTE));
    assert_int_equal(out.statuses[0].remaining, 800); /* 200 are carried into the next hour */
    a.asks[0].hits = 800 + 1000 + 9;
    assert_false(ask(r, &a, T0 + 60 * MINUTE));
    ration_totals(r, &totals);
    assert_int_equal(totals.uncollected, 9);
    a.asks[0].hits = 0;
    assert_false(ask(r, &a, T0 + 120 * MINUTE));
    assert_true(ask(r, &a, T0 + 180 * MINUTE));
    ration_close(r);
}

/* All-or-nothing is for admission. */
static void what_was_used_is_charged_to_each_descriptor_by_itself(void **state)
{
    struct ration *r = open_rules(shop_rules);
    struct asked a;

    (void)state;
    DESCRIBE(&a, "shop", "user=ann", "route=cart", "route=other");
    for (size_t i = 0; i < 2; i++) {
        a.asks[i].hits_given = true;
        a.asks[i].hits = 4;
    }
    assert_false(ask(r, &a, T0)); /* user: 3 per hour */
    assert_true(out.statuses[0].over);
    assert_int_equal(out.statuses[0].remaining, 0);
    assert_int_equal(out.statuses[1].remaining, 6);
    ration_close(r);
}

static void refunds_stop_at_nothing_spent(void **state)
{
    struct ration *r = open_rules(shop_rules);
    struct asked a;

    (void)state;
    DESCRIBE(&a, "shop", "route=cart");
    a.request.hits = 6;
    ask(r, &a, T0);
    assert_int_equal(out.statuses[0].remaining, 4);
    a.asks[0].refund = true;
    a.request.hits = 2;
    assert_true(ask(r, &a, T0));
    assert_int_equal(out.statuses[0].remaining, 6);
    a.request.hits = 100;
    assert_true(ask(r, &a, T0));
    assert_int_equal(out.statuses[0].remaining, 10);
    a.asks[0].refund = false;
    a.request.hits = 10;
    assert_true(ask(r, &a, T0));
    a.request.hits = 1;
    assert_false(ask(r, &a, T0));
    ration_close(r);
}

static void a_refused_request_refunds_nothing(void **state)
{
    struct ration *r = open_rules(shop_rules);
    struct asked a;

    (void)state;
    DESCRIBE(&a, "shop", "route=cart", "zero=x");
    a.request.hits = 4;
    DESCRIBE(&a, "shop", "route=cart");
    a.request.hits = 4;
    ask(r, &a, T0);
    DESCRIBE(&a, "shop", "route=cart", "zero=x");
    a.asks[0].refund = true;
    assert_false(ask(r, &a, T0));
    assert_int_equal(out.statuses[0].remaining, 6);
    ration_close(r);
}

static void a_refund_is_no_admission(void **state)
{
    struct ration *r = open_rules(shop_rules);
    struct ration_totals before, after;
    struct asked a;

    (void)state;
    DESCRIBE(&a, "shop", "route=cart");
    ask(r, &a, T0);
    ration_totals(r, &before);
    a.asks[0].refund = true;
    assert_true(ask(r, &a, T0));
    ration_totals(r, &after);
    assert_memory_equal(&before, &after, sizeof after);
    ration_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hits_are_the_descriptors_or_the_requests_or_one),
        cmocka_unit_test(a_look_is_over_when_less_than_one_unit_is_left),
        cmocka_unit_test(what_a_stream_has_used_counts_in_full),
        cmocka_unit_test(what_was_used_is_charged_to_each_descriptor_by_itself),
        cmocka_unit_test(refunds_stop_at_nothing_spent),
        cmocka_unit_test(a_refused_request_refunds_nothing),
        cmocka_unit_test(a_refund_is_no_admission),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
