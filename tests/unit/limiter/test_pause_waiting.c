/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that wait in line for the end of a pause. */
#include "hall_fixture.h"

#include <ration/pause.h>

static const char rules[] =
    "limits: [{name: a, key: user, limit: 100 per minute, queue: {size: 100, max_wait: 5s}}]";

static void pause_ann(struct hall *h, int64_t for_ns)
{
    struct words w;

    split_words(&w, "user=ann");
    assert_int_equal(ration_pause(h->r, &(struct ration_pause_of){.request = &w.request}, for_ns,
                                  h->now_ns, NULL),
                     0);
}

static uint64_t refused_by_pauses(struct hall *h)
{
    struct ration_pause_totals totals;

    ration_pause_totals(h->r, h->now_ns, &totals);
    return totals.refused;
}

static void all_that_fit_go_ahead_when_the_pause_ends(void **state)
{
    static struct call calls[60];
    struct ration_totals totals;
    struct hall h;

    (void)state;
    hall_open_rules(&h, rules);
    pause_ann(&h, 3 * SECOND);
    for (unsigned n = 0; n < COUNT(calls); n++)
        assert_int_equal(arrive(&calls[n], &h, n, "user=ann"), RATION_EWAITS);
    pass(&h, 3 * SECOND - 1);
    assert_int_equal(h.admitted, 0);
    pass(&h, 1 + 200 * MS);
    assert_int_equal(h.admitted, COUNT(calls));
    for (unsigned n = 0; n < COUNT(calls); n++) {
        assert_int_equal(h.order[n], n);
        assert_true(calls[n].out.waited_ns >= 3 * SECOND);
    }
    assert_int_equal(calls[0].done_ns, T0 + 3 * SECOND);
    assert_int_equal(refused_by_pauses(&h), 0); /* waiting is not counted */
    ration_totals(h.r, &totals);
    assert_int_equal(totals.allowed, COUNT(calls));
    assert_int_equal(totals.refused, 0);
    hall_close(&h);
}

static void a_pause_beyond_the_longest_wait_refuses_at_once(void **state)
{
    struct hall h;
    struct call call;

    (void)state;
    hall_open_rules(&h, rules);
    pause_ann(&h, 6 * SECOND);
    assert_int_equal(arrive(&call, &h, 0, "user=ann"), 0);
    assert_int_equal(call.out.kind, RATION_BY_PAUSE);
    assert_false(call.out.decision.allowed);
    assert_int_equal(call.out.decision.verdict.retry_after_ns, 6 * SECOND);
    assert_int_equal(refused_by_pauses(&h), 1);
    assert_int_equal(arrive(&call, &h, 0, "user=bob"), 0);
    assert_true(call.allowed);
    hall_close(&h);
}

static void a_lift_lets_those_that_wait_go_ahead(void **state)
{
    struct hall h;
    struct call calls[2];
    struct words w;

    (void)state;
    hall_open_rules(&h, rules);
    pause_ann(&h, 4 * SECOND);
    for (unsigned n = 0; n < 2; n++)
        assert_int_equal(arrive(&calls[n], &h, n, "user=ann"), RATION_EWAITS);
    pass(&h, SECOND);
    split_words(&w, "user=ann");
    assert_int_equal(
        ration_pause_lift(h.r, &(struct ration_pause_of){.request = &w.request}, h.now_ns, NULL),
        0);
    pass(&h, 10 * MS);
    assert_int_equal(h.admitted, 2);
    assert_int_equal(calls[0].done_ns, T0 + SECOND);
    hall_close(&h);
}

/* As if another process of the state file had lifted it: nobody pokes the line. */
static void a_lift_by_another_process_is_seen_soon(void **state)
{
    struct hall h;
    struct call call;
    struct words w;

    (void)state;
    hall_open_rules(&h, rules);
    pause_ann(&h, 4 * SECOND);
    assert_int_equal(arrive(&call, &h, 0, "user=ann"), RATION_EWAITS);
    pass(&h, SECOND);
    memset(h.r->pauses.board->filter, 0, sizeof h.r->pauses.board->filter);
    split_words(&w, "user=ann");
    pass(&h, 100 * MS);
    assert_int_equal(h.admitted, 1);
    hall_close(&h);
}

static void a_pause_that_is_prolonged_beyond_the_wait_refuses(void **state)
{
    struct hall h;
    struct call call;

    (void)state;
    hall_open_rules(&h, rules);
    pause_ann(&h, 2 * SECOND);
    assert_int_equal(arrive(&call, &h, 0, "user=ann"), RATION_EWAITS);
    pass(&h, SECOND);
    pause_ann(&h, MINUTE);
    pass(&h, 4 * SECOND);
    assert_int_equal(call.code, 0);
    assert_int_equal(call.out.kind, RATION_BY_PAUSE);
    assert_true(call.out.waited_ns > 0 && call.out.waited_ns <= 5 * SECOND);
    assert_in_range(call.out.decision.verdict.retry_after_ns, 50 * SECOND, MINUTE);
    assert_int_equal(refused_by_pauses(&h), 1);
    assert_int_equal(totals_of(&h).waiting, 0);
    hall_close(&h);
}

static void without_a_line_of_the_rule_a_pause_refuses(void **state)
{
    struct hall h;
    struct call call;

    (void)state;
    hall_open_rules(&h, "limits: [{name: a, key: user, limit: 100 per minute}]");
    pause_ann(&h, SECOND);
    assert_int_equal(arrive(&call, &h, 0, "user=ann"), 0);
    assert_int_equal(call.out.kind, RATION_BY_PAUSE);
    call_init(&call, &h, 1, "user=ann");
    call.words.request.max_wait_ns = 5 * SECOND; /* the caller would wait */
    assert_int_equal(ask_call(&call), RATION_EWAITS);
    pass(&h, SECOND);
    assert_true(call.allowed);
    assert_int_equal(call.done_ns, T0 + SECOND);
    hall_close(&h);
}

static int take_call(struct call *call)
{
    int code = ration_take(call->hall->r, &call->charges[0], call->hall->now_ns);

    call->allowed = code == 0 && call->charges[0].verdict.allowed;
    return code;
}

static void charges_of_a_caller_wait_for_a_pause(void **state)
{
    static struct call calls[20];
    struct ration_named limit = named("x", "100 per minute");
    struct hall h;

    (void)state;
    hall_open(&h, open_limits(NULL, 0));
    assert_int_equal(ration_pause(h.r, &(struct ration_pause_of){.key = "k", .key_len = 1},
                                  2 * SECOND, h.now_ns, NULL),
                     0);
    for (unsigned n = 0; n < COUNT(calls); n++) {
        call_init(&calls[n], &h, n, "");
        calls[n].verb = take_call;
        calls[n].charges[0] = (struct ration_charge){.ad_hoc = &limit.limit,
                                                     .key = "k",
                                                     .key_len = 1,
                                                     .cost = 1,
                                                     .waiter = &calls[n].waiter,
                                                     .max_wait_ns = n == 0 ? SECOND : 5 * SECOND};
        assert_int_equal(ask_call(&calls[n]), n < 1 ? 0 : RATION_EWAITS);
    }
    assert_true(calls[0].charges[0].paused && !calls[0].allowed); /* it would wait for 1 s only */
    pass(&h, 2 * SECOND + 200 * MS);
    assert_int_equal(h.admitted, COUNT(calls) - 1);
    assert_false(calls[5].charges[0].paused);
    hall_close(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_that_fit_go_ahead_when_the_pause_ends),
        cmocka_unit_test(a_pause_beyond_the_longest_wait_refuses_at_once),
        cmocka_unit_test(a_lift_lets_those_that_wait_go_ahead),
        cmocka_unit_test(a_lift_by_another_process_is_seen_soon),
        cmocka_unit_test(a_pause_that_is_prolonged_beyond_the_wait_refuses),
        cmocka_unit_test(without_a_line_of_the_rule_a_pause_refuses),
        cmocka_unit_test(charges_of_a_caller_wait_for_a_pause),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
