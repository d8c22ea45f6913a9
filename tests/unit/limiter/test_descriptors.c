/* SPDX-License-Identifier: Apache-2.0 */
/* Envoy's requests: all descriptors together. */
#include "descriptors_fixture.h"

#include <stdio.h>

#include <ration/clients.h>

#define DAY (24 * 60 * MINUTE)

static const char shop[] = "domain: shop\n"
                           "descriptors:\n"
                           "  - key: user\n"
                           "    rate_limit: {unit: minute, requests_per_unit: 3, name: by-user}\n"
                           "  - key: route\n"
                           "    value: cart\n"
                           "    rate_limit: {unit: hour, requests_per_unit: 10}\n"
                           "  - key: zero\n"
                           "    rate_limit: {unit: second, requests_per_unit: 0}\n"
                           "  - key: free\n"
                           "    rate_limit: {unlimited: true}\n"
                           "  - key: white\n"
                           "  - key: shy\n"
                           "    shadow_mode: true\n"
                           "    rate_limit: {unit: minute, requests_per_unit: 1}\n";

static void statuses_are_complete(void **state)
{
    struct ration *r = open_rules(shop);
    int64_t now = T0 + 10 * SECOND, wall = ration_wall(r, now);

    (void)state;
    assert_true(ask_for(r, "shop", "user=ann", now));
    assert_true(out.statuses[0].limited);
    assert_false(out.statuses[0].over);
    assert_string_equal(out.statuses[0].name, "by-user");
    assert_string_equal(out.statuses[0].rule, "shop.user");
    assert_int_equal(out.statuses[0].requests_per_unit, 3);
    assert_int_equal(out.statuses[0].unit, RATION_UNIT_MINUTE);
    assert_int_equal(out.statuses[0].remaining, 2);
    assert_int_equal(out.statuses[0].reset_ns, MINUTE - wall % MINUTE);
    assert_int_equal(out.decided_by, 0);
    ration_close(r);
}

static void one_refused_descriptor_charges_no_other(void **state)
{
    struct ration *r = open_rules(shop);
    struct asked a;

    (void)state;
    DESCRIBE(&a, "shop", "route=cart", "user=ann");
    for (int i = 0; i < 3; i++)
        assert_true(ask(r, &a, T0));
    for (int i = 0; i < 5; i++)
        assert_false(ask(r, &a, T0));
    assert_false(out.statuses[0].over);
    assert_true(out.statuses[1].over);
    assert_int_equal(out.statuses[0].remaining, 7);
    assert_int_equal(out.statuses[1].remaining, 0);
    assert_int_equal(out.decided_by, 1);
    ration_close(r);
}

static void hits_are_the_descriptors_or_the_requests_or_one(void **state)
{
    struct ration *r = open_rules(shop);
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
    struct ration *r = open_rules(shop);
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
    struct ration *r = open_rules(shop);
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

static void unknown_domains_and_descriptors_have_no_limit(void **state)
{
    struct ration *r = open_rules(shop);

    (void)state;
    assert_true(ask_for(r, "elsewhere", "user=ann", T0));
    assert_false(out.statuses[0].limited);
    assert_true(ask_for(r, "shop", "user=ann and=more", T0));
    assert_false(out.statuses[0].limited);
    assert_true(ask_for(r, "shop", "white=x", T0));
    assert_false(out.statuses[0].limited);
    assert_int_equal(out.statuses[0].remaining, 0);
    assert_int_equal(out.decided_by, -1);
    ration_close(r);
}

static void an_unlimited_descriptor_has_the_most_remaining(void **state)
{
    struct ration *r = open_rules(shop);

    (void)state;
    assert_true(ask_for(r, "shop", "free=x", T0));
    assert_false(out.statuses[0].limited);
    assert_int_equal(out.statuses[0].remaining, UINT32_MAX);
    ration_close(r);
}

static void a_limit_of_nothing_always_refuses(void **state)
{
    struct ration *r = open_rules(shop);

    (void)state;
    assert_false(ask_for(r, "shop", "zero=x", T0));
    assert_false(ask_for(r, "shop", "zero=x", T0 + DAY));
    assert_true(out.statuses[0].over);
    assert_true(out.statuses[0].reset_ns > 0 && out.statuses[0].reset_ns <= SECOND);
    ration_close(r);
}

static void shadow_mode_counts_and_answers_ok(void **state)
{
    struct ration *r = open_rules(shop);

    (void)state;
    assert_true(ask_for(r, "shop", "shy=x", T0));
    assert_false(out.statuses[0].shadow);
    assert_true(ask_for(r, "shop", "shy=x", T0));
    assert_false(out.statuses[0].over);
    assert_true(out.statuses[0].shadow);
    assert_true(out.shadowed);
    assert_int_equal(out.statuses[0].remaining, 0);
    ration_close(r);
}

static void a_service_in_shadow_mode_refuses_nobody(void **state)
{
    struct ration *r = open_rules(shop);

    (void)state;
    ration_shadow_set(r, true);
    assert_true(ask_for(r, "shop", "zero=x", T0));
    assert_true(out.statuses[0].over);
    assert_true(out.shadowed);
    ration_close(r);
}

static void refunds_stop_at_nothing_spent(void **state)
{
    struct ration *r = open_rules(shop);
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
    struct ration *r = open_rules(shop);
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
    struct ration *r = open_rules(shop);
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

static void a_limit_may_come_with_the_descriptor(void **state)
{
    struct ration *r = open_rules(shop);
    struct asked a;

    (void)state;
    DESCRIBE(&a, "shop", "user=ann");
    a.asks[0].limit_given = true;
    a.asks[0].requests_per_unit = 5;
    a.asks[0].unit = RATION_UNIT_MINUTE;
    for (int i = 0; i < 5; i++)
        assert_true(ask(r, &a, T0));
    assert_false(ask(r, &a, T0));
    assert_int_equal(out.statuses[0].requests_per_unit, 5);
    assert_int_equal(out.statuses[0].unit, RATION_UNIT_MINUTE);
    assert_string_equal(out.statuses[0].name, "");
    /* The same window: what was admitted under it counts in the file's. */
    assert_false(ask_for(r, "shop", "user=ann", T0));
    assert_true(ask_for(r, "shop", "user=bob", T0));
    ration_close(r);
}

static void a_given_limit_of_another_unit_counts_in_the_rules(void **state)
{
    struct ration *r = open_rules(shop);
    struct asked a;

    (void)state;
    DESCRIBE(&a, "shop", "user=ann");
    a.asks[0].limit_given = true;
    a.asks[0].requests_per_unit = 100;
    a.asks[0].unit = RATION_UNIT_DAY;
    for (int i = 0; i < 3; i++)
        assert_true(ask(r, &a, T0));
    assert_int_equal(out.statuses[0].remaining, 97);
    assert_false(ask_for(r, "shop", "user=ann", T0));
    ration_close(r);
}

static void a_given_limit_needs_no_rule_but_a_domain(void **state)
{
    struct ration *r = open_rules(shop);
    struct asked a;

    (void)state;
    DESCRIBE(&a, "shop", "nobody=knows");
    a.asks[0].limit_given = true;
    a.asks[0].requests_per_unit = 1;
    a.asks[0].unit = RATION_UNIT_HOUR;
    assert_true(ask(r, &a, T0));
    assert_string_equal(out.statuses[0].rule, "shop");
    assert_false(ask(r, &a, T0));
    assert_true(out.statuses[0].over);
    a.request.domain = "else";
    a.request.domain_len = 4;
    assert_true(ask(r, &a, T0));
    assert_true(ask(r, &a, T0));
    assert_false(out.statuses[0].limited);
    ration_close(r);
}

static void named_limits_are_replaced(void **state)
{
    struct ration *r =
        open_rules("domain: d\n"
                   "descriptors:\n"
                   "  - key: all\n"
                   "    rate_limit: {unit: minute, requests_per_unit: 1, name: general}\n"
                   "  - key: vip\n"
                   "    rate_limit:\n"
                   "      unit: minute\n"
                   "      requests_per_unit: 4\n"
                   "      replaces: [{name: general}]\n");
    struct asked a;

    (void)state;
    DESCRIBE(&a, "d", "all=x", "vip=x");
    for (int i = 0; i < 4; i++)
        assert_true(ask(r, &a, T0));
    assert_false(out.statuses[0].limited);
    assert_false(ask(r, &a, T0));
    assert_true(ask_for(r, "d", "all=x", T0)); /* was not charged */
    assert_false(ask_for(r, "d", "all=x", T0));
    ration_close(r);
}

static const char quotas[] =
    "domain: q\n"
    "descriptors:\n"
    "  - {key: a, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 1}}\n"
    "  - {key: b, quota_mode: true, rate_limit: {unit: minute, requests_per_unit: 3}}\n"
    "  - {key: c, rate_limit: {unit: minute, requests_per_unit: 2}}\n";

static void quotas_refuse_only_together(void **state)
{
    struct ration *r = open_rules(quotas);
    struct asked a;

    (void)state;
    DESCRIBE(&a, "q", "a=x", "b=x");
    assert_true(ask(r, &a, T0));
    assert_true(ask(r, &a, T0));
    assert_true(out.statuses[0].over);
    assert_false(out.statuses[1].over);
    assert_true(ask(r, &a, T0));
    assert_false(ask(r, &a, T0));
    assert_true(out.statuses[0].over);
    assert_true(out.statuses[1].over);
    ration_close(r);
}

static void a_single_quota_refuses(void **state)
{
    struct ration *r = open_rules(quotas);

    (void)state;
    assert_true(ask_for(r, "q", "a=x", T0));
    assert_false(ask_for(r, "q", "a=x", T0));
    ration_close(r);
}

static void any_other_descriptor_refuses_beside_quotas(void **state)
{
    struct ration *r = open_rules(quotas);
    struct asked a;

    (void)state;
    DESCRIBE(&a, "q", "b=x", "c=x");
    assert_true(ask(r, &a, T0));
    assert_true(ask(r, &a, T0));
    assert_false(ask(r, &a, T0));
    assert_false(out.statuses[0].over);
    assert_int_equal(out.statuses[0].remaining, 1);
    ration_close(r);
}

static void the_same_descriptor_twice_is_charged_twice(void **state)
{
    struct ration *r = open_rules(shop);
    struct asked a;

    (void)state;
    DESCRIBE(&a, "shop", "user=ann", "user=ann");
    assert_true(ask(r, &a, T0));
    assert_false(ask(r, &a, T0)); /* one is left, two are wanted */
    assert_true(ask_for(r, "shop", "user=ann", T0));
    assert_false(ask_for(r, "shop", "user=ann", T0));
    ration_close(r);
}

static void requests_that_make_no_sense_are_errors(void **state)
{
    struct ration *r = open_rules(shop);
    struct asked a;

    (void)state;
    DESCRIBE(&a, "", "user=ann");
    assert_int_equal(ration_decide_descriptors(r, &a.request, T0, &out), RATION_EINVAL);
    DESCRIBE(&a, "shop", "user=ann");
    a.request.count = 0;
    assert_int_equal(ration_decide_descriptors(r, &a.request, T0, &out), RATION_EINVAL);
    a.request.count = RATION_DESCRIPTORS_MAX + 1;
    assert_int_equal(ration_decide_descriptors(r, &a.request, T0, &out), RATION_EINVAL);
    DESCRIBE(&a, "shop", "user=ann", "");
    assert_int_equal(ration_decide_descriptors(r, &a.request, T0, &out), RATION_EINVAL);
    DESCRIBE(&a, "shop", "user=ann");
    a.asks[0].limit_given = true;
    assert_int_equal(ration_decide_descriptors(r, &a.request, T0, &out), RATION_EINVAL);
    assert_true(ask_for(r, "shop", "user=ann", T0)); /* nothing was charged */
    assert_int_equal(out.statuses[0].remaining, 2);
    ration_close(r);
}

static void without_rules_everything_is_allowed(void **state)
{
    struct ration *r = open_limits(NULL, 0);

    (void)state;
    assert_true(ask_for(r, "shop", "user=ann", T0));
    assert_false(out.statuses[0].limited);
    ration_close(r);
}

static void note_leaf(void *arg, const struct ration_metadata *leaf)
{
    char *text = arg;

    snprintf(text + strlen(text), 100 - strlen(text), "%.*s=%.*s;", (int)leaf->key_len, leaf->key,
             (int)leaf->value_len, leaf->value);
}

static void metadata_is_told(void **state)
{
    struct ration *r = open_rules("domain: d\n"
                                  "descriptors:\n"
                                  "  - key: k\n"
                                  "    rate_limit: {unit: minute, requests_per_unit: 1}\n"
                                  "    metadata: {owner: {team: web}, cost: 7}\n");
    char text[100] = "";
    struct asked a;

    (void)state;
    DESCRIBE(&a, "d", "k=x");
    a.request.metadata = note_leaf;
    a.request.arg = text;
    assert_true(ask(r, &a, T0));
    assert_string_equal(text, "owner.team=web;cost=7;");
    ration_close(r);
}

static void a_queue_delays_and_can_be_left(void **state)
{
    struct ration *r = open_rules("domain: d\n"
                                  "descriptors:\n"
                                  "  - key: k\n"
                                  "    rate_limit: {limit: 10 per second queue 5}\n");
    struct asked a;

    (void)state;
    DESCRIBE(&a, "d", "k=x");
    assert_true(ask(r, &a, T0));
    assert_int_equal(out.delay_ns, 0);
    assert_true(ask(r, &a, T0));
    assert_int_equal(out.delay_ns, SECOND / 10);
    assert_int_equal(ration_descriptors_give_back(r, &out, T0), 0);
    a.asks[0].hits_given = true; /* who only looks does not wait */
    a.request.max_wait_ns = 1;
    assert_true(ask(r, &a, T0));
    assert_int_equal(out.delay_ns, 0);
    a.asks[0].hits_given = false;
    a.request.max_wait_ns = 0;
    assert_true(ask(r, &a, T0));
    assert_int_equal(out.delay_ns, SECOND / 10);
    a.request.max_wait_ns = SECOND / 10;
    assert_false(ask(r, &a, T0)); /* 200 ms are too long */
    a.request.max_wait_ns = SECOND;
    assert_true(ask(r, &a, T0));
    ration_close(r);
}

static void whoever_is_banned_is_refused(void **state)
{
    struct ration *r = open_rules(shop);
    struct ration_attribute attribute = {"user", 4, "ann", 3};
    struct ration_ban ban = {.attributes = &attribute, .count = 1, .reason = "", .reason_len = 0};
    struct asked a;

    (void)state;
    assert_int_equal(ration_ban_set(r, &ban, NULL), 0);
    DESCRIBE(&a, "shop", "route=cart", "user=ann");
    assert_false(ask(r, &a, T0));
    assert_true(out.statuses[1].over);
    assert_false(out.statuses[0].over);
    assert_true(ask_for(r, "shop", "route=cart", T0));
    assert_int_equal(out.statuses[0].remaining, 9);
    ration_close(r);
}

static void a_quota_in_shadow_mode_never_refuses(void **state)
{
    struct ration *r = open_rules("domain: shop\n"
                                  "descriptors:\n"
                                  "  - key: a\n"
                                  "    shadow_mode: true\n"
                                  "    quota_mode: true\n"
                                  "    rate_limit: {unit: hour, requests_per_unit: 1}\n"
                                  "  - key: b\n"
                                  "    quota_mode: true\n"
                                  "    rate_limit: {unit: hour, requests_per_unit: 2}\n");
    struct asked a;

    (void)state;
    DESCRIBE(&a, "shop", "a=1");
    for (int i = 0; i < 3; i++) {
        assert_true(ask(r, &a, T0));
        assert_false(out.statuses[0].over);
    }
    DESCRIBE(&a, "shop", "a=1", "b=1");
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ask(r, &a, T0), i < 2); /* b alone decides */
        assert_false(out.statuses[0].over);
    }
    ration_close(r);
}

static void a_service_in_quota_mode_refuses_when_all_are_over(void **state)
{
    struct ration *r = open_rules(shop);
    struct asked a;

    (void)state;
    DESCRIBE(&a, "shop", "user=ann", "route=cart"); /* 3 and 10 */
    a.request.quota_mode = true;
    for (int i = 0; i < 10; i++)
        assert_true(ask(r, &a, T0));
    assert_true(out.statuses[0].over);
    assert_false(ask(r, &a, T0));
    ration_close(r);
}

struct kept {
    unsigned count;
    char text[64];
};

static void keep_leaf(void *arg, const struct ration_metadata *leaf)
{
    struct kept *kept = arg;

    kept->count++;
    snprintf(kept->text, sizeof kept->text, "%.*s", (int)leaf->value_len, leaf->value);
}

static void metadata_is_that_of_descriptors_that_passed(void **state)
{
    struct ration *r = open_rules("domain: shop\n"
                                  "descriptors:\n"
                                  "  - key: a\n"
                                  "    quota_mode: true\n"
                                  "    metadata: {pool: fast}\n"
                                  "    rate_limit: {unit: hour, requests_per_unit: 1}\n"
                                  "  - key: b\n"
                                  "    quota_mode: true\n"
                                  "    metadata: {pool: slow}\n"
                                  "    rate_limit: {unit: hour, requests_per_unit: 2}\n");
    static const unsigned counts[] = {2, 1, 0};
    struct asked a;

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct kept kept = {0};

        DESCRIBE(&a, "shop", "a=1", "b=1");
        a.request.metadata = keep_leaf;
        a.request.arg = &kept;
        ask(r, &a, T0);
        assert_int_equal(kept.count, counts[i]);
        if (i == 1)
            assert_string_equal(kept.text, "slow");
    }
    ration_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(statuses_are_complete),
        cmocka_unit_test(one_refused_descriptor_charges_no_other),
        cmocka_unit_test(hits_are_the_descriptors_or_the_requests_or_one),
        cmocka_unit_test(a_look_is_over_when_less_than_one_unit_is_left),
        cmocka_unit_test(what_a_stream_has_used_counts_in_full),
        cmocka_unit_test(a_quota_in_shadow_mode_never_refuses),
        cmocka_unit_test(a_service_in_quota_mode_refuses_when_all_are_over),
        cmocka_unit_test(metadata_is_that_of_descriptors_that_passed),
        cmocka_unit_test(what_was_used_is_charged_to_each_descriptor_by_itself),
        cmocka_unit_test(unknown_domains_and_descriptors_have_no_limit),
        cmocka_unit_test(an_unlimited_descriptor_has_the_most_remaining),
        cmocka_unit_test(a_limit_of_nothing_always_refuses),
        cmocka_unit_test(shadow_mode_counts_and_answers_ok),
        cmocka_unit_test(a_service_in_shadow_mode_refuses_nobody),
        cmocka_unit_test(refunds_stop_at_nothing_spent),
        cmocka_unit_test(a_refused_request_refunds_nothing),
        cmocka_unit_test(a_refund_is_no_admission),
        cmocka_unit_test(a_limit_may_come_with_the_descriptor),
        cmocka_unit_test(a_given_limit_of_another_unit_counts_in_the_rules),
        cmocka_unit_test(a_given_limit_needs_no_rule_but_a_domain),
        cmocka_unit_test(named_limits_are_replaced),
        cmocka_unit_test(quotas_refuse_only_together),
        cmocka_unit_test(a_single_quota_refuses),
        cmocka_unit_test(any_other_descriptor_refuses_beside_quotas),
        cmocka_unit_test(the_same_descriptor_twice_is_charged_twice),
        cmocka_unit_test(requests_that_make_no_sense_are_errors),
        cmocka_unit_test(without_rules_everything_is_allowed),
        cmocka_unit_test(metadata_is_told),
        cmocka_unit_test(a_queue_delays_and_can_be_left),
        cmocka_unit_test(whoever_is_banned_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
