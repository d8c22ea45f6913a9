/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting in line by every call that decides, and in a store that nodes share. */
#include "hall_fixture.h"

#include <stdio.h>

#include <ration/envoy.h>

#include "limiter/decide/fallback.h"

/* --- charges ------------------------------------------------------------------------------ */

static int take_call(struct call *call)
{
    int code = ration_take(call->hall->r, call->charges, call->hall->now_ns);

    call->allowed = call->charges[0].verdict.allowed;
    assert_int_equal(call->charges[0].error, code);
    return code;
}

static int check_call(struct call *call)
{
    struct ration_decision decision = {0};
    int code = ration_check(call->hall->r, call->charges, 2, call->hall->now_ns, &decision);

    call->allowed = decision.allowed;
    return code;
}

static int reserve_call(struct call *call)
{
    struct ration_decision decision = {0};
    int code = ration_reserve(call->hall->r, call->charges, 1, MINUTE, call->hall->now_ns,
                              &call->lease, &decision);

    call->allowed = decision.allowed;
    assert_int_equal(call->allowed, call->lease != 0);
    return code;
}

static int reserve_ticket_call(struct call *call)
{
    int code = ration_reserve_ticket(call->hall->r, call->charges, MINUTE, call->hall->now_ns,
                                     call->ticket);

    call->allowed = call->ticket[0] != '\0';
    return code;
}

static int acquire_call(struct call *call)
{
    int code =
        ration_acquire(call->hall->r, call->charges, MINUTE, call->hall->now_ns, &call->lease);

    call->allowed = call->lease != 0;
    return code;
}

static int acquire_ticket_call(struct call *call)
{
    int code = ration_acquire_ticket(call->hall->r, call->charges, MINUTE, call->hall->now_ns,
                                     call->ticket);

    call->allowed = call->ticket[0] != '\0';
    return code;
}

static void charge_init(struct call *call, struct hall *h, unsigned number, uint32_t limit)
{
    call_init(call, h, number, "");
    call->charges[0] = charge(limit, "ann", 1);
    call->charges[1] = charge(1, "bob", 1);
    call->charges[0].waiter = &call->waiter;
    call->charges[0].max_wait_ns = 10 * SECOND;
}

static void hall_open_limits(struct hall *h)
{
    const struct ration_named limits[] = {named("a", "1 per second"), named("b", "1000 per second"),
                                          named("c", "1 concurrent")};

    hall_open(h, open_limits(limits, COUNT(limits)));
}

static void every_call_that_charges_waits_in_one_line(void **state)
{
    static int (*const verbs[])(struct call *) = {take_call, check_call, reserve_call,
                                                  reserve_ticket_call, take_call};
    struct hall h;
    static struct call calls[COUNT(verbs) + 1];
    struct ration_totals totals;

    (void)state;
    hall_open_limits(&h);
    for (unsigned n = 0; n < COUNT(calls); n++) {
        charge_init(&calls[n], &h, n, 0);
        calls[n].verb = n == 0 ? take_call : verbs[n - 1];
        assert_int_equal(ask_call(&calls[n]), n == 0 ? 0 : RATION_EWAITS);
    }
    ration_totals(h.r, &totals);
    assert_int_equal(totals.allowed, 1);
    assert_int_equal(totals.refused + totals.errors, 0);
    pass(&h, 9 * SECOND);
    assert_int_equal(h.admitted, COUNT(calls));
    for (unsigned n = 0; n < COUNT(calls); n++) {
        assert_int_equal(h.order[n], n);
        assert_int_equal(calls[n].done_ns, T0 + (int64_t)n * SECOND);
    }
    ration_totals(h.r, &totals);
    assert_int_equal(totals.allowed, COUNT(calls));
    assert_int_equal(totals.waited, COUNT(calls) - 1);
    assert_int_equal(totals.refused, 0);
    hall_close(&h);
}

static void a_limit_given_with_the_call_can_be_waited_for(void **state)
{
    struct ration_limit limit = named("x", "1 per second").limit;
    struct hall h;
    struct call calls[3];

    (void)state;
    hall_open(&h, open_limits(NULL, 0));
    for (unsigned n = 0; n < COUNT(calls); n++) {
        charge_init(&calls[n], &h, n, 0);
        calls[n].verb = take_call;
        calls[n].charges[0].ad_hoc = &limit;
        ask_call(&calls[n]);
    }
    pass(&h, 3 * SECOND);
    assert_int_equal(h.admitted, 3);
    hall_close(&h);
}

static void places_can_be_waited_for(void **state)
{
    struct hall h;
    static struct call calls[3];

    (void)state;
    hall_open_limits(&h);
    for (unsigned n = 0; n < COUNT(calls); n++) {
        charge_init(&calls[n], &h, n, 2);
        calls[n].verb = n == 1 ? acquire_ticket_call : acquire_call;
        assert_int_equal(ask_call(&calls[n]), n == 0 ? 0 : RATION_EWAITS);
    }
    struct ration_charge newcomer = charge(2, "ann", 1);
    uint64_t lease = 7;

    assert_int_equal(ration_release(h.r, &calls[0].charges[0], calls[0].lease, h.now_ns), 0);
    assert_int_equal(ration_acquire(h.r, &newcomer, MINUTE, h.now_ns, &lease), 0);
    assert_int_equal(lease, 0); /* it is 1's */
    pass(&h, 0);
    assert_true(calls[1].allowed);
    assert_int_equal(ration_ticket_release(h.r, calls[1].ticket, strlen(calls[1].ticket), h.now_ns),
                     0);
    pass(&h, 0);
    assert_true(calls[2].allowed);
    assert_int_equal(calls[2].charges[0].verdict.remaining, 0);
    assert_int_equal(ration_release(h.r, &calls[2].charges[0], calls[2].lease, h.now_ns), 0);
    hall_close(&h);
}

static void without_a_waiter_a_charge_does_not_overtake(void **state)
{
    struct hall h;
    struct call call;
    struct ration_charge c[3] = {charge(0, "ann", 1), charge(0, "cid", 1), charge(0, "ann", 1)};
    struct ration_decision decision;

    (void)state;
    hall_open_limits(&h);
    assert_true(take(h.r, 0, "ann", 1, h.now_ns));
    charge_init(&call, &h, 0, 0);
    call.verb = take_call;
    assert_int_equal(ask_call(&call), RATION_EWAITS);
    h.now_ns += SECOND; /* there is room, but it is the waiter's */
    assert_false(take(h.r, 0, "ann", 1, h.now_ns));
    ration_take_batch(h.r, c, COUNT(c), h.now_ns);
    assert_false(c[0].verdict.allowed);
    assert_true(c[1].verdict.allowed);
    assert_false(c[2].verdict.allowed);
    assert_true(c[0].verdict.retry_after_ns > 0);
    assert_int_equal(ration_check(h.r, c, 1, h.now_ns, &decision), 0);
    assert_false(decision.allowed);
    c[0].drain = true;
    assert_int_equal(ration_take(h.r, c, h.now_ns), 0);
    assert_false(c[0].verdict.allowed);
    assert_int_equal(c[0].taken, 0);
    assert_int_equal(left(h.r, 0, "ann", h.now_ns), 1);
    c[0].cost = 1;
    assert_int_equal(ration_peek(h.r, c, h.now_ns), 0);
    assert_false(c[0].verdict.allowed);
    assert_int_equal(c[0].verdict.remaining, 1);
    pass(&h, 0);
    assert_int_equal(h.admitted, 1);
    hall_close(&h);
}

static void without_a_wait_of_its_own_a_charge_does_not_wait(void **state)
{
    struct hall h;
    struct call call;

    (void)state;
    hall_open_limits(&h);
    assert_true(take(h.r, 0, "ann", 1, h.now_ns));
    charge_init(&call, &h, 0, 0);
    call.verb = take_call;
    call.charges[0].max_wait_ns = 0;
    assert_int_equal(ask_call(&call), 0);
    assert_false(call.allowed);
    hall_close(&h);
}

static void a_delay_beyond_the_longest_wait_is_a_refusal(void **state)
{
    const struct ration_named limits[] = {named("q", "1 per second queue 9")};
    struct ration *r = open_limits(limits, 1);
    struct ration_charge c = charge(0, "ann", 1);

    (void)state;
    c.max_wait_ns = 2 * SECOND;
    for (unsigned n = 0; n < 4; n++) {
        assert_int_equal(ration_take(r, &c, T0), 0);
        assert_int_equal(c.verdict.allowed, n < 3);
        assert_int_equal(c.verdict.delay_ns, n < 3 ? (int64_t)n * SECOND : 0);
    }
    assert_int_equal(c.verdict.retry_after_ns, SECOND);
    c = charge(0, "bob", 1);
    c.max_wait_ns = -SECOND; /* its deadline has passed: what has no delay is admitted */
    for (unsigned n = 0; n < 2; n++) {
        assert_int_equal(ration_take(r, &c, T0), 0);
        assert_int_equal(c.verdict.allowed, n == 0);
    }
    ration_close(r);
}

static void a_call_that_fails_ends_the_turn(void **state)
{
    struct hall h;
    static struct call calls[3];

    (void)state;
    hall_open_limits(&h);
    for (unsigned n = 0; n < COUNT(calls); n++) {
        charge_init(&calls[n], &h, n, 0);
        calls[n].verb = n == 1 ? reserve_call : take_call;
        ask_call(&calls[n]);
    }
    calls[1].charges[0].drain = true; /* RATION_EINVAL */
    pass(&h, SECOND);
    assert_int_equal(calls[1].code, RATION_EINVAL);
    assert_true(calls[2].allowed);
    hall_close(&h);
}

/* --- requests --------------------------------------------------------------------------------- */

static int decide_reserve_call(struct call *call)
{
    int code = ration_decide_reserve(call->hall->r, &call->words.request, MINUTE,
                                     call->hall->now_ns, &call->out, call->ticket);

    call->allowed = code == 0 && call->out.decision.allowed;
    return code;
}

static int acquire_request_call(struct call *call)
{
    int code = ration_acquire_request(call->hall->r, &call->words.request, MINUTE,
                                      call->hall->now_ns, &call->out, call->ticket);

    call->allowed = code == 0 && call->out.decision.allowed;
    return code;
}

static int no_server_call(struct call *call)
{
    int code =
        rn_fallback_decide(call->hall->r, &call->words.request, call->hall->now_ns, &call->out);

    call->allowed = code == 0 && call->out.decision.allowed;
    return code;
}

static struct ration_descriptors_outcome described;

static int descriptors_call(struct call *call)
{
    const struct ration_descriptor_entry entry = {"user", 4, "ann", 3};
    const struct ration_descriptor_ask ask = {.entries = &entry, .count = 1};
    int code = ration_decide_descriptors(call->hall->r,
                                         &(struct ration_descriptors){.domain = "shop",
                                                                      .domain_len = 4,
                                                                      .asks = &ask,
                                                                      .count = 1,
                                                                      .max_wait_ns = 20 * SECOND,
                                                                      .waiter = &call->waiter},
                                         call->hall->now_ns, &described);

    call->allowed = code == 0 && described.allowed;
    return code;
}

static void every_call_that_decides_a_request_waits_in_one_line(void **state)
{
    static int (*const verbs[])(struct call *) = {decide_reserve_call, acquire_request_call,
                                                  no_server_call, descriptors_call, decide_call};
    struct hall h;
    static struct call calls[COUNT(verbs) + 1];

    (void)state;
    hall_open_rules(&h, "apply_to_envoy: true\n"
                        "limits: [{name: a, key: user, limit: 1 per second,"
                        " queue: {max_wait: 10s}}]");
    for (unsigned n = 0; n < COUNT(calls); n++) {
        call_init(&calls[n], &h, n, "user=ann");
        calls[n].verb = n == 0 ? decide_call : verbs[n - 1];
        assert_int_equal(ask_call(&calls[n]), n == 0 ? 0 : RATION_EWAITS);
    }
    pass(&h, 9 * SECOND);
    assert_int_equal(h.admitted, COUNT(calls));
    for (unsigned n = 0; n < COUNT(calls); n++) {
        assert_int_equal(h.order[n], n);
        assert_int_equal(calls[n].done_ns, T0 + (int64_t)n * SECOND);
    }
    assert_int_equal(described.waited_ns, 4 * SECOND);
    assert_int_equal(described.receipt_count, 1);
    assert_int_equal(ration_descriptors_give_back(h.r, &described, h.now_ns), 0);
    hall_close(&h);
}

/* The bound of a caller of Envoy's protocol lets nobody wait where no rule does. */
static void descriptors_wait_only_where_a_rule_has_a_line(void **state)
{
    struct hall h;
    static struct call calls[2];

    (void)state;
    hall_open_rules(&h, "apply_to_envoy: true\n"
                        "limits: [{name: a, key: user, limit: 1 per second}]");
    for (unsigned n = 0; n < COUNT(calls); n++) {
        call_init(&calls[n], &h, n, "user=ann");
        calls[n].verb = descriptors_call;
        assert_int_equal(ask_call(&calls[n]), 0);
        assert_int_equal(calls[n].allowed, n == 0);
    }
    hall_close(&h);
}

/* --- a store that nodes share ------------------------------------------------------------------
 */

/* Counts units until the test says that there are new ones. */
struct shared {
    struct rn_store store;
    bool silent;
    unsigned calls;
    uint64_t left;
    int64_t opens_ns;
};

static void apply(struct rn_store *store, struct rn_charge *batch, size_t n)
{
    struct shared *s = (struct shared *)(void *)store;

    s->calls++;
    for (size_t i = 0; i < n; i++) {
        bool takes = batch[i].ask.op == RN_TAKE, fits = batch[i].ask.cost <= s->left;

        batch[i].error = s->silent ? RATION_ESTORE : 0;
        batch[i].late = 0;
        if (s->silent)
            continue;
        s->left -= takes && fits ? batch[i].ask.cost : 0;
        batch[i].answer =
            (struct rn_answer){.allowed = fits,
                               .remaining = s->left,
                               .retry_after_ns = fits ? 0 : s->opens_ns - batch[i].ask.now_ns};
    }
}

static const struct rn_store_ops ops = {.apply = apply};

static const char *none_is_unfit(const struct rn_limit *limit)
{
    (void)limit;
    return NULL;
}

static void hall_open_shared(struct hall *h, struct shared *s, const char *rules)
{
    static const struct rn_hash_key secret = {1, 2};
    struct ration *r = open_limits(NULL, 0);

    *s = (struct shared){.store = {.ops = &ops}, .opens_ns = T0 + SECOND};
    assert_int_equal(rn_limiter_share(r, &secret, none_is_unfit), 0);
    rules_at(r, rules, T0);
    rn_fallback_use(&s->store);
    hall_open(h, r);
}

static void hall_close_shared(struct hall *h)
{
    rn_fallback_use(NULL);
    hall_close(h);
}

#define SHARED                                                                                     \
    "limits: [{name: a, key: user, limit: 5 per second, algorithm: fixed-window,"                  \
    " queue: {size: 99, max_wait: 3s}}]"

static void those_that_fit_have_their_turn_together_and_one_more(void **state)
{
    struct hall h;
    struct shared s;
    static struct call calls[20];

    (void)state;
    hall_open_shared(&h, &s, SHARED);
    for (unsigned n = 0; n < COUNT(calls); n++)
        assert_int_equal(arrive(&calls[n], &h, n, "user=ann"), n < 15 ? RATION_EWAITS : 0);
    assert_int_equal(s.calls, 1); /* the others stood behind it, or had no time for that */
    s.left = 5;
    s.opens_ns = T0 + 2 * SECOND;
    h.now_ns = stopped_at(h.r, T0 + SECOND);
    ration_waiting_run(h.waiting, h.now_ns);
    assert_int_equal(h.admitted, 5);
    assert_in_range(s.calls, 6, 8);
    pass(&h, 900 * MS);
    assert_in_range(s.calls, 6, 8); /* nobody asks until the next window */
    s.left = 5;
    s.opens_ns = T0 + 3 * SECOND;
    pass(&h, 100 * MS);
    assert_int_equal(h.admitted, 10);
    for (unsigned n = 0; n < 10; n++)
        assert_int_equal(h.order[n], n);
    pass(&h, 5 * SECOND); /* all others are refused when their time is over */
    assert_int_equal(totals_of(&h).waiting, 0);
    hall_close_shared(&h);
}

static void time_over_asks_no_store(void **state)
{
    struct hall h;
    struct shared s;
    struct call call;

    (void)state;
    hall_open_shared(&h, &s,
                     "limits: [{name: a, key: user, limit: 2 concurrent,"
                     " queue: {max_wait: 20ms}}]");
    s.opens_ns = T0;
    assert_int_equal(arrive(&call, &h, 0, "user=ann"), RATION_EWAITS);
    s.calls = 0;
    h.now_ns = stopped_at(h.r, T0 + 30 * MS);
    ration_waiting_run(h.waiting, h.now_ns);
    assert_int_equal(call.code, 0);
    assert_false(call.allowed);
    assert_int_equal(s.calls, 0);
    assert_int_equal(call.out.waited_ns, 30 * MS);
    hall_close_shared(&h);
}

/* The store does not answer any more: each turn is decided by the rule's policy. */
static void a_line_goes_on_without_the_store(void **state)
{
    static const char *const policies[] = {"local", "allow", "refuse"};

    (void)state;
    for (size_t i = 0; i < COUNT(policies); i++) {
        char rules[256];
        struct hall h;
        struct shared s;
        struct call calls[3];

        snprintf(rules, sizeof rules,
                 "limits: [{name: a, key: user, limit: 5 per second, on_store_failure: %s,"
                 " queue: {size: 99, max_wait: 3s}}]",
                 policies[i]);
        hall_open_shared(&h, &s, rules);
        s.opens_ns = T0 + 200 * MS;
        for (unsigned n = 0; n < COUNT(calls); n++)
            assert_int_equal(arrive(&calls[n], &h, n, "user=ann"), RATION_EWAITS);
        s.silent = true;
        pass(&h, 5 * SECOND);
        assert_int_equal(totals_of(&h).waiting, 0);
        assert_int_equal(h.admitted, i < 2 ? 3 : 0);
        for (unsigned n = 0; n < COUNT(calls); n++) {
            assert_int_equal(calls[n].code, 0);
            assert_true(calls[n].done_ns <= T0 + 3 * SECOND);
        }
        hall_close_shared(&h);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call_that_charges_waits_in_one_line),
        cmocka_unit_test(a_limit_given_with_the_call_can_be_waited_for),
        cmocka_unit_test(places_can_be_waited_for),
        cmocka_unit_test(without_a_waiter_a_charge_does_not_overtake),
        cmocka_unit_test(without_a_wait_of_its_own_a_charge_does_not_wait),
        cmocka_unit_test(a_delay_beyond_the_longest_wait_is_a_refusal),
        cmocka_unit_test(a_call_that_fails_ends_the_turn),
        cmocka_unit_test(every_call_that_decides_a_request_waits_in_one_line),
        cmocka_unit_test(descriptors_wait_only_where_a_rule_has_a_line),
        cmocka_unit_test(those_that_fit_have_their_turn_together_and_one_more),
        cmocka_unit_test(time_over_asks_no_store),
        cmocka_unit_test(a_line_goes_on_without_the_store),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
