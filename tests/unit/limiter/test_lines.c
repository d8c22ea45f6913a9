/* SPDX-License-Identifier: Apache-2.0 */
/* Lines: order, turns, ends. Time is stepped; two `ration_waiting` are two threads. */
#include "line_fixture.h"

#include <poll.h>

struct world {
    struct ration *r;
    struct ration_waiting *waiting[2];
    struct desk desk;
};

static int set_up(void **state)
{
    struct world *w = calloc(1, sizeof *w);

    w->r = open_limits(NULL, 0);
    w->waiting[0] = new_waiting(w->r);
    w->waiting[1] = new_waiting(w->r);
    desk_init(&w->desk, "1 per second", RATION_TOKEN_BUCKET, 1);
    clock_ns = T0;
    decided = begun = 0;
    *state = w;
    return 0;
}

static int tear_down(void **state)
{
    struct world *w = *state;
    struct ration_waiting_totals totals;

    ration_waiting_totals(w->r, &totals);
    assert_int_equal(totals.waiting, 0);
    assert_int_equal(totals.lines, 0);
    assert_int_equal(totals.joined, totals.admitted + totals.left + totals.timed_out);
    ration_waiting_free(w->waiting[0]);
    ration_waiting_free(w->waiting[1]);
    ration_close(w->r);
    free(w);
    return 0;
}

static void arrive_all(struct world *w, struct client *clients, size_t n)
{
    for (size_t i = 0; i < n; i++)
        arrive(&clients[i], w->waiting[i % 2], w->r, &w->desk);
}

static void those_that_wait_go_in_order_when_they_fit(void **state)
{
    struct world *w = *state;
    struct client clients[6] = {0};

    arrive_all(w, clients, 6);
    assert_int_equal(clients[0].result, ADMITTED);
    for (unsigned i = 1; i < 6; i++)
        assert_int_equal(clients[i].result, WAITS);
    pass_time(w->waiting, 2, T0 + 10 * SECOND);
    for (unsigned i = 0; i < 6; i++) {
        assert_int_equal(clients[i].result, ADMITTED);
        assert_int_equal(clients[i].number, i + 1);
        assert_int_equal(clients[i].at_ns, T0 + i * SECOND);
    }
    assert_int_equal(w->desk.asked,
                     7); /* one refusal, then each once: an answer tells the next time */
}

static void a_higher_rank_goes_first(void **state)
{
    struct world *w = *state;
    struct client clients[4] = {{.cost = 1}, {.rank = 2}, {.rank = 1}, {.rank = 0}};

    arrive_all(w, clients, 4);
    pass_time(w->waiting, 2, T0 + 10 * SECOND);
    assert_int_equal(clients[3].number, 2);
    assert_int_equal(clients[2].number, 3);
    assert_int_equal(clients[1].number, 4);
}

static void one_that_leaves_hands_its_turn_to_the_next(void **state)
{
    struct world *w = *state;
    struct client clients[4] = {{.cost = 1}, {.cost = 1}, {.cost = 1}, {.cost = 1}};

    arrive_all(w, clients, 4);
    ration_waiter_leave(&clients[1].waiter);
    ration_waiter_leave(&clients[1].waiter); /* nothing */
    pass_time(w->waiting, 2, T0 + 10 * SECOND);
    assert_int_equal(clients[1].result, WAITS);
    assert_int_equal(clients[2].at_ns, T0 + SECOND);
    assert_int_equal(clients[3].at_ns, T0 + 2 * SECOND);
}

static void a_cheaper_one_that_becomes_the_head_asks_at_once(void **state)
{
    struct world *w = *state;
    struct client clients[3] = {{.cost = 8}, {.cost = 5}, {.cost = 2}};

    desk_init(&w->desk, "10 per minute", RATION_FIXED_WINDOW, 1);
    arrive_all(w, clients, 3);
    assert_int_equal(clients[2].result, WAITS);
    ration_waiter_leave(&clients[1].waiter);
    pass_time(w->waiting, 2, T0 + SECOND);
    assert_int_equal(clients[2].result, ADMITTED);
    assert_int_equal(clients[2].at_ns, T0);
}

static void nobody_waits_past_its_time(void **state)
{
    struct world *w = *state;
    struct client clients[5] = {{.cost = 1},
                                {.until_ns = T0 + 5 * SECOND},
                                {.until_ns = T0 + 2 * SECOND - 1},
                                {.until_ns = T0 + 2 * SECOND},
                                {.until_ns = T0 + 5 * SECOND}};

    arrive_all(w, clients, 5);
    assert_int_equal(clients[2].answer, RN_LINE_LATE); /* it is the second: too late at arrival */
    assert_int_equal(clients[2].result, REFUSED);
    assert_int_equal(clients[3].result, WAITS);
    desk_take(&w->desk, 0, clock_ns);
    clock_ns = T0 + SECOND; /* somebody else takes what they wait for */
    assert_true(desk_take(&w->desk, 1, clock_ns).allowed);
    pass_time(w->waiting, 2, T0 + 10 * SECOND);
    assert_int_equal(clients[1].at_ns, T0 + 2 * SECOND);
    assert_int_equal(clients[3].result, REFUSED);
    assert_int_equal(clients[3].at_ns, T0 + SECOND); /* as soon as it was clear */
    assert_int_equal(clients[4].result, ADMITTED);
}

static void time_is_over_at_its_end_if_nothing_is_known(void **state)
{
    struct world *w = *state;
    struct client clients[3] = {
        {.cost = 1}, {.until_ns = T0 + SECOND}, {.until_ns = T0 + 2 * SECOND}};

    desk_init(&w->desk, "1 concurrent", RATION_CONCURRENCY, 1);
    w->desk.polls = true;
    arrive_all(w, clients, 3);
    pass_time(w->waiting, 2, T0 + 10 * SECOND);
    assert_int_equal(clients[1].result, REFUSED);
    assert_int_equal(clients[1].at_ns, T0 + SECOND);
    assert_int_equal(clients[2].at_ns, T0 + 2 * SECOND);
    assert_in_range(w->desk.asked, 18, 30); /* every 50 ms, then ever less often */
}

static void a_poke_gives_the_head_its_turn(void **state)
{
    struct world *w = *state;
    struct client clients[3] = {0};

    arrive_all(w, clients, 3);
    w->desk.state[0] = 0; /* a reset */
    clock_ns += SECOND / 2;
    pass_time(w->waiting, 2, clock_ns);
    assert_int_equal(clients[1].result, WAITS);
    rn_lines_poke(w->r->lines, w->desk.key, clock_ns);
    pass_time(w->waiting, 2, clock_ns);
    assert_int_equal(clients[1].at_ns, T0 + SECOND / 2);
    assert_int_equal(clients[2].result, WAITS);
    w->desk.state[0] = 0;
    rn_lines_poke_all(w->r->lines, clock_ns);
    pass_time(w->waiting, 2, clock_ns);
    assert_int_equal(clients[2].result, ADMITTED);
}

static void a_poke_during_a_turn_is_not_lost(void **state)
{
    struct world *w = *state;
    struct client clients[2] = {0};
    struct rn_answer answer;

    arrive_all(w, clients, 2);
    clients[1].sleeps = true;
    clock_ns = T0 + SECOND;
    assert_true(desk_take(&w->desk, 1, clock_ns).allowed); /* by somebody else */
    ration_waiting_run(w->waiting[1], clock_ns);
    assert_int_equal(clients[1].turns, 1);
    answer = desk_take(&w->desk, 1, clock_ns); /* its turn: refused, but then ... */
    assert_false(answer.allowed);
    w->desk.state[0] = 0;
    rn_lines_poke(w->r->lines, w->desk.key, clock_ns);
    struct rn_line_refusal refusal = {.key = w->desk.key,
                                      .limit = &w->desk.limit,
                                      .units = 1,
                                      .size = 10,
                                      .verdict = desk_verdict(&w->desk, &answer)};

    assert_int_equal(
        rn_lines_join(w->r->lines, &clients[1].waiter, &refusal, T0 + ALWAYS, clock_ns),
        RN_LINE_JOINED);
    clients[1].sleeps = false;
    pass_time(w->waiting, 2, T0 + 3 * SECOND);
    assert_int_equal(clients[1].at_ns, T0 + SECOND + MS);
}

static void a_refusal_that_says_at_once_is_tried_again_after_a_millisecond(void **state)
{
    struct world *w = *state;
    struct client clients[2] = {0};

    desk_init(&w->desk, "1000000 per second burst 1", RATION_TOKEN_BUCKET, 1);
    arrive_all(w, clients, 2);
    pass_time(w->waiting, 2, T0 + SECOND);
    assert_int_equal(clients[1].at_ns, T0 + MS);
    assert_int_equal(w->desk.asked, 3);
}

static void a_full_line_refuses_unless_a_higher_rank_displaces(void **state)
{
    struct world *w = *state;
    struct client clients[6] = {{.cost = 1}, {.rank = 1}, {.rank = 1},
                                {.rank = 1}, {.rank = 0}, {.rank = 2}};

    w->desk.size = 2;
    arrive_all(w, clients, 6);
    assert_int_equal(clients[3].answer, RN_LINE_FULL);
    assert_int_equal(clients[4].result, WAITS);
    assert_int_equal(clients[5].answer, RN_LINE_FULL);
    ration_waiting_run(w->waiting[0], clock_ns);
    assert_int_equal(clients[2].result, REFUSED); /* the last of a lower rank */
    pass_time(w->waiting, 2, T0 + 10 * SECOND);
    assert_int_equal(clients[4].at_ns, T0 + SECOND);
    assert_int_equal(clients[1].at_ns, T0 + 2 * SECOND);
}

static void a_process_has_room_for_so_many(void **state)
{
    struct world *w = *state;
    struct client clients[4] = {0};
    struct ration_waiting_totals totals;

    ration_waiting_set_most(w->r, 2);
    arrive_all(w, clients, 4);
    assert_int_equal(clients[3].answer, RN_LINE_FULL);
    ration_waiting_totals(w->r, &totals);
    assert_int_equal(totals.waiting, 2);
    assert_int_equal(totals.refused_full, 1);
    pass_time(w->waiting, 2, T0 + 10 * SECOND);
    ration_waiting_set_most(w->r, 0);
    arrive_all(w, clients, 1);
    arrive_all(w, clients, 1);
    assert_int_equal(clients[0].result, REFUSED);
}

static void a_thread_that_sleeps_does_not_hold_up_the_others(void **state)
{
    struct world *w = *state;
    struct client clients[4] = {0};

    arrive(&clients[0], w->waiting[0], w->r, &w->desk);
    arrive(&clients[1], w->waiting[0], w->r, &w->desk);
    arrive(&clients[2], w->waiting[1], w->r, &w->desk);
    arrive(&clients[3], w->waiting[1], w->r, &w->desk);
    pass_time(w->waiting + 1, 1, T0 + SECOND + 99 * MS); /* the first does not run */
    assert_int_equal(clients[2].result, WAITS);
    pass_time(w->waiting + 1, 1, T0 + SECOND + 200 * MS);
    assert_int_equal(clients[2].result, ADMITTED);
    pass_time(w->waiting + 1, 1, T0 + 4 * SECOND);
    assert_int_equal(clients[2].at_ns, T0 + SECOND + 100 * MS);
    assert_int_equal(clients[3].at_ns, T0 + 2 * SECOND + 100 * MS); /* not 100 ms more */
    ration_waiting_run(w->waiting[0], clock_ns);
    assert_int_equal(clients[1].at_ns, T0 + 4 * SECOND);
}

/* After a SIGSTOP all timers are overdue at once, those by which others would be passed, too. */
static void a_process_that_slept_keeps_the_order(void **state)
{
    struct world *w = *state;
    struct client clients[20] = {0};

    desk_init(&w->desk, "5 per 2 seconds", RATION_FIXED_WINDOW, 1);
    for (unsigned i = 0; i < 20; i++)
        arrive(&clients[i], w->waiting[i < 15 ? 0 : i % 2], w->r, &w->desk);
    for (unsigned i = 1; i <= 3; i++) {
        clock_ns = T0 + i * 4 * SECOND;
        for (unsigned j = 0; j < 6; j++)
            ration_waiting_run(w->waiting[(i + j) % 2], clock_ns);
    }
    for (unsigned i = 0; i < 20; i++) {
        assert_int_equal(clients[i].result, ADMITTED);
        assert_int_equal(clients[i].number, i + 1);
    }
}

static void a_turn_that_does_not_end_is_passed_after_a_while(void **state)
{
    struct world *w = *state;
    struct client clients[3] = {0};

    arrive_all(w, clients, 3);
    clients[1].sleeps = true;
    pass_time(w->waiting, 2, T0 + 2 * SECOND);
    assert_int_equal(clients[1].turns, 1);
    assert_int_equal(clients[2].result, WAITS);
    pass_time(w->waiting, 2, T0 + 3 * SECOND);
    assert_int_equal(clients[2].result, ADMITTED);
    finish(&clients[1], true, NULL, clock_ns);
}

static void an_error_of_one_passes_the_turn_on(void **state)
{
    struct world *w = *state;
    struct client clients[3] = {0};

    arrive_all(w, clients, 3);
    clients[1].sleeps = true;
    pass_time(w->waiting, 2, T0 + SECOND);
    assert_int_equal(clients[1].turns, 1);
    finish(&clients[1], false, NULL, clock_ns);
    pass_time(w->waiting, 2, T0 + SECOND);
    assert_int_equal(clients[2].result, ADMITTED);
}

/* At a window's opening all that fit have their turn at once, and one more of the same thread. */
static void those_that_fit_have_their_turn_together_in_a_shared_store(void **state)
{
    struct world *w = *state;
    struct client clients[8] = {0};

    desk_init(&w->desk, "3 per minute", RATION_FIXED_WINDOW, 1);
    w->desk.batches = true;
    for (unsigned i = 0; i < 8; i++) {
        clients[i].sleeps = true;
        arrive(&clients[i], w->waiting[0], w->r, &w->desk);
    }
    clock_ns = T0 + MINUTE;
    ration_waiting_run(w->waiting[0], clock_ns);
    for (unsigned i = 3; i < 8; i++)
        assert_int_equal(clients[i].turns, i < 7);
    for (unsigned i = 3; i < 7; i++)
        assert_int_equal(clients[i].last_turn, i - 2);
    for (unsigned i = 3; i < 7; i++)
        ask_at(&clients[i], clock_ns);
    assert_int_equal(clients[5].result, ADMITTED);
    assert_int_equal(clients[6].result, WAITS);
    for (unsigned i = 3; i < 8; i++)
        clients[i].sleeps = false;
    pass_time(w->waiting, 2, T0 + 3 * MINUTE);
    assert_int_equal(clients[6].at_ns, T0 + 2 * MINUTE);
    assert_int_equal(clients[7].at_ns, T0 + 2 * MINUTE);
}

/* Of two steps, and of two threads: by their own calls of the store, which are one after the other.
 */
static void one_that_would_overtake_in_a_call_waits_for_its_own_turn(void **state)
{
    static const enum rn_line_steps steps[] = {RN_STEPS_TAKE, RN_STEPS_LOOK, RN_STEPS_LOOK,
                                               RN_STEPS_TAKE, RN_STEPS_MORE, RN_STEPS_MORE,
                                               RN_STEPS_TAKE, RN_STEPS_TAKE};
    static const unsigned last[] = {2, 3, 4, 5, 6, 7};
    struct world *w = *state;
    struct client first[10] = {0}, clients[8] = {0};

    desk_init(&w->desk, "10 per minute", RATION_FIXED_WINDOW, 1);
    w->desk.batches = true;
    for (unsigned i = 0; i < 10; i++)
        arrive(&first[i], w->waiting[0], w->r, &w->desk);
    for (unsigned i = 0; i < 8; i++) {
        clients[i].steps = steps[i];
        arrive(&clients[i], w->waiting[i == 7], w->r, &w->desk);
        clients[i].sleeps = true;
    }
    clock_ns = T0 + MINUTE;
    for (unsigned batch = 0, next = 0; batch < COUNT(last); batch++) {
        ration_waiting_run(w->waiting[0], clock_ns);
        ration_waiting_run(w->waiting[1], clock_ns);
        for (unsigned i = next; i < 8; i++)
            assert_int_equal(clients[i].turns, i <= last[batch]);
        while (next <= last[batch])
            ask_at(&clients[next++], clock_ns);
    }
    assert_int_equal(clients[7].result, ADMITTED);
}

/* For want of a fiber. Its call would follow, when the limit may have room again. */
static void one_that_begins_late_waits_for_those_before_it(void **state)
{
    struct world *w = *state;
    struct client clients[4] = {0};

    desk_init(&w->desk, "2 per minute", RATION_FIXED_WINDOW, 1);
    w->desk.batches = true;
    for (unsigned i = 0; i < 4; i++)
        arrive(&clients[i], w->waiting[0], w->r, &w->desk);
    clients[2].sleeps = clients[3].sleeps = true;
    clock_ns = T0 + MINUTE;
    ration_waiting_run(w->waiting[0], clock_ns);
    assert_int_equal(clients[3].turns, 1);
    ask_at(&clients[3], clock_ns);
    assert_int_equal(clients[3].result, WAITS);
    assert_int_equal(w->desk.asked, 3); /* not again */
    ask_at(&clients[2], clock_ns);
    clients[3].sleeps = false;
    pass_time(w->waiting, 2, T0 + MINUTE + SECOND);
    assert_int_equal(clients[3].result, ADMITTED);
}

/* Between its look and its charge. */
static void one_that_stands_behind_another_knows_it(void **state)
{
    struct world *w = *state;
    struct client clients[4] = {0};

    desk_init(&w->desk, "2 per minute", RATION_FIXED_WINDOW, 1);
    w->desk.batches = true;
    for (unsigned i = 0; i < 4; i++)
        arrive(&clients[i], w->waiting[0], w->r, &w->desk);
    clients[2].sleeps = clients[3].sleeps = true;
    clock_ns = T0 + MINUTE;
    ration_waiting_run(w->waiting[0], clock_ns);
    assert_false(rn_lines_is_behind(w->r->lines, &clients[3].waiter));
    (void)desk_take(&w->desk, 2, clock_ns); /* another node */
    ask_at(&clients[2], clock_ns);
    assert_int_equal(clients[2].result, WAITS);
    assert_true(rn_lines_is_behind(w->r->lines, &clients[3].waiter));
    assert_false(rn_lines_is_behind(w->r->lines, &clients[2].waiter));
    ration_waiter_leave(&clients[2].waiter);
    assert_false(rn_lines_is_behind(w->r->lines, &clients[3].waiter));
    ration_waiter_leave(&clients[3].waiter);
}

static void one_that_is_entrusted_has_its_turn_in_the_other_thread(void **state)
{
    struct world *w = *state;
    struct client clients[5] = {[4] = {.until_ns = T0 + 2 * SECOND}};

    arrive_all(w, clients, 5);
    assert_false(rn_lines_is_shared(&clients[1].waiter));
    rn_lines_entrust(&clients[1].waiter, w->waiting[0]);
    rn_lines_poke(w->r->lines, w->desk.key, clock_ns); /* in the mailbox of its thread */
    rn_lines_entrust(&clients[2].waiter, w->waiting[1]);
    rn_lines_entrust(&clients[4].waiter, w->waiting[1]);
    clock_ns = T0 + SECOND;
    ration_waiting_run(w->waiting[1], clock_ns);
    assert_int_equal(clients[1].result, WAITS);
    ration_waiting_run(w->waiting[0], clock_ns);
    assert_int_equal(clients[1].result, ADMITTED);
    clock_ns = T0 + 2 * SECOND;
    ration_waiting_run(w->waiting[0], clock_ns);
    assert_int_equal(clients[2].result, WAITS);
    ration_waiting_run(w->waiting[1], clock_ns);
    assert_int_equal(clients[2].result, ADMITTED);
    assert_int_equal(clients[4].result, REFUSED);
    pass_time(w->waiting, 2, T0 + 3 * SECOND);
    assert_int_equal(clients[3].result, ADMITTED);
}

/* Another passes it, as its thread sleeps, too long. */
static void one_that_is_called_does_not_go_ahead_past_its_time(void **state)
{
    struct world *w = *state;
    struct client clients[3] = {[1] = {.until_ns = T0 + 2 * SECOND}};

    arrive(&clients[0], w->waiting[0], w->r, &w->desk);
    arrive(&clients[1], w->waiting[0], w->r, &w->desk);
    arrive(&clients[2], w->waiting[1], w->r, &w->desk);
    pass_time(w->waiting + 1, 1, T0 + SECOND + 200 * MS);
    assert_int_equal(clients[2].result, ADMITTED);
    clock_ns = T0 + 3 * SECOND;
    ration_waiting_run(w->waiting[0], clock_ns);
    assert_int_equal(clients[1].result, REFUSED);
    assert_false(rn_lines_any(w->r->lines));
}

static void a_bound_that_never_ends_is_none(void **state)
{
    struct world *w = *state;
    struct client clients[2] = {0};

    arrive(&clients[0], w->waiting[0], w->r, &w->desk);
    clients[1] = (struct client){
        .waiter = {.waiting = w->waiting[0], .turn = client_turn, .most_ns = RATION_NEVER},
        .r = w->r,
        .desk = &w->desk,
        .cost = 1,
        .until_ns = T0 + MINUTE};
    ask_at(&clients[1], clock_ns);
    assert_int_equal(clients[1].result, WAITS);
    pass_time(w->waiting, 2, T0 + SECOND);
    assert_int_equal(clients[1].result, ADMITTED);
}

/* A window that nobody used is lost: no more than one may be called together, and one that asks for
 * the next. */
static void no_more_than_the_capacity_have_their_turn_together(void **state)
{
    struct world *w = *state;
    struct client clients[12] = {0};
    unsigned turns = 0;

    desk_init(&w->desk, "3 per minute", RATION_FIXED_WINDOW, 1);
    w->desk.batches = true;
    for (unsigned i = 0; i < 12; i++)
        arrive(&clients[i], w->waiting[0], w->r, &w->desk);
    for (unsigned i = 3; i < 12; i++)
        clients[i].sleeps = true;
    clock_ns = T0 + 4 * MINUTE + SECOND;
    ration_waiting_run(w->waiting[0], clock_ns);
    for (unsigned i = 3; i < 12; i++)
        turns += clients[i].turns;
    assert_int_equal(turns, 4);
    for (unsigned i = 3; i < 12; i++)
        ration_waiter_leave(&clients[i].waiter);
}

static void a_stop_ends_all_waits_by_its_time(void **state)
{
    struct world *w = *state;
    struct client clients[4] = {0};

    arrive_all(w, clients, 4);
    ration_waiting_end_by(w->waiting[0], T0 + SECOND + 1);
    ration_waiting_end_by(w->waiting[1], T0 + SECOND + 1);
    ration_waiting_run(w->waiting[0], clock_ns);
    ration_waiting_run(w->waiting[1], clock_ns);
    pass_time(w->waiting, 2, T0 + 2 * SECOND);
    assert_int_equal(clients[1].result, ADMITTED);
    assert_int_equal(clients[2].at_ns, T0 + SECOND + 1);
    assert_int_equal(clients[3].at_ns, T0 + SECOND + 1);
    assert_int_equal(clients[3].result, REFUSED);
}

static void a_clock_that_is_set_back_keeps_nobody_longer(void **state)
{
    struct world *w = *state;
    struct client clients[2] = {{.cost = 1}, {.until_ns = T0 + 5 * SECOND}};

    desk_init(&w->desk, "1 concurrent", RATION_CONCURRENCY, 1);
    arrive_all(w, clients, 2);
    ration_waiting_run(w->waiting[1], T0);
    clock_ns = T0 - MINUTE;
    ration_waiting_run(w->waiting[1], clock_ns);
    pass_time(w->waiting, 2, T0 - MINUTE + 10 * SECOND);
    assert_int_equal(clients[1].result, REFUSED);
    assert_int_equal(clients[1].at_ns, T0 - MINUTE + 5 * SECOND);
}

static unsigned woken;

static void count_wake(void *arg)
{
    (void)arg;
    woken++;
}

static void another_thread_is_woken_when_its_turn_comes_sooner(void **state)
{
    struct world *w = *state;
    struct ration_waiting *sleeper = NULL;
    struct client clients[3] = {0};

    woken = 0;
    assert_int_equal(ration_waiting_new(w->r, count_wake, NULL, &sleeper), 0);
    arrive(&clients[0], w->waiting[0], w->r, &w->desk);
    arrive(&clients[1], w->waiting[0], w->r, &w->desk);
    arrive(&clients[2], sleeper, w->r, &w->desk);
    assert_true(ration_waiting_next(sleeper, clock_ns) > SECOND);
    assert_int_equal(woken, 0);
    ration_waiter_leave(&clients[1].waiter);
    assert_int_equal(woken, 1);
    assert_int_equal(ration_waiting_next(sleeper, clock_ns), SECOND);
    rn_lines_poke(w->r->lines, w->desk.key, clock_ns);
    assert_int_equal(woken, 2);
    pass_time(&sleeper, 1, T0 + 2 * SECOND);
    assert_int_equal(clients[2].at_ns, T0 + SECOND);
    ration_waiting_free(sleeper);
}

static void a_descriptor_is_readable_when_somebody_is_due(void **state)
{
    struct world *w = *state;
    struct client clients[2] = {0};
    struct pollfd pollfd = {.fd = ration_waiting_fd(w->waiting[1]), .events = POLLIN};

    assert_true(pollfd.fd >= 0);
    assert_int_equal(ration_waiting_fd(w->waiting[1]), pollfd.fd);
    ration_waiting_run(w->waiting[1], clock_ns);
    assert_int_equal(poll(&pollfd, 1, 0), 0);
    arrive_all(w, clients, 2);
    assert_int_equal(poll(&pollfd, 1, 10000), 1); /* it must set its timer */
    ration_waiting_run(w->waiting[1], clock_ns);
    rn_lines_poke(w->r->lines, w->desk.key, clock_ns);
    assert_int_equal(poll(&pollfd, 1, 10000), 1);
    clock_ns = T0 + SECOND;
    ration_waiting_run(w->waiting[1], clock_ns);
    assert_int_equal(clients[1].result, ADMITTED);
    assert_int_equal(poll(&pollfd, 1, 0), 0);
}

static void a_line_can_be_looked_at(void **state)
{
    struct world *w = *state;
    struct client clients[3] = {{.cost = 1}, {.rank = 0}, {.rank = 2}};
    struct ration_line line;

    rn_lines_look(w->r->lines, w->desk.key, 1, 1, clock_ns, &line);
    assert_int_equal(line.waiting, 0);
    arrive_all(w, clients, 3);
    assert_true(rn_lines_any(w->r->lines));
    assert_true(rn_lines_may_stand(w->r->lines, w->desk.key));
    assert_false(rn_lines_may_stand(w->r->lines, w->desk.key + 1));
    rn_lines_look(w->r->lines, w->desk.key, 1, 1, clock_ns, &line);
    assert_int_equal(line.waiting, 2);
    assert_int_equal(line.ahead, 1);
    assert_int_equal(line.opens_after_ns, SECOND);
    assert_int_equal(line.wait_at_least_ns, 2 * SECOND);
    pass_time(w->waiting, 2, T0 + 10 * SECOND);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(those_that_wait_go_in_order_when_they_fit),
        TEST(a_higher_rank_goes_first),
        TEST(one_that_leaves_hands_its_turn_to_the_next),
        TEST(a_cheaper_one_that_becomes_the_head_asks_at_once),
        TEST(nobody_waits_past_its_time),
        TEST(time_is_over_at_its_end_if_nothing_is_known),
        TEST(a_poke_gives_the_head_its_turn),
        TEST(a_poke_during_a_turn_is_not_lost),
        TEST(a_refusal_that_says_at_once_is_tried_again_after_a_millisecond),
        TEST(a_full_line_refuses_unless_a_higher_rank_displaces),
        TEST(a_process_has_room_for_so_many),
        TEST(a_thread_that_sleeps_does_not_hold_up_the_others),
        TEST(a_process_that_slept_keeps_the_order),
        TEST(a_turn_that_does_not_end_is_passed_after_a_while),
        TEST(an_error_of_one_passes_the_turn_on),
        TEST(those_that_fit_have_their_turn_together_in_a_shared_store),
        TEST(one_that_would_overtake_in_a_call_waits_for_its_own_turn),
        TEST(one_that_begins_late_waits_for_those_before_it),
        TEST(one_that_stands_behind_another_knows_it),
        TEST(one_that_is_entrusted_has_its_turn_in_the_other_thread),
        TEST(one_that_is_called_does_not_go_ahead_past_its_time),
        TEST(a_bound_that_never_ends_is_none),
        TEST(no_more_than_the_capacity_have_their_turn_together),
        TEST(a_stop_ends_all_waits_by_its_time),
        TEST(a_clock_that_is_set_back_keeps_nobody_longer),
        TEST(another_thread_is_woken_when_its_turn_comes_sooner),
        TEST(a_descriptor_is_readable_when_somebody_is_due),
        TEST(a_line_can_be_looked_at),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
