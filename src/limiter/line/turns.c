/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose turn it is in one line. All of it happens under the lock of the line.
 *
 * The first that stands has its turn when the line opens and nobody else has. Only its thread has a
 * timer for that. If that thread sleeps (a long callback, SIGSTOP), the others must not wait for
 * ever: each has a second, later timer, and takes its turn as well if it finds the line open and
 * its head not begun. The later its place in line, the longer it watches first, so that lines that
 * move cost those at their end little. Those passed keep their places and may begin at any time.
 * A thread that has slept itself, as all have after a SIGSTOP, watches for as long again.
 */
#include "limiter/line/line_internal.h"
#include "limiter/line/order.h"

#define MS INT64_C(1000000)
#define PASS_AFTER_NS (100 * MS) /* the head has not begun: the next has its turn as well */
#define PASS_MOST_NS (1000 * MS) /* the last of a long line looks after so long */
#define PASS_PLACES 8            /* so many places later, PASS_AFTER_NS more */
#define TURN_MOST_NS (1000 * MS) /* a decision that has begun takes longer: the same */
#define LATE_NS (50 * MS)        /* a thread that looks so late has slept itself */
#define BATCH_MOST 256

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t patience_ns(const struct rn_line *line, const struct rn_waiter *w)
{
    uint64_t place = rn_order_ahead(line->root, w->rank, w->arrival).count;

    return least(PASS_AFTER_NS * (int64_t)(1 + place / PASS_PLACES), PASS_MOST_NS);
}

/* From when on one goes ahead although others before it have not. */
static int64_t pass_ns(const struct rn_line *line, const struct rn_waiter *w)
{
    int64_t from = line->turns != 0    ? line->busy_ns + TURN_MOST_NS
                   : line->called != 0 ? line->busy_ns
                                       : line->opens_ns;

    from += patience_ns(line, w);
    return from > w->watches_ns ? from : w->watches_ns;
}

/* When a waiter that stands may begin. */
static int64_t begins_ns(const struct rn_line *line, struct rn_waiter *w, bool several)
{
    bool is_first = rn_order_first_standing(line->root) == w;

    if (is_first && line->turns == 0 && line->called == 0)
        return line->opens_ns;
    return is_first || several ? pass_ns(line, w) : RATION_NEVER;
}

static int64_t end_ns(const struct rn_waiter *w)
{
    return least(w->until_ns, rn_line_end_ns(w->waiting));
}

int64_t rn_turns_due_ns(const struct rn_line *line, struct rn_waiter *w, bool several)
{
    if (w->state == RN_WAITER_CALLED)
        return INT64_MIN;
    return w->state == RN_WAITER_STANDS ? least(end_ns(w), begins_ns(line, w, several))
                                        : RATION_NEVER;
}

static void call(struct rn_line *line, struct rn_waiter *w, struct rn_wakes *wakes)
{
    rn_waiter_set_state(w, RN_WAITER_CALLED);
    w->epoch = line->epoch;
    line->called++;
    rn_order_update(line->root, w);
    rn_line_post(w, INT64_MIN, wakes);
}

/* Nobody waits any longer for those before `w`, nor for those that are being decided. */
static void pass(struct rn_line *line, const struct rn_waiter *w, struct rn_wakes *wakes)
{
    struct rn_waiter *before;

    while ((before = rn_order_first_standing(line->root)) != w)
        call(line, before, wakes);
    line->called = line->turns = 0;
    line->epoch++;
}

/* Whether it is for `w` to pass those before it: its thread was awake all the time, and has nobody
 * else before it. */
static bool may_pass(struct rn_line *line, struct rn_waiter *w, int64_t now_ns,
                     struct rn_wakes *wakes)
{
    struct rn_waiter *before = rn_order_first(line->root);

    while (before != w && (before->waiting != w->waiting || before->state != RN_WAITER_STANDS))
        before = rn_order_next(line->root, before);
    if (before != w)
        rn_line_post(before, INT64_MIN, wakes);
    if (before == w && now_ns - w->due_ns <= LATE_NS)
        return true;
    w->watches_ns = now_ns + patience_ns(line, w);
    return false;
}

static bool is_counted(const struct rn_line *line, const struct rn_waiter *w)
{
    return w->epoch == line->epoch;
}

/* Whether two that follow each other may ask the store by the same calls, and are charged in their
 * order then: they are of one thread. One that wants less could fit where the one before it does
 * not, and one that needs no look would be charged before one that does: these must wait. */
static bool go_together(const struct rn_waiter *before, const struct rn_waiter *next)
{
    return next->waiting == before->waiting && next->steps >= before->steps &&
           next->steps < RN_STEPS_MORE && next->units + next->keep >= before->units + before->keep;
}

/* Those that fit, by the estimate, have their turn together with `first`, and so has one more,
 * which learns the next opening by the same call. */
static void call_batch(struct rn_line *line, const struct rn_waiter *first, int64_t now_ns,
                       struct rn_wakes *wakes)
{
    bool fits = line->estimate.exact;
    const struct rn_waiter *before = first;

    for (unsigned i = 0; i < BATCH_MOST; i++) {
        struct rn_waiter *next = rn_order_first_standing(line->root);

        if (!next || !go_together(before, next))
            return;
        struct rn_order_ahead ahead = rn_order_ahead(line->root, next->rank, next->arrival);
        uint64_t units = ahead.units + next->units + next->keep;

        /* However long ago it has opened, no more than the capacity fit at once. */
        fits = fits && units <= line->limit.cap && rn_estimate_at(&line->estimate, units) <= now_ns;
        /* One that must leave units looks before those that fit are charged: it would find room. */
        if (!fits && next->keep != 0)
            return;
        call(line, next, wakes);
        if (!fits)
            return;
        before = next;
    }
}

bool rn_turns_begin(struct rn_line *line, struct rn_waiter *w, int64_t now_ns, bool several,
                    struct rn_wakes *wakes)
{
    bool stands = w->state == RN_WAITER_STANDS, called = w->state == RN_WAITER_CALLED;

    if ((stands || called) && now_ns >= end_ns(w)) { /* its thread may have slept */
        bool was_first = rn_order_first_standing(line->root) == w;

        rn_turns_take_out(w);
        rn_waiter_set_state(w, RN_WAITER_OVER);
        if (was_first)
            rn_turns_reopen(line, w->units + w->keep);
        return true;
    }
    if (stands && now_ns < begins_ns(line, w, several))
        return false;
    if (!stands && !called)
        return false;
    bool is_first = stands && rn_order_first_standing(line->root) == w;
    bool opens = is_first && line->turns == 0 && line->called == 0;

    if (stands && !opens && !may_pass(line, w, now_ns, wakes))
        return false;
    if (stands && !opens)
        pass(line, w, wakes);
    line->called -= !stands && is_counted(line, w);
    rn_waiter_set_state(w, RN_WAITER_TURN);
    w->epoch = line->epoch;
    line->turns++;
    line->busy_ns = now_ns;
    rn_order_update(line->root, w);
    if (line->batches && opens)
        call_batch(line, w, now_ns, wakes);
    return true;
}

void rn_turns_take_out(struct rn_waiter *w)
{
    struct rn_line *line = w->line;

    if (is_counted(line, w)) {
        line->turns -= w->state == RN_WAITER_TURN;
        line->called -= w->state == RN_WAITER_CALLED;
    }
    rn_order_remove(&line->root, w);
    w->line = NULL;
}

void rn_turns_end(struct rn_waiter *w, struct rn_wakes *wakes)
{
    rn_turns_take_out(w);
    rn_waiter_set_state(w, RN_WAITER_OVER);
    rn_line_post(w, INT64_MIN, wakes);
}

void rn_turns_end_late(struct rn_line *line, struct rn_wakes *wakes)
{
    struct rn_waiter *late;

    while ((late = rn_order_find_late(line->root, &line->estimate)) != NULL)
        rn_turns_end(late, wakes);
}

void rn_turns_reopen(struct rn_line *line, uint64_t units)
{
    struct rn_waiter *next = rn_order_first_standing(line->root);

    if (!next)
        return;
    if (rn_estimate_move(&line->estimate, next->units + next->keep)) {
        line->opens_ns = line->estimate.at_ns;
    } else if (line->claims || next->units + next->keep < units) {
        /* It may fit where the other did not. */
        line->estimate.at_ns = RN_ESTIMATE_UNKNOWN;
        line->opens_ns = line->seen_ns;
    }
}

void rn_turns_hand_on(struct rn_line *line, struct rn_wakes *wakes)
{
    struct rn_waiter *next = rn_order_first_standing(line->root);

    if (next && line->turns == 0 && line->called == 0)
        rn_line_post(next, line->opens_ns, wakes);
}
