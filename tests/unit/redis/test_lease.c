/* SPDX-License-Identifier: Apache-2.0 */
/* One lease; and many against a model of the store, with calls that are late, lost or overtaken:
 * together they never spend too much. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "redis/leased/lease.h"

#define MS INT64_C(1000000)
#define SECOND (1000 * MS)
#define BEGIN (100 * SECOND)
#define MARK 4711
#define ENDS 5000000

static struct rn_lease fresh(uint64_t amount, uint64_t burst)
{
    struct ration_limit spec = {
        .algorithm = RATION_TOKEN_BUCKET, .amount = amount, .period_ns = SECOND, .burst = burst};
    struct rn_limit limit;

    rn_limit_init(&limit, &spec);
    return (struct rn_lease){.sizing = rn_sizing_of(&limit, true)};
}

/* One of 1000 a second, that has `units` since BEGIN. */
static struct rn_lease with_units(uint64_t units)
{
    struct rn_lease h = fresh(1000, 4000);
    struct rn_codec_lease_request request;

    rn_lease_ask(&h, 1, units, BEGIN, &request);
    rn_lease_take_in(&h,
                     &(struct rn_grant){.granted = units,
                                        .left = 500,
                                        .lease_ns = request.lease_ns,
                                        .mark = MARK,
                                        .ends_us = ENDS},
                     BEGIN);
    return h;
}

static void granted_units_can_be_spent_once(void **state)
{
    struct rn_lease h = with_units(10);

    (void)state;
    assert_true(rn_lease_spend(&h, 7));
    assert_false(rn_lease_spend(&h, 4));
    assert_true(rn_lease_spend(&h, 3));
    assert_false(rn_lease_spend(&h, 1));
}

static void a_lower_factor_cuts_what_is_held_and_a_higher_one_adds_nothing(void **state)
{
    struct rn_lease h = fresh(1000, 4000);
    struct rn_codec_lease_request request;

    (void)state;
    rn_lease_set_factor(&h, 100);
    rn_lease_ask(&h, 1, 31, BEGIN, &request);
    rn_lease_take_in(&h, &(struct rn_grant){.granted = 31, .lease_ns = SECOND}, BEGIN);
    rn_lease_set_factor(&h, 50);
    assert_int_equal(h.units, 15);
    rn_lease_set_factor(&h, 200);
    assert_int_equal(h.units, 15);
    /* To Redis the rest is spent: a call gives back no more than is left. */
    rn_lease_ask_out(&h, BEGIN, &request);
    assert_int_equal(request.back, 15);
}

/* Granted at 100 %, taken in at 40 %. */
static void a_grant_is_cut_if_the_factor_falls_while_it_is_on_its_way(void **state)
{
    struct rn_lease h = fresh(1000, 4000);
    struct rn_codec_lease_request request;

    (void)state;
    rn_lease_set_factor(&h, 100);
    rn_lease_ask(&h, 1, 50, BEGIN, &request);
    rn_lease_set_factor(&h, 40);
    rn_lease_take_in(&h, &(struct rn_grant){.granted = 50, .lease_ns = SECOND, .kept = true},
                     BEGIN);
    assert_int_equal(h.units, 20);
    assert_int_equal(h.known, 50);
    rn_lease_ask(&h, 1, 50, BEGIN, &request);
    rn_lease_set_factor(&h, 100);
    rn_lease_take_in(&h, &(struct rn_grant){.granted = 10, .lease_ns = SECOND, .kept = true},
                     BEGIN);
    assert_int_equal(h.units, 30);
}

static void a_higher_factor_ends_refusals_that_are_known(void **state)
{
    struct rn_lease h = fresh(1000, 4000);
    struct rn_codec_lease_request request;

    (void)state;
    rn_lease_set_factor(&h, 50);
    rn_lease_ask(&h, 1, 50, BEGIN, &request);
    rn_lease_take_in(
        &h, &(struct rn_grant){.lease_ns = SECOND, .retry_after_ns = SECOND, .kept = true}, BEGIN);
    assert_true(rn_lease_refuses(&h, 1, BEGIN + MS));
    rn_lease_set_factor(&h, 40);
    assert_true(rn_lease_refuses(&h, 1, BEGIN + MS));
    rn_lease_set_factor(&h, 100);
    assert_false(rn_lease_refuses(&h, 1, BEGIN + MS));
}

static void the_deadline_counts_from_before_the_call_was_sent(void **state)
{
    struct rn_lease h = fresh(1000, 4000);
    struct rn_codec_lease_request request;

    (void)state;
    rn_lease_ask(&h, 1, 10, BEGIN, &request);
    assert_int_equal(request.lease_ns, SECOND);
    rn_lease_take_in(&h, &(struct rn_grant){.granted = 10, .lease_ns = SECOND}, BEGIN + SECOND / 2);
    assert_int_equal(rn_lease_expire(&h, BEGIN + 998 * MS), 0);
    assert_int_equal(h.units, 10);
    /* A thousandth early: clocks do not run alike. */
    assert_int_equal(rn_lease_expire(&h, BEGIN + 999 * MS), 10);
    assert_false(rn_lease_spend(&h, 1));
}

static void a_grant_that_comes_too_late_is_burnt(void **state)
{
    struct rn_lease h = fresh(1000, 4000);
    struct rn_codec_lease_request request;

    (void)state;
    rn_lease_ask(&h, 1, 10, BEGIN, &request);
    assert_int_equal(
        rn_lease_take_in(&h, &(struct rn_grant){.granted = 10, .lease_ns = SECOND}, BEGIN + SECOND),
        10);
    assert_false(rn_lease_spend(&h, 1));
    assert_false(h.in_flight);
}

static void a_call_says_what_is_held_and_a_lost_call_changes_nothing(void **state)
{
    struct rn_lease h = with_units(10);
    struct rn_codec_lease_request request;

    (void)state;
    assert_true(rn_lease_spend(&h, 6));
    rn_lease_ask(&h, 1, 10, BEGIN + 100 * MS, &request);
    assert_int_equal(request.keep, 4);
    assert_int_equal(request.want, 6);
    assert_true(rn_lease_spend(&h, 1)); /* while it is in flight */
    rn_lease_lose(&h);
    assert_int_equal(h.units, 3);
    assert_int_equal(h.deadline_ns, BEGIN + 999 * MS);
    rn_lease_ask(&h, 1, 10, BEGIN + 200 * MS, &request);
    assert_int_equal(request.keep, 3);
}

static void what_the_store_does_not_know_of_is_dropped(void **state)
{
    struct rn_lease h = with_units(10);
    struct rn_codec_lease_request request;

    (void)state;
    rn_lease_ask(&h, 1, 15, BEGIN + 100 * MS, &request);
    assert_int_equal(
        rn_lease_take_in(&h, &(struct rn_grant){.granted = 5, .lease_ns = SECOND, .kept = false},
                         BEGIN + 101 * MS),
        10);
    assert_int_equal(h.units, 5);
}

static void units_renewed_in_time_are_not_lost_if_the_reply_is_late(void **state)
{
    struct rn_lease h = with_units(10), lost;
    struct rn_codec_lease_request request;

    (void)state;
    rn_lease_ask(&h, 1, 15, BEGIN + 900 * MS, &request);
    assert_int_equal(rn_lease_expire(&h, BEGIN + SECOND), 0);
    assert_false(rn_lease_spend(&h, 1)); /* not before the reply */
    lost = h;
    assert_int_equal(
        rn_lease_take_in(&h, &(struct rn_grant){.granted = 5, .lease_ns = SECOND, .kept = true},
                         BEGIN + 1100 * MS),
        0);
    assert_true(rn_lease_spend(&h, 15));
    assert_int_equal(rn_lease_lose(&lost), 10);
    assert_int_equal(rn_lease_expire(&lost, BEGIN + 1100 * MS), 0);
    assert_false(rn_lease_spend(&lost, 1));
}

static void a_lease_that_ends_with_its_window_ends_soon(void **state)
{
    struct rn_lease h = with_units(10);
    struct rn_codec_lease_request request;

    (void)state;
    assert_false(rn_lease_ends_soon(&h));
    rn_lease_ask(&h, 1, 15, BEGIN, &request);
    rn_lease_take_in(&h, &(struct rn_grant){.granted = 5, .lease_ns = 4 * MS, .kept = true}, BEGIN);
    assert_true(rn_lease_ends_soon(&h));
}

static void kept_units_last_as_long_as_new_ones(void **state)
{
    struct rn_lease h = with_units(10);
    struct rn_codec_lease_request request;

    (void)state;
    rn_lease_ask(&h, 1, 15, BEGIN + 500 * MS, &request);
    rn_lease_take_in(&h, &(struct rn_grant){.granted = 5, .lease_ns = SECOND, .kept = true},
                     BEGIN + 501 * MS);
    assert_int_equal(rn_lease_expire(&h, BEGIN + 1400 * MS), 0);
    assert_true(rn_lease_spend(&h, 15));
}

static void only_units_spent_since_the_last_call_can_be_given_back(void **state)
{
    struct rn_lease h = with_units(10);
    struct rn_codec_lease_request request;

    (void)state;
    assert_true(rn_lease_spend(&h, 4));
    assert_true(rn_lease_unspend(&h, 1, MARK));
    assert_false(rn_lease_unspend(&h, 4, MARK));
    assert_false(rn_lease_unspend(&h, 1, MARK - 1)); /* another one's */
    rn_lease_ask(&h, 1, 10, BEGIN + 10 * MS, &request);
    assert_true(rn_lease_spend(&h, 2));
    assert_false(rn_lease_unspend(&h, 1, MARK)); /* whether it has been told is not known */
    rn_lease_lose(&h);
    assert_false(rn_lease_unspend(&h, 1, MARK));
    rn_lease_ask(&h, 1, 10, BEGIN + 20 * MS, &request);
    rn_lease_take_in(
        &h, &(struct rn_grant){.granted = 5, .lease_ns = SECOND, .kept = true, .mark = MARK + 7},
        BEGIN + 21 * MS);
    assert_true(rn_lease_spend(&h, 3));
    assert_false(rn_lease_unspend(&h, 1, MARK));
    assert_true(rn_lease_unspend(&h, 3, MARK + 7));
}

static void a_call_tells_when_the_lease_ends_unless_it_may_have_none(void **state)
{
    struct rn_lease h = with_units(10);
    struct rn_codec_lease_request request;

    (void)state;
    rn_lease_ask(&h, 1, 10, BEGIN, &request);
    assert_int_equal(request.ends_us, ENDS);
    rn_lease_lose(&h);
    rn_lease_ask(&h, 1, 10, BEGIN, &request);
    assert_int_equal(request.ends_us, 0);
    rn_lease_take_in(&h, &(struct rn_grant){.kept = true, .lease_ns = SECOND, .ends_us = 2 * ENDS},
                     BEGIN);
    rn_lease_ask_out(&h, BEGIN, &request);
    assert_int_equal(request.ends_us, 2 * ENDS);
    rn_lease_take_in(&h, &(struct rn_grant){.lease_ns = SECOND, .ends_us = 3 * ENDS}, BEGIN);
    rn_lease_ask(&h, 1, 10, BEGIN, &request);
    assert_int_equal(request.ends_us, 0); /* of nothing there is no lease */
}

static void a_lease_asks_for_more_at_half_of_its_units_or_time(void **state)
{
    struct rn_lease h = with_units(10);

    (void)state;
    assert_false(rn_lease_runs_low(&h, BEGIN + 400 * MS));
    assert_true(rn_lease_runs_low(&h, BEGIN + 500 * MS));
    assert_true(rn_lease_spend(&h, 4));
    assert_false(rn_lease_runs_low(&h, BEGIN));
    assert_true(rn_lease_spend(&h, 1));
    assert_true(rn_lease_runs_low(&h, BEGIN));
    h.in_flight = true;
    assert_false(rn_lease_runs_low(&h, BEGIN));
}

static void after_a_small_grant_a_lease_waits_before_it_asks_again(void **state)
{
    struct rn_lease h = fresh(1000, 4000);
    struct rn_codec_lease_request request;
    struct rn_answer answer;

    (void)state;
    rn_lease_ask(&h, 3, 3, BEGIN, &request);
    rn_lease_take_in(&h,
                     &(struct rn_grant){.retry_after_ns = 400 * MS, .left = 2, .lease_ns = SECOND},
                     BEGIN + MS);
    assert_true(rn_lease_refuses(&h, 1, BEGIN + 124 * MS)); /* the pause */
    assert_false(rn_lease_refuses(&h, 2, BEGIN + 125 * MS));
    assert_true(rn_lease_refuses(&h, 3, BEGIN + 399 * MS)); /* as the store said */
    assert_false(rn_lease_refuses(&h, 3, BEGIN + 400 * MS));
    rn_lease_answer(&h, false, BEGIN + 100 * MS, &answer);
    assert_int_equal(answer.retry_after_ns, 300 * MS);
    assert_int_equal(answer.remaining, 0);
    rn_lease_forget_refusal(&h);
    assert_false(rn_lease_refuses(&h, 3, BEGIN + 2 * MS));
}

static void units_that_are_not_needed_are_given_back(void **state)
{
    struct rn_lease h = with_units(100);
    struct rn_codec_lease_request request;

    (void)state;
    rn_sizing_note(&h.demand, 2, BEGIN);
    rn_lease_ask(&h, 0, 0, BEGIN + 150 * MS, &request);
    assert_int_equal(request.want, 0);
    assert_int_equal(request.keep, 20);
    assert_int_equal(request.back, 80);
    rn_lease_unask(&h, &request);
    assert_int_equal(h.units, 100);
    rn_lease_ask_out(&h, BEGIN + 150 * MS, &request);
    assert_int_equal(request.keep, 0);
    assert_int_equal(request.back, 100);
    assert_false(rn_lease_spend(&h, 1));
}

/* --- many of them ------------------------------------------------------------------------ */

#define NODES 6
#define EACH (MS)      /* a unit is refilled in */
#define BURST 400      /* a lease lasts 100 ms at most */
#define ON_THE_WAY 256 /* calls and replies */

struct lease {
    uint64_t id, call, units;
    int64_t ends_ns; /* 0: none */
};

struct message {
    int64_t at_ns; /* 0: none */
    bool is_reply;
    size_t node;
    struct rn_codec_lease_request request;
    struct rn_grant grant;
};

static struct world {
    uint64_t random;
    int64_t now_ns, last_ns;
    int64_t level; /* in ns of refill */
    struct lease leases[64];
    struct rn_lease nodes[NODES];
    uint64_t ids[NODES], calls[NODES], next_id;
    struct message way[ON_THE_WAY];
    int64_t full_ns; /* the judge: an exact bucket is full again then */
    int64_t excess, spent, grants;
} w;

static uint64_t dice(uint64_t sides)
{
    w.random = w.random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (w.random >> 33) % sides;
}

/* The order of things, as naively as can be: nanosecond by nanosecond in principle. */
static int64_t out(void)
{
    uint64_t units = 0;

    for (size_t i = 0; i < 64; i++)
        units += w.leases[i].units;
    return (int64_t)units * EACH;
}

static void refill(int64_t to_ns)
{
    int64_t most = BURST * EACH - out();

    if (to_ns > w.last_ns) {
        w.level += to_ns - w.last_ns;
        w.last_ns = to_ns;
    }
    w.level = w.level < most ? w.level : most;
}

static void end_leases(void)
{
    for (;;) {
        struct lease *first = NULL;

        for (size_t i = 0; i < 64; i++) {
            struct lease *l = &w.leases[i];

            if (l->ends_ns != 0 && l->ends_ns <= w.now_ns &&
                (!first || l->ends_ns < first->ends_ns))
                first = l;
        }
        if (!first)
            break;
        refill(first->ends_ns);
        *first = (struct lease){0};
    }
    refill(w.now_ns);
}

static struct lease *lease_of(uint64_t id)
{
    struct lease *spare = NULL;

    for (size_t i = 0; i < 64; i++) {
        if (w.leases[i].ends_ns != 0 && w.leases[i].id == id)
            return &w.leases[i];
        if (w.leases[i].ends_ns == 0)
            spare = &w.leases[i];
    }
    return spare;
}

static struct rn_grant run(const struct rn_codec_lease_request *ask)
{
    struct lease *l = lease_of(ask->holder);
    uint64_t left, least = ask->least;

    end_leases();
    if (l->ends_ns != 0 && l->call >= ask->call)
        return (struct rn_grant){0};
    bool kept = l->ends_ns != 0 && ask->keep <= l->units;

    if (kept && ask->back <= l->units - ask->keep)
        w.level += (int64_t)ask->back * EACH;
    left = (uint64_t)(w.level / EACH);
    uint64_t share = left / 2 > least ? left / 2 : least < left ? least : left;
    uint64_t granted = ask->want < share ? ask->want : share;

    w.level -= (int64_t)granted * EACH;
    w.grants += granted > 0;
    *l = (struct lease){.id = ask->holder,
                        .call = ask->call,
                        .units = (kept ? ask->keep : 0) + granted,
                        .ends_ns = w.now_ns + ask->lease_ns};
    if (l->units == 0)
        *l = (struct lease){0};
    return (struct rn_grant){.granted = granted,
                             .left = left - granted,
                             .retry_after_ns = granted < least ? EACH : 0,
                             .lease_ns = ask->lease_ns,
                             .kept = kept};
}

static void post(struct message message)
{
    static const int64_t delays[] = {0, 0, 0, MS / 10, MS, 20 * MS, 60 * MS, 110 * MS};

    if (dice(50) == 0)
        return;
    for (size_t i = 0; i < ON_THE_WAY; i++)
        if (w.way[i].at_ns == 0) {
            w.way[i] = message;
            w.way[i].at_ns = w.now_ns + 1 + delays[dice(dice(4) == 0 ? 8 : 4)];
            return;
        }
}

static void spend(size_t node, uint64_t units)
{
    rn_lease_expire(&w.nodes[node], w.now_ns);
    rn_sizing_note(&w.nodes[node].demand, units, w.now_ns);
    if (!rn_lease_spend(&w.nodes[node], units))
        return;
    w.full_ns = (w.full_ns > w.now_ns ? w.full_ns : w.now_ns) + (int64_t)units * EACH;
    if (w.full_ns - w.now_ns - BURST * EACH > w.excess)
        w.excess = w.full_ns - w.now_ns - BURST * EACH;
    w.spent += (int64_t)units;
}

static void call(size_t node, bool all_back)
{
    struct rn_lease *h = &w.nodes[node];
    struct message m = {.node = node};

    rn_lease_expire(h, w.now_ns);
    if (all_back)
        rn_lease_ask_out(h, w.now_ns, &m.request);
    else
        rn_lease_ask(h, 1, 1 + dice(60), w.now_ns, &m.request);
    m.request.holder = w.ids[node];
    m.request.call = ++w.calls[node];
    post(m);
}

static void arrive(struct message m)
{
    struct rn_lease *h = &w.nodes[m.node];

    if (!m.is_reply) {
        m.is_reply = true;
        m.grant = run(&m.request);
        post(m);
    } else if (w.ids[m.node] == m.request.holder && w.calls[m.node] == m.request.call &&
               h->in_flight) {
        rn_lease_take_in(h, &m.grant, w.now_ns);
    }
}

static void act(size_t node)
{
    struct rn_lease *h = &w.nodes[node];
    uint64_t chance = dice(100);

    if (chance == 0) { /* killed, and another comes */
        *h = fresh(1000, BURST);
        w.ids[node] = ++w.next_id;
    } else if (h->in_flight && w.now_ns - h->sent_ns > 30 * MS) {
        rn_lease_lose(h);
    } else if (!h->in_flight && (chance < 30 || h->units == 0)) {
        call(node, chance < 3);
    } else {
        spend(node, 1 + dice(8));
    }
}

static void let_pass(int64_t ns)
{
    int64_t until = w.now_ns + ns;

    for (;;) {
        struct message *first = NULL;

        for (size_t i = 0; i < ON_THE_WAY; i++)
            if (w.way[i].at_ns != 0 && w.way[i].at_ns <= until &&
                (!first || w.way[i].at_ns < first->at_ns))
                first = &w.way[i];
        if (!first)
            break;
        struct message m = *first;

        first->at_ns = 0;
        w.now_ns = m.at_ns;
        arrive(m);
    }
    w.now_ns = until;
}

static void live(uint64_t seed)
{
    memset(&w, 0, sizeof w);
    w.random = seed;
    w.now_ns = w.last_ns = BEGIN;
    w.level = BURST * EACH;
    for (size_t i = 0; i < NODES; i++) {
        w.nodes[i] = fresh(1000, BURST);
        w.ids[i] = ++w.next_id;
    }
    for (int step = 0; step < 3000; step++) {
        /* Now and then a freeze, long enough for leases to end and refill; then all at once. */
        let_pass(dice(40) == 0 ? (int64_t)dice(500) * MS : (int64_t)dice(2 * (uint64_t)MS));
        act(dice(NODES));
        for (size_t i = 0; i < NODES && step % 100 == 0; i++)
            spend(i, w.nodes[i].units);
        /* What the store has left is taken, too. */
        if (step % 100 == 0) {
            end_leases();
            w.full_ns = (w.full_ns > w.now_ns ? w.full_ns : w.now_ns) + w.level;
            w.level = 0;
        }
    }
}

static void together_they_never_spend_more_than_the_limit(void **state)
{
    int64_t grants = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 200; seed++) {
        live(seed);
        if (w.excess > 0)
            print_message("seed %lu: %ld us of refill too much\n", (unsigned long)seed,
                          (long)(w.excess / 1000));
        assert_int_equal(w.excess, 0);
        assert_true(w.spent > 1000);
        grants += w.grants;
    }
    assert_true(grants > 50000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(granted_units_can_be_spent_once),
        cmocka_unit_test(a_lower_factor_cuts_what_is_held_and_a_higher_one_adds_nothing),
        cmocka_unit_test(a_grant_is_cut_if_the_factor_falls_while_it_is_on_its_way),
        cmocka_unit_test(a_higher_factor_ends_refusals_that_are_known),
        cmocka_unit_test(the_deadline_counts_from_before_the_call_was_sent),
        cmocka_unit_test(a_grant_that_comes_too_late_is_burnt),
        cmocka_unit_test(a_call_says_what_is_held_and_a_lost_call_changes_nothing),
        cmocka_unit_test(what_the_store_does_not_know_of_is_dropped),
        cmocka_unit_test(units_renewed_in_time_are_not_lost_if_the_reply_is_late),
        cmocka_unit_test(a_lease_that_ends_with_its_window_ends_soon),
        cmocka_unit_test(kept_units_last_as_long_as_new_ones),
        cmocka_unit_test(only_units_spent_since_the_last_call_can_be_given_back),
        cmocka_unit_test(a_call_tells_when_the_lease_ends_unless_it_may_have_none),
        cmocka_unit_test(a_lease_asks_for_more_at_half_of_its_units_or_time),
        cmocka_unit_test(after_a_small_grant_a_lease_waits_before_it_asks_again),
        cmocka_unit_test(units_that_are_not_needed_are_given_back),
        cmocka_unit_test(together_they_never_spend_more_than_the_limit),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
