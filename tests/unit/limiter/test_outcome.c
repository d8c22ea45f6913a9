/* SPDX-License-Identifier: Apache-2.0 */
/* The outcome of a request under rules: soft limits, delays, priorities,
 * places, answers. */
#include "rules_fixture.h"

#include <stdio.h>
#include <stdlib.h>

/* --- soft limits, throttling, priorities ---------------------------------------------------- */

static void a_soft_limit_admits_a_tenth_more_and_marks_it(void **state)
{
    struct ration *r = open_rules("limits:\n"
                                  "  - { name: s, key: user, limit: 100 per hour, soft: 10% }\n");

    (void)state;
    for (unsigned i = 0; i < 130; i++) {
        struct ration_outcome seen = look(r, "user=ann", T0), out = decide(r, "user=ann", T0);

        assert_int_equal(out.decision.allowed, i < 110);
        assert_int_equal(out.soft, i >= 100 && i < 110);
        assert_int_equal(seen.decision.allowed, out.decision.allowed);
        assert_int_equal(seen.soft, out.soft);
        assert_int_equal(out.decision.verdict.limit, 100);
        assert_int_equal(out.decision.verdict.remaining, i < 100 ? 99 - i : 0);
    }
    ration_close(r);
}

static void throttling_delays_more_and_more_then_refuses(void **state)
{
    struct ration *r = open_rules("limits:\n"
                                  "  - name: t\n"
                                  "    key: user\n"
                                  "    limit: 10 per hour\n"
                                  "    throttle: { from: 50%, max_delay: 2s }\n");

    (void)state;
    for (int i = 1; i <= 10; i++) {
        struct ration_outcome seen = look(r, "user=ann", T0), out = decide(r, "user=ann", T0);
        int64_t expected = i <= 5 ? 0 : (i - 5) * 2 * SECOND / 5;

        assert_true(out.decision.allowed);
        assert_int_equal(out.delay_ns, expected);
        assert_int_equal(out.decision.verdict.delay_ns, expected);
        assert_int_equal(seen.delay_ns, expected);
    }
    struct ration_outcome refused = decide(r, "user=ann", T0);

    assert_false(refused.decision.allowed);
    assert_int_equal(refused.delay_ns, 0);
    ration_close(r);
}

static void throttling_reckons_with_parts_of_a_unit(void **state)
{
    struct ration *r = open_rules("limits:\n"
                                  "  - name: t\n"
                                  "    key: user\n"
                                  "    limit: 10 per 10 seconds\n"
                                  "    throttle: { from: 5 requests, max_delay: 5s }\n");

    (void)state;
    assert_int_equal(admitted(r, "user=ann", 6, T0), 6);
    /* A quarter of a unit has come back: 6.75 are spent. */
    assert_int_equal(look(r, "user=ann", T0 + SECOND / 4).delay_ns, SECOND * 7 / 4);
    assert_int_equal(decide(r, "user=ann", T0 + SECOND / 4).delay_ns, SECOND * 7 / 4);
    ration_close(r);
}

static void throttling_in_requests_counts_whole_units_of_a_window(void **state)
{
    struct ration *r = open_rules("limits:\n"
                                  "  - name: t\n"
                                  "    key: user\n"
                                  "    limit: 4 per hour\n"
                                  "    algorithm: sliding-log\n"
                                  "    throttle: { from: 1 request, max_delay: 3s }\n");

    (void)state;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(look(r, "user=ann", T0 + i).delay_ns, i * SECOND);
        assert_int_equal(decide(r, "user=ann", T0 + i).delay_ns, i * SECOND);
    }
    assert_false(decide(r, "user=ann", T0 + 4).decision.allowed);
    ration_close(r);
}

static void without_max_delay_a_request_waits_for_the_refill_also_above_a_soft_limit(void **state)
{
    struct ration *r = open_rules("limits:\n"
                                  "  - name: t\n"
                                  "    key: user\n"
                                  "    limit: 4 per 6 seconds\n"
                                  "    soft: 50%\n" /* refills one each second */
                                  "    throttle: { from: 50% }\n");

    (void)state;
    for (int i = 1; i <= 6; i++)
        assert_int_equal(decide(r, "user=ann", T0).delay_ns, i <= 2 ? 0 : (i - 2) * SECOND);
    assert_false(decide(r, "user=ann", T0).decision.allowed);
    ration_close(r);
}

/* --- limit_req of nginx ---------------------------------------------------------------------- */

/* What nginx keeps of a key: thousandths of a request above the rate, at a time in ms. */
struct limit_req {
    int64_t rate; /* thousandths of a request per second */
    int64_t burst, delay;
    bool known;
    int64_t excess, last_ms;
};

/* The delay in ms, or -1: refused. */
static int64_t limit_req_ask(struct limit_req *l, int64_t now_ms)
{
    int64_t excess = 0;

    if (l->known)
        excess = l->excess - l->rate * (now_ms - l->last_ms) / 1000 + 1000;
    if (excess < 0)
        excess = 0;
    if (excess > l->burst * 1000)
        return -1;
    l->known = true;
    l->excess = excess;
    l->last_ms = now_ms;
    return excess <= l->delay * 1000 ? 0 : (excess - l->delay * 1000) * 1000 / l->rate;
}

/* The same requests, at random times, to nginx's arithmetic and to a rule. */
static void compare_with_limit_req(struct limit_req l, const char *rule)
{
    struct ration *r = open_rules(rule);
    unsigned delayed = 0, refused = 0;
    int64_t at_ms = 0;

    for (unsigned i = 0; i < 2000; i++) {
        at_ms += rand() % 3 == 0 ? rand() % (3000000 / (int)l.rate) : 0;
        int64_t expected = limit_req_ask(&l, at_ms);
        struct ration_outcome out = decide(r, "user=ann", T0 + at_ms * SECOND / 1000);

        assert_int_equal(out.decision.allowed, expected >= 0);
        assert_int_equal(out.delay_ns, expected > 0 ? expected * SECOND / 1000 : 0);
        delayed += expected > 0;
        refused += expected < 0;
    }
    assert_true(refused > 200);
    assert_true(l.delay >= l.burst || delayed > 200);
    ration_close(r);
}

/* Rates at which nginx's milliseconds and thousandths have no rests. */
static void a_limit_req_has_a_rule_that_decides_and_delays_the_same(void **state)
{
    (void)state;
    srand(24);
    compare_with_limit_req((struct limit_req){.rate = 10000, .burst = 5, .delay = 2},
                           "limits: [{ name: t, key: user, limit: 10 per second burst 6,\n"
                           "           throttle: { from: 3 requests } }]\n");
    compare_with_limit_req((struct limit_req){.rate = 5000, .burst = 20, .delay = 8},
                           "limits: [{ name: t, key: user, limit: 5 per second burst 21,\n"
                           "           throttle: { from: 9 requests } }]\n");
    compare_with_limit_req((struct limit_req){.rate = 10000, .burst = 5, .delay = 2},
                           "limits: [{ name: t, key: user, limit: 10 per second burst 6,\n"
                           "           throttle: { from: 3 requests, max_delay: 300ms } }]\n");
    compare_with_limit_req((struct limit_req){.rate = 10000, .burst = 5},
                           "limits: [{ name: t, key: user, limit: 10 per second queue 5 }]\n");
    compare_with_limit_req((struct limit_req){.rate = 10000, .burst = 5, .delay = 5},
                           "limits: [{ name: t, key: user, limit: 10 per second burst 6 }]\n");
    compare_with_limit_req((struct limit_req){.rate = 10000},
                           "limits: [{ name: t, key: user, limit: 10 per second burst 1 }]\n");
}

static void lower_priorities_are_refused_first(void **state)
{
    struct ration *r = open_rules("limits:\n"
                                  "  - name: p\n"
                                  "    key: none\n"
                                  "    limit: 100 per hour\n"
                                  "    priority:\n"
                                  "      by: importance\n"
                                  "      levels: { critical: 0%, normal: 20%, low: 50% }\n"
                                  "      default: normal\n");
    struct ration_outcome out;

    (void)state;
    assert_int_equal(left_of(r, "p", "importance=low", T0), 50);
    assert_int_equal(admitted(r, "importance=low", 200, T0), 50);
    out = decide(r, "importance=low", T0);
    assert_false(out.decision.allowed);
    assert_int_equal(out.decision.verdict.remaining, 0);
    assert_int_equal(out.decision.verdict.retry_after_ns, 36 * SECOND);
    assert_int_equal(admitted(r, "x=y", 200, T0), 30);
    assert_int_equal(admitted(r, "importance=critical", 200, T0), 20);
    /* Time frees what the more important may use first. */
    assert_int_equal(admitted(r, "importance=low", 5, T0 + 36 * SECOND), 0);
    assert_int_equal(admitted(r, "importance=critical", 5, T0 + 36 * SECOND), 1);
    ration_close(r);
}

static void a_queue_delays_and_a_wait_too_long_is_a_refusal(void **state)
{
    struct ration *r = open_rules("limits:\n"
                                  "  - name: q\n"
                                  "    key: user\n"
                                  "    limit: 1 per second queue 50\n"
                                  "    wait: hold\n"
                                  "    max_wait: 3s\n");
    struct ration_outcome out;

    (void)state;
    assert_int_equal(decide(r, "user=ann", T0).delay_ns, 0);
    out = decide(r, "user=ann", T0);
    assert_int_equal(out.delay_ns, SECOND);
    assert_true(out.hold);
    assert_int_equal(admitted(r, "user=ann", 10, T0), 2);
    out = decide(r, "user=ann", T0);
    assert_false(out.decision.allowed);
    assert_int_equal(out.decision.verdict.retry_after_ns, SECOND);
    assert_int_equal(decide(r, "user=ann", T0 + SECOND).delay_ns, 3 * SECOND);
    ration_close(r);
}

/* --- concurrency -------------------------------------------------------------------------------
 */

static void a_concurrency_rule_holds_a_place_until_released(void **state)
{
    struct ration *r = open_rules("limits:\n"
                                  "  - { name: c, key: user, limit: 2 concurrent }\n"
                                  "  - { name: n, key: user, limit: 100 per hour }\n");
    struct ration_outcome first = decide(r, "user=ann", T0), second = decide(r, "user=ann", T0);

    (void)state;
    assert_true(first.decision.allowed && second.decision.allowed);
    assert_true(first.lease != 0 && second.lease != 0 && first.lease != second.lease);
    struct ration_outcome third = decide(r, "user=ann", T0);

    assert_false(third.decision.allowed);
    assert_string_equal(third.rule, "c");
    assert_int_equal(third.lease, 0);
    assert_int_equal(left_of(r, "n", "user=ann", T0), 98);
    assert_int_equal(ration_outcome_release(r, &first, T0), 0);
    assert_int_equal(ration_outcome_release(r, &first, T0), 0); /* holds nothing any more */
    third = decide(r, "user=ann", T0);
    assert_true(third.decision.allowed);
    /* A place frees itself after its lease. */
    assert_int_equal(ration_outcome_release(r, &second, T0 + 61 * SECOND), RATION_EGONE);
    assert_int_equal(admitted(r, "user=ann", 5, T0 + 61 * SECOND), 2);
    ration_close(r);
}

static void a_place_is_given_back_when_another_rule_refuses(void **state)
{
    struct ration *r = open_rules("limits:\n"
                                  "  - { name: c, key: user, limit: 9 concurrent }\n"
                                  "  - { name: n, key: none, limit: 1 per hour }\n");

    (void)state;
    assert_int_equal(admitted(r, "user=ann", 5, T0), 1);
    assert_int_equal(left_of(r, "c", "user=ann", T0), 8);
    ration_close(r);
}

/* --- answers ------------------------------------------------------------------------------------
 */

static void the_deciding_rule_says_how_to_answer(void **state)
{
    struct ration *r = open_rules("limits:\n"
                                  "  - { name: wide, key: ip, limit: 100 per hour }\n"
                                  "  - name: narrow\n"
                                  "    key: ip\n"
                                  "    limit: 1 per hour\n"
                                  "    response: { status: 503, headers: ietf, message: Later }\n");
    struct ration_outcome out;

    (void)state;
    assert_int_equal(admitted(r, "ip=192.0.2.1", 2, T0), 1);
    out = decide(r, "ip=192.0.2.1", T0);
    assert_string_equal(out.rule, "narrow");
    assert_int_equal(out.status, 503);
    assert_int_equal(out.headers, RATION_HEADERS_IETF);
    assert_string_equal(out.message, "Later");
    assert_int_equal(out.decision.decided_by, 1);
    assert_string_equal(out.limits[1].rule, "narrow");
    assert_int_equal(out.limits[1].period_ns, 3600 * SECOND);
    ration_close(r);
}

/* Seventeen limits and more: the decisive one is listed all the same. */
static void the_decisive_limit_is_always_listed(void **state)
{
    char text[4096] = "limits:\n";
    struct ration *r;

    (void)state;
    for (unsigned i = 0; i < 30; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text),
                 "  - { name: r%u, key: ip, limit: %u per hour }\n", i, i == 25 ? 3 : 50);
    r = open_rules(text);
    struct ration_outcome out = decide(r, "ip=192.0.2.1", T0);

    assert_int_equal(out.limit_count, 30);
    assert_int_equal(out.listed, RATION_OUTCOME_LIMITS);
    assert_string_equal(out.rule, "r25");
    assert_string_equal(out.limits[out.decision.decided_by].rule, "r25");
    assert_int_equal(out.limits[out.decision.decided_by].verdict.remaining, 2);
    ration_close(r);
}

static void more_limits_than_can_be_charged_are_an_error(void **state)
{
    char text[8192] = "limits:\n";
    struct ration *r;
    struct words w;
    struct ration_outcome out = {.status = 7};
    struct ration_totals totals;

    (void)state;
    for (unsigned i = 0; i < 40; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text),
                 "  - { name: r%u, key: ip, limit: [50 per hour, 9 per minute] }\n", i);
    r = open_rules(text);
    split_words(&w, "ip=192.0.2.1");
    assert_int_equal(ration_decide(r, &w.request, T0, &out), RATION_EINVAL);
    assert_int_equal(out.status, 7);
    ration_totals(r, &totals);
    assert_int_equal(totals.errors, 1);
    ration_close(r);
}

static void refused_keys_are_listed_by_name(void **state)
{
    struct ration *r = open_rules("limits:\n"
                                  "  - { name: a, key: [user, path], limit: 1 per hour }\n");
    struct ration_top top[4];

    (void)state;
    admitted(r, "user=ann path=/x", 5, T0);
    assert_int_equal(ration_top(r, top, 4), 1);
    assert_string_equal(top[0].name, "ann /x");
    assert_int_equal(top[0].refused, 4);
    ration_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_soft_limit_admits_a_tenth_more_and_marks_it),
        cmocka_unit_test(throttling_delays_more_and_more_then_refuses),
        cmocka_unit_test(throttling_reckons_with_parts_of_a_unit),
        cmocka_unit_test(throttling_in_requests_counts_whole_units_of_a_window),
        cmocka_unit_test(without_max_delay_a_request_waits_for_the_refill_also_above_a_soft_limit),
        cmocka_unit_test(a_limit_req_has_a_rule_that_decides_and_delays_the_same),
        cmocka_unit_test(lower_priorities_are_refused_first),
        cmocka_unit_test(a_queue_delays_and_a_wait_too_long_is_a_refusal),
        cmocka_unit_test(a_concurrency_rule_holds_a_place_until_released),
        cmocka_unit_test(a_place_is_given_back_when_another_rule_refuses),
        cmocka_unit_test(the_deciding_rule_says_how_to_answer),
        cmocka_unit_test(the_decisive_limit_is_always_listed),
        cmocka_unit_test(more_limits_than_can_be_charged_are_an_error),
        cmocka_unit_test(refused_keys_are_listed_by_name),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
