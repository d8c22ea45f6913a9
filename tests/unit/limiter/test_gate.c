/* SPDX-License-Identifier: Apache-2.0 */
/* Requests under rules that wait in line: who goes when, and what is counted. */
#include "hall_fixture.h"

#include <ration/clients.h>

#include "limiter/line/gate.h"

/* Two of each at once, about five in a second. */
static const char *const rate_rules[] = {
    "limits: [{name: a, key: user, limit: 5 per second burst 2, queue: 50}]",
    "limits: [{name: a, key: user, limit: 2 per 400ms, algorithm: fixed-window, queue: 50}]",
    "limits: [{name: a, key: user, limit: 2 per 400ms, algorithm: sliding-window, queue: 50}]",
    "limits: [{name: a, key: user, limit: 2 per 400ms, algorithm: sliding-log, queue: 50}]",
};

static void every_algorithm_admits_in_order_of_arrival(void **state)
{
    static struct call calls[12];

    (void)state;
    for (size_t i = 0; i < COUNT(rate_rules); i++) {
        struct hall h;

        hall_open_rules(&h, rate_rules[i]);
        for (unsigned n = 0; n < COUNT(calls); n++)
            assert_int_equal(arrive(&calls[n], &h, n, "user=ann"), n < 2 ? 0 : RATION_EWAITS);
        pass(&h, 5 * SECOND);
        assert_int_equal(h.admitted, COUNT(calls));
        for (unsigned n = 0; n < COUNT(calls); n++) {
            assert_int_equal(h.order[n], n);
            assert_int_equal(calls[n].out.waited_ns, n < 2 ? 0 : calls[n].done_ns - T0);
            assert_false(calls[n].out.in_line);
        }
        assert_int_equal(totals_of(&h).waiting, 0);
        assert_int_equal(totals_of(&h).admitted, COUNT(calls) - 2);
        hall_close(&h);
    }
}

static void a_bucket_lets_each_in_when_its_unit_is_there(void **state)
{
    struct hall h;
    struct call calls[4];

    (void)state;
    hall_open_rules(&h, rate_rules[0]);
    for (unsigned n = 0; n < COUNT(calls); n++)
        arrive(&calls[n], &h, n, "user=ann");
    pass(&h, SECOND);
    assert_int_equal(calls[2].done_ns, T0 + 200 * MS);
    assert_int_equal(calls[3].done_ns, T0 + 400 * MS);
    hall_close(&h);
}

static void places_are_waited_for_until_they_are_released(void **state)
{
    struct hall h;
    struct call calls[4];

    (void)state;
    hall_open_rules(&h, "limits: [{name: a, key: user, limit: 2 concurrent, queue: 9}]");
    for (unsigned n = 0; n < COUNT(calls); n++)
        arrive(&calls[n], &h, n, "user=ann");
    pass(&h, SECOND);
    assert_int_equal(h.admitted, 2);
    assert_int_equal(ration_outcome_release(h.r, &calls[0].out, h.now_ns), 0);
    pass(&h, 0);
    assert_int_equal(h.admitted, 3);
    assert_int_equal(h.order[2], 2);
    assert_int_equal(calls[3].code, RATION_EWAITS);
    assert_int_equal(ration_outcome_release(h.r, &calls[1].out, h.now_ns), 0);
    pass(&h, 0);
    assert_int_equal(h.order[3], 3);
    hall_close(&h);
}

/* A queue of its own tells a delay; more wait in line for room in it. */
static void a_line_before_a_leaky_bucket_counts_its_delay(void **state)
{
    struct hall h;
    struct call calls[8];

    (void)state;
    hall_open_rules(&h, "limits: [{name: a, key: user, limit: 10 per second queue 3,"
                        " queue: {size: 9, max_wait: 550ms}}]");
    for (unsigned n = 0; n < COUNT(calls); n++)
        arrive(&calls[n], &h, n, "user=ann");
    pass(&h, SECOND);
    for (unsigned n = 0; n < COUNT(calls); n++) {
        if (!calls[n].out.decision.allowed)
            continue;
        assert_true(calls[n].out.waited_ns + calls[n].out.delay_ns <= 550 * MS);
        assert_int_equal(calls[n].done_ns + calls[n].out.delay_ns, T0 + n * 100 * MS);
    }
    assert_int_equal(h.admitted, 6);
    for (unsigned n = 6; n < COUNT(calls); n++) { /* that would be 600 ms and more */
        assert_false(calls[n].out.decision.allowed);
        assert_int_equal(calls[n].asked, 1);
    }
    hall_close(&h);
}

/* --- who is refused ---------------------------------------------------------------------- */

static void one_that_could_not_have_its_turn_in_time_is_refused_at_once(void **state)
{
    struct hall h;
    struct call calls[6];

    (void)state;
    hall_open_rules(&h, "limits: [{name: a, key: user, limit: 5 per second burst 1,"
                        " queue: {max_wait: 500ms}}]");
    for (unsigned n = 0; n < COUNT(calls); n++)
        arrive(&calls[n], &h, n, "user=ann");
    assert_int_equal(calls[2].code, RATION_EWAITS);
    assert_int_equal(calls[3].code, 0); /* 600 ms */
    assert_true(calls[3].out.in_line);
    assert_int_equal(calls[3].out.waited_ns, 0);
    assert_int_equal(calls[3].out.decision.verdict.retry_after_ns, 600 * MS);
    assert_string_equal(calls[3].out.rule, "a");
    pass(&h, SECOND);
    assert_int_equal(h.admitted, 3);
    assert_int_equal(totals_of(&h).refused_late, 3);
    hall_close(&h);
}

/* -20 s are what is left of a deadline that has passed. */
static void a_deadline_that_has_passed_leaves_no_time_to_wait(void **state)
{
    static const int64_t passed_ns[] = {-1, -20 * SECOND, INT64_MIN};
    struct hall h;
    struct call call;

    (void)state;
    hall_open_rules(&h, "limits: [{name: a, key: user, limit: 1 per second, queue: 9}]");
    assert_true(decide(h.r, "user=ann", h.now_ns).decision.allowed);
    for (unsigned i = 0; i < COUNT(passed_ns); i++) {
        call_init(&call, &h, 0, "user=ann");
        call.words.request.max_wait_ns = passed_ns[i];
        assert_int_equal(ask_call(&call), 0);
        assert_false(call.out.decision.allowed);
    }
    call_init(&call, &h, 0, "user=bob"); /* who need not wait */
    call.words.request.max_wait_ns = -1;
    assert_int_equal(ask_call(&call), 0);
    assert_true(call.out.decision.allowed);
    hall_close(&h);
}

static void a_full_line_refuses(void **state)
{
    struct hall h;
    struct call calls[5];

    (void)state;
    hall_open_rules(&h, "limits: [{name: a, key: user, limit: 1 per second, queue: 2}]");
    for (unsigned n = 0; n < COUNT(calls); n++)
        arrive(&calls[n], &h, n, "user=ann");
    assert_int_equal(calls[2].code, RATION_EWAITS);
    assert_int_equal(calls[3].code, 0);
    assert_true(calls[3].out.in_line);
    assert_false(calls[3].out.decision.allowed);
    assert_int_equal(totals_of(&h).refused_full, 2);
    pass(&h, 3 * SECOND);
    assert_int_equal(h.admitted, 3);
    hall_close(&h);
}

static void without_a_waiter_nobody_waits_and_nobody_overtakes(void **state)
{
    struct hall h;
    struct call calls[2];
    struct ration_outcome out;

    (void)state;
    hall_open_rules(
        &h, "limits: [{name: a, key: user, limit: 10 per second burst 2, cost: {attribute: n},"
            " queue: 9}]");
    assert_true(decide(h.r, "user=ann n=1", h.now_ns).decision.allowed);
    arrive(&calls[0], &h, 0, "user=ann n=2");
    assert_int_equal(calls[0].code, RATION_EWAITS);
    out = decide(h.r, "user=ann n=1", h.now_ns); /* it would fit */
    assert_false(out.decision.allowed);
    assert_true(out.in_line);
    assert_int_equal(out.listed, 1);
    assert_string_equal(out.rule, "a");
    assert_in_range(out.decision.verdict.retry_after_ns, 1, SECOND);
    assert_true(decide(h.r, "user=bob n=1", h.now_ns).decision.allowed);
    assert_int_equal(arrive(&calls[1], &h, 1, "user=ann n=1"), RATION_EWAITS);
    pass(&h, SECOND);
    assert_int_equal(h.admitted, 2);
    assert_int_equal(h.order[0], 0);
    assert_int_equal(h.order[1], 1);
    assert_true(decide(h.r, "user=ann n=1", h.now_ns).decision.allowed);
    hall_close(&h);
}

/* The fast path: no rule has a line, but a caller would wait. */
static void a_caller_may_wait_where_no_rule_has_a_line(void **state)
{
    struct hall h;
    struct call call;
    struct ration_outcome out;

    (void)state;
    hall_open_rules(&h, "limits: [{name: a, key: user, limit: 1 per second}]");
    assert_true(decide(h.r, "user=ann", h.now_ns).decision.allowed);
    call_init(&call, &h, 0, "user=ann");
    ask_call(&call); /* as the rules say: not at all */
    assert_int_equal(call.code, 0);
    assert_false(call.out.decision.allowed);
    assert_false(call.out.in_line);
    call_init(&call, &h, 0, "user=ann");
    call.words.request.max_wait_ns = 2 * SECOND;
    ask_call(&call);
    assert_int_equal(call.code, RATION_EWAITS);
    h.now_ns += SECOND - 1; /* nobody has run the waiters yet */
    assert_true(decide(h.r, "user=ann", h.now_ns + 1).in_line);
    out = look(h.r, "user=ann", h.now_ns + 1); /* the limit has room, but not for a newcomer */
    assert_false(out.decision.allowed);
    assert_true(out.in_line);
    assert_true(out.decision.verdict.retry_after_ns > 0);
    assert_int_equal(out.decision.verdict.remaining, 1);
    pass(&h, SECOND);
    assert_int_equal(h.admitted, 1);
    hall_close(&h);
}

static void time_over_refuses_and_asks_no_limit(void **state)
{
    struct hall h;
    struct call calls[3];

    (void)state;
    hall_open_rules(&h, "limits: [{name: a, key: user, limit: 2 concurrent,"
                        " queue: {max_wait: 300ms}}]");
    arrive(&calls[0], &h, 0, "user=ann");
    arrive(&calls[1], &h, 1, "user=ann");
    assert_int_equal(arrive(&calls[2], &h, 2, "user=ann"), RATION_EWAITS);
    pass(&h, SECOND);
    assert_int_equal(calls[2].code, 0);
    assert_false(calls[2].out.decision.allowed);
    assert_true(calls[2].out.in_line);
    assert_int_equal(calls[2].out.waited_ns, 300 * MS);
    assert_int_equal(calls[2].done_ns, T0 + 300 * MS);
    assert_int_equal(calls[2].out.listed, 1);
    assert_true(calls[2].out.decision.verdict.retry_after_ns > 0);
    assert_int_equal(totals_of(&h).timed_out, 1);
    hall_close(&h);
}

static void what_time_does_not_cure_never_waits(void **state)
{
    struct hall h;
    struct call call;

    (void)state;
    hall_open_rules(
        &h, "limits:\n"
            "  - {name: a, key: user, limit: 2 per second, cost: {attribute: n}, queue: 9}\n"
            "  - {name: b, key: user, limit: 1 per second, mode: shadow, queue: 9}\n"
            "deny: [{user: eve}]\n");
    assert_int_equal(arrive(&call, &h, 0, "user=ann n=3"), 0); /* never fits */
    assert_int_equal(call.out.decision.verdict.retry_after_ns, RATION_NEVER);
    assert_false(call.out.in_line);
    assert_int_equal(arrive(&call, &h, 0, "user=eve n=1"), 0);
    assert_int_equal(call.out.kind, RATION_BY_DENY_LIST);
    for (unsigned n = 0; n < 2; n++)
        assert_int_equal(arrive(&call, &h, n, "user=ann n=1"), 0);
    assert_true(call.out.shadow_refused);
    call_init(&call, &h, 0, "user=ann n=1");
    call.words.request.shadow = true;
    ask_call(&call);
    assert_int_equal(call.code, 0);
    assert_true(call.out.decision.allowed);
    call_init(&call, &h, 0, "user=ann n=1");
    assert_int_equal(ration_decide_peek(h.r, &call.words.request, h.now_ns, &call.out), 0);
    assert_false(call.out.decision.allowed);
    assert_int_equal(totals_of(&h).joined, 0);
    hall_close(&h);
}

static void one_that_leaves_is_not_charged(void **state)
{
    struct hall h;
    struct call calls[3];

    (void)state;
    hall_open_rules(&h, "limits: [{name: a, key: user, limit: 1 per second, queue: 9}]");
    for (unsigned n = 0; n < COUNT(calls); n++)
        arrive(&calls[n], &h, n, "user=ann");
    ration_waiter_leave(&calls[1].waiter);
    pass(&h, SECOND);
    assert_int_equal(h.admitted, 2);
    assert_int_equal(h.order[1], 2);
    pass(&h, SECOND);
    assert_int_equal(left_of(h.r, "a", "user=ann", h.now_ns), 1);
    assert_int_equal(totals_of(&h).left, 1);
    hall_close(&h);
}

/* --- order -------------------------------------------------------------------------------- */

#define LEVELS "priority: {by: rank, levels: {high: 0%, low: 50%}, default: low}"

static void a_higher_priority_comes_first(void **state)
{
    static const unsigned expected[] = {3, 4, 1, 2};
    struct hall h;
    struct call calls[5];

    (void)state;
    hall_open_rules(&h,
                    "limits: [{name: a, key: user, limit: 2 per second, " LEVELS ", queue: 9}]");
    assert_true(decide(h.r, "user=ann rank=high", h.now_ns).decision.allowed);
    assert_true(decide(h.r, "user=ann rank=high", h.now_ns).decision.allowed);
    arrive(&calls[1], &h, 1, "user=ann rank=low");
    arrive(&calls[2], &h, 2, "user=ann rank=low");
    arrive(&calls[3], &h, 3, "user=ann rank=high");
    arrive(&calls[4], &h, 4, "user=ann rank=high");
    pass(&h, 5 * SECOND);
    assert_int_equal(h.admitted, 4);
    for (unsigned n = 0; n < 4; n++)
        assert_int_equal(h.order[n], expected[n]);
    hall_close(&h);
}

static void by_arrival_a_priority_does_not_matter(void **state)
{
    struct hall h;
    struct call calls[4];

    (void)state;
    hall_open_rules(&h, "limits: [{name: a, key: user, limit: 2 per second, " LEVELS
                        ", queue: {by: arrival}}]");
    assert_int_equal(admitted(h.r, "user=ann rank=high", 2, h.now_ns), 2);
    for (unsigned n = 0; n < COUNT(calls); n++)
        arrive(&calls[n], &h, n, n % 2 == 0 ? "user=ann rank=low" : "user=ann rank=high");
    pass(&h, 5 * SECOND);
    assert_int_equal(h.admitted, 4);
    for (unsigned n = 0; n < 4; n++)
        assert_int_equal(h.order[n], n);
    hall_close(&h);
}

static void under_several_limits_a_request_moves_with_its_arrival(void **state)
{
    struct hall h;
    struct call calls[4];

    (void)state;
    hall_open_rules(&h, "limits:\n"
                        "  - {name: slow, key: user, limit: 1 per second, queue: 9}\n"
                        "  - {name: all, key: site, limit: 4 per second burst 1, queue: 9}\n");
    assert_true(decide(h.r, "user=ann site=x", h.now_ns).decision.allowed);
    arrive(&calls[0], &h, 0, "user=ann site=x"); /* in the line of slow: 1 s */
    arrive(&calls[1], &h, 1, "user=bob site=x"); /* of all: 250 ms */
    pass(&h, 900 * MS);
    assert_int_equal(h.admitted, 1);
    arrive(&calls[2], &h, 2, "user=cid site=x"); /* takes what `all` has just got back */
    assert_int_equal(calls[2].code, 0);
    arrive(&calls[3], &h, 3, "user=dan site=x"); /* in the line of all, until 1150 ms */
    assert_int_equal(calls[3].code, RATION_EWAITS);
    pass(&h, 150 * MS); /* 0 has its turn, moves to the line of all, before 3 */
    assert_int_equal(calls[0].code, RATION_EWAITS);
    assert_int_equal(calls[0].asked, 2);
    pass(&h, 2 * SECOND);
    assert_int_equal(h.admitted, 4);
    assert_int_equal(h.order[2], 0);
    assert_int_equal(h.order[3], 3);
    assert_int_equal(calls[0].done_ns, T0 + 1150 * MS);
    hall_close(&h);
}

/* A limit without a line refuses, whatever others would do. */
static void all_limits_that_refuse_must_let_wait(void **state)
{
    struct hall h;
    struct call call;

    (void)state;
    hall_open_rules(&h, "limits:\n"
                        "  - {name: a, key: user, limit: 1 per second, queue: 9}\n"
                        "  - {name: b, key: user, limit: 1 per second}\n");
    assert_true(decide(h.r, "user=ann", h.now_ns).decision.allowed);
    assert_int_equal(arrive(&call, &h, 0, "user=ann"), 0);
    assert_false(call.out.decision.allowed);
    assert_int_equal(totals_of(&h).joined, 0);
    hall_close(&h);
}

/* --- counting ------------------------------------------------------------------------------ */

static void a_wait_is_counted_once_when_it_has_ended(void **state)
{
    struct hall h;
    struct call calls[4];
    struct ration_totals totals, rule;

    (void)state;
    hall_open_rules(&h, "limits: [{name: a, key: user, limit: 2 per second burst 1,"
                        " queue: {max_wait: 1s}}]");
    for (unsigned n = 0; n < 3; n++)
        arrive(&calls[n], &h, n, "user=ann");
    ration_totals(h.r, &totals);
    assert_int_equal(totals.allowed, 1);
    assert_int_equal(totals.refused, 0);
    pass(&h, 600 * MS);
    arrive(&calls[3], &h, 3, "user=ann");
    assert_int_equal(calls[3].code, RATION_EWAITS);
    assert_int_equal(ration_state_set_remaining(h.r, &calls[3].words.request, "a", 1, 0, h.now_ns),
                     0); /* an operator takes away what 2 waits for: its time will not do */
    pass(&h, 3 * SECOND);
    ration_totals(h.r, &totals);
    assert_int_equal(ration_rule_totals(h.r, "a", 1, &rule), 0);
    assert_int_equal(totals.allowed + totals.refused, 4);
    assert_int_equal(rule.allowed + rule.refused, 4);
    assert_int_equal(totals.waited + totals.wait_timeouts, 3);
    assert_int_equal(rule.waited, totals.waited);
    assert_int_equal(rule.wait_timeouts, totals.wait_timeouts);
    assert_true(totals.wait_timeouts > 0);
    hall_close(&h);
}

static void waiting_is_no_offence(void **state)
{
    struct hall h;
    struct call calls[9];

    (void)state;
    hall_open_rules(&h, "limits: [{name: a, key: user, limit: 2 per second, queue: 5,\n"
                        "  escalate: {after: 4 refusals within 1m, ban: 1m}}]");
    for (unsigned n = 0; n < 7; n++)
        arrive(&calls[n], &h, n, "user=ann"); /* 5 wait */
    pass(&h, 5 * SECOND);
    assert_int_equal(h.admitted, 7);
    for (unsigned n = 0; n < 9; n++)
        arrive(&calls[n], &h, n, "user=ann"); /* 2 find the line full */
    pass(&h, 5 * SECOND);
    assert_int_equal(h.admitted, 14);
    for (unsigned n = 0; n < 9; n++)
        arrive(&calls[n], &h, n, "user=ann"); /* 2 more: the fourth refusal */
    assert_int_equal(decide(h.r, "user=ann", h.now_ns).kind, RATION_BY_ESCALATION);
    pass(&h, SECOND); /* those in line are refused by the ban, and that ends their wait */
    assert_int_equal(calls[3].code, 0);
    assert_int_equal(calls[3].out.kind, RATION_BY_ESCALATION);
    assert_true(calls[3].out.waited_ns > 0);
    pass(&h, 5 * SECOND);
    assert_int_equal(totals_of(&h).waiting, 0);
    hall_close(&h);
}

/* --- changes -------------------------------------------------------------------------------- */

#define HOURLY "limits: [{name: a, key: user, limit: 1 per hour, queue: {max_wait: 1h}}]"

/* One has the only unit, and one waits for an hour. */
static void one_waits(struct hall *h, struct call calls[2])
{
    hall_open_rules(h, HOURLY);
    assert_int_equal(arrive(&calls[0], h, 0, "user=ann"), 0);
    assert_int_equal(arrive(&calls[1], h, 1, "user=ann"), RATION_EWAITS);
    pass(h, SECOND);
    assert_int_equal(h->admitted, 1);
}

static void the_next_goes_ahead_when_units_come_back(void **state)
{
    struct hall h;
    struct call calls[2];

    (void)state;
    one_waits(&h, calls);
    assert_int_equal(ration_outcome_give_back(h.r, &calls[0].out, h.now_ns), 0);
    pass(&h, 0);
    assert_int_equal(h.admitted, 2);
    hall_close(&h);
    one_waits(&h, calls);
    assert_int_equal(ration_state_reset(h.r, &calls[0].words.request, NULL, 0, h.now_ns, NULL), 0);
    pass(&h, 0);
    assert_int_equal(h.admitted, 2);
    hall_close(&h);
    one_waits(&h, calls);
    assert_int_equal(ration_state_adjust(h.r, &calls[0].words.request, NULL, 0, -1, h.now_ns), 0);
    pass(&h, 0);
    assert_int_equal(h.admitted, 2);
    hall_close(&h);
    one_waits(&h, calls);
    assert_int_equal(ration_state_set_remaining(h.r, &calls[0].words.request, NULL, 0, 1, h.now_ns),
                     0);
    pass(&h, 0);
    assert_int_equal(h.admitted, 2);
    hall_close(&h);
}

static void the_next_goes_ahead_when_the_limit_changes(void **state)
{
    struct hall h;
    struct call calls[2];
    struct ration_override o = {.rule = "a", .rule_len = 1, .limit = "unlimited", .limit_len = 9};

    (void)state;
    one_waits(&h, calls);
    rules_at(h.r, "limits: [{name: b, key: user, limit: 1 per hour, queue: 9}]", h.now_ns);
    pass(&h, 0);
    assert_int_equal(h.admitted, 2);
    assert_int_equal(calls[1].out.waited_ns, SECOND);
    hall_close(&h);
    one_waits(&h, calls);
    o.attributes = calls[0].words.attributes;
    o.count = 1;
    assert_int_equal(rn_clients_set(h.r, &o, false, h.now_ns, NULL), 0);
    pass(&h, 0);
    assert_int_equal(h.admitted, 2);
    hall_close(&h);
    one_waits(&h, calls);
    ration_shadow_set(h.r, true);
    rn_gate_poke_all(h.r, h.now_ns); /* that was done, but at the time of the clock */
    pass(&h, 0);
    assert_int_equal(h.admitted, 2);
    assert_true(calls[1].out.shadow_refused);
    hall_close(&h);
}

/* --- misuse ---------------------------------------------------------------------------------- */

static void asking_before_its_turn_changes_nothing(void **state)
{
    struct hall h;
    struct call calls[2];

    (void)state;
    one_waits(&h, calls);
    ask_call(&calls[1]);
    assert_int_equal(calls[1].code, RATION_EWAITS);
    assert_int_equal(totals_of(&h).joined, 1);
    ration_waiter_leave(&calls[1].waiter);
    hall_close(&h);
}

static void a_waiter_without_a_thread_or_a_turn_is_an_error(void **state)
{
    struct hall h;
    struct call calls[3];

    (void)state;
    hall_open_rules(&h, HOURLY);
    assert_int_equal(arrive(&calls[0], &h, 0, "user=ann"), 0);
    call_init(&calls[1], &h, 1, "user=ann");
    calls[1].waiter.waiting = NULL;
    ask_call(&calls[1]);
    assert_int_equal(calls[1].code, RATION_EINVAL);
    call_init(&calls[2], &h, 2, "user=ann");
    calls[2].waiter.turn = NULL;
    ask_call(&calls[2]);
    assert_int_equal(calls[2].code, RATION_EINVAL);
    assert_int_equal(totals_of(&h).joined, 0);
    hall_close(&h);
}

static void an_error_ends_the_turn(void **state)
{
    struct hall h;
    struct call calls[3];

    (void)state;
    hall_open_rules(&h, "limits: [{name: a, key: user, limit: 1 per second, queue: 9}]");
    for (unsigned n = 0; n < COUNT(calls); n++)
        arrive(&calls[n], &h, n, "user=ann");
    calls[1].words.request.drain = true; /* not what it asked for, but it is its turn */
    pass(&h, 3 * SECOND);
    assert_int_equal(calls[2].code, 0);
    assert_int_equal(totals_of(&h).waiting, 0);
    hall_close(&h);
}

static void the_line_can_be_looked_at(void **state)
{
    struct hall h;
    struct call calls[4];
    struct ration_line line;

    (void)state;
    hall_open_rules(&h, "limits:\n"
                        "  - {name: a, key: user, limit: 1 per second, queue: 9}\n"
                        "  - {name: b, when: {path: /b}, limit: 9 per second}\n");
    for (unsigned n = 0; n < COUNT(calls); n++)
        arrive(&calls[n], &h, n, "user=ann");
    struct ration_request *request = &calls[0].words.request;

    assert_int_equal(ration_line(h.r, request, NULL, 0, h.now_ns, &line), 0);
    assert_int_equal(line.waiting, 3);
    assert_int_equal(line.ahead, 3);
    assert_int_equal(line.opens_after_ns, SECOND);
    assert_int_equal(line.wait_at_least_ns, 4 * SECOND);
    assert_int_equal(ration_line(h.r, request, "a", 1, h.now_ns, &line), 0);
    assert_int_equal(line.waiting, 3);
    assert_int_equal(ration_line(h.r, request, "b", 1, h.now_ns, &line), RATION_EUNMATCHED);
    assert_int_equal(ration_line(h.r, request, "c", 1, h.now_ns, &line), RATION_ENORULE);
    pass(&h, 3 * SECOND);
    assert_int_equal(ration_line(h.r, request, NULL, 0, h.now_ns, &line), 0);
    assert_int_equal(line.waiting, 0);
    hall_close(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_algorithm_admits_in_order_of_arrival),
        cmocka_unit_test(a_bucket_lets_each_in_when_its_unit_is_there),
        cmocka_unit_test(places_are_waited_for_until_they_are_released),
        cmocka_unit_test(a_line_before_a_leaky_bucket_counts_its_delay),
        cmocka_unit_test(one_that_could_not_have_its_turn_in_time_is_refused_at_once),
        cmocka_unit_test(a_deadline_that_has_passed_leaves_no_time_to_wait),
        cmocka_unit_test(a_full_line_refuses),
        cmocka_unit_test(without_a_waiter_nobody_waits_and_nobody_overtakes),
        cmocka_unit_test(a_caller_may_wait_where_no_rule_has_a_line),
        cmocka_unit_test(time_over_refuses_and_asks_no_limit),
        cmocka_unit_test(what_time_does_not_cure_never_waits),
        cmocka_unit_test(one_that_leaves_is_not_charged),
        cmocka_unit_test(a_higher_priority_comes_first),
        cmocka_unit_test(by_arrival_a_priority_does_not_matter),
        cmocka_unit_test(under_several_limits_a_request_moves_with_its_arrival),
        cmocka_unit_test(all_limits_that_refuse_must_let_wait),
        cmocka_unit_test(a_wait_is_counted_once_when_it_has_ended),
        cmocka_unit_test(waiting_is_no_offence),
        cmocka_unit_test(the_next_goes_ahead_when_units_come_back),
        cmocka_unit_test(the_next_goes_ahead_when_the_limit_changes),
        cmocka_unit_test(asking_before_its_turn_changes_nothing),
        cmocka_unit_test(a_waiter_without_a_thread_or_a_turn_is_an_error),
        cmocka_unit_test(an_error_ends_the_turn),
        cmocka_unit_test(the_line_can_be_looked_at),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
