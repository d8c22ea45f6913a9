/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The waiters of one thread: a heap of the times at which it must look at them, and a mailbox in
 * which other threads put those that it must look at again.
 *
 * The heap is a pairing heap whose links are in the waiters. Only the thread touches it. `armed_ns`
 * is when the thread will look at its mailbox by itself: INT64_MIN while it is awake. A sender puts
 * a waiter into the mailbox, then reads armed_ns; the thread sets armed_ns, then looks whether the
 * mailbox is empty. So one of them sees the other.
 */
#include <ration/wait.h>

#include <assert.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "limiter/limiter.h"
#include "limiter/line/line_internal.h"
#include "limiter/line/order.h"

#define SECOND_NS INT64_C(1000000000)
#define TURNS_MOST 10000       /* in one run */
#define STEP_BACK_NS SECOND_NS /* a clock that is back by this much was set */

struct ration_waiting {
    struct ration *r;
    void (*wake)(void *arg);
    void *arg;
    struct rn_waiter *heap; /* the least due_ns on top */
    int64_t last_ns;        /* of the last run */
    int fd;                 /* a timer; -1: none */
    int64_t ends_ns;        /* of the last run */
    bool running;           /* turns are being called */

    /* Touched by other threads, atomically. */
    struct rn_waiter *mailbox;
    int64_t armed_ns;
    int64_t end_ns;
    uint32_t wakers;                  /* that may still call `wake` */
    bool wake_pending;                /* a sender has it in its list, */
    struct ration_waiting *wake_next; /* by this, which is that sender's */
};

int ration_waiting_new(struct ration *r, void (*wake)(void *arg), void *arg,
                       struct ration_waiting **out)
{
    struct ration_waiting *waiting = malloc(sizeof *waiting);

    if (!waiting)
        return RATION_ENOMEM;
    *waiting = (struct ration_waiting){.r = r,
                                       .wake = wake,
                                       .arg = arg,
                                       .fd = -1,
                                       .last_ns = INT64_MIN,
                                       .armed_ns = RATION_NEVER,
                                       .end_ns = RATION_NEVER,
                                       .ends_ns = RATION_NEVER};
    __atomic_fetch_add(&r->lines->threads, 1, __ATOMIC_RELAXED);
    *out = waiting;
    return 0;
}

void ration_waiting_free(struct ration_waiting *waiting)
{
    if (!waiting)
        return;
    assert(!waiting->heap && !waiting->mailbox);
    while (__atomic_load_n(&waiting->wakers, __ATOMIC_ACQUIRE) != 0)
        sched_yield();
    __atomic_fetch_sub(&waiting->r->lines->threads, 1, __ATOMIC_RELAXED);
    if (waiting->fd >= 0)
        close(waiting->fd);
    free(waiting);
}

static void set_timer(const struct ration_waiting *waiting, int64_t after_ns)
{
    struct itimerspec at = {{0}, {after_ns / SECOND_NS, after_ns % SECOND_NS}};

    (void)timerfd_settime(waiting->fd, 0, &at, NULL);
}

/* --- the heap --------------------------------------------------------------------------------- */

/* Those that are due at the same time, as those called together are, go in their order. */
static bool is_sooner(const struct rn_waiter *a, const struct rn_waiter *b)
{
    return a->due_ns != b->due_ns ? a->due_ns < b->due_ns
                                  : rn_order_is_before(a, b->rank, b->arrival);
}

static struct rn_waiter *merge(struct rn_waiter *a, struct rn_waiter *b)
{
    if (!a || !b)
        return a ? a : b;
    if (is_sooner(b, a)) {
        struct rn_waiter *swap = a;

        a = b;
        b = swap;
    }
    b->prev = a;
    b->next = a->child;
    if (a->child)
        a->child->prev = b;
    a->child = b;
    a->next = a->prev = NULL;
    return a;
}

/* Merges siblings in pairs, then the pairs from the last to the first. */
static struct rn_waiter *merge_all(struct rn_waiter *first)
{
    struct rn_waiter *pairs = NULL, *root = NULL;

    while (first) {
        struct rn_waiter *second = first->next, *rest = second ? second->next : NULL;
        struct rn_waiter *pair = merge(first, second);

        pair->next = pairs;
        pairs = pair;
        first = rest;
    }
    while (pairs) {
        struct rn_waiter *rest = pairs->next;

        root = merge(root, pairs);
        pairs = rest;
    }
    if (root)
        root->next = root->prev = NULL;
    return root;
}

/* `prev` is the sibling before, or the parent. */
static void heap_remove(struct ration_waiting *waiting, struct rn_waiter *w)
{
    struct rn_waiter *below = merge_all(w->child);

    if (waiting->heap == w) {
        waiting->heap = below;
    } else {
        if (w->prev->child == w)
            w->prev->child = w->next;
        else
            w->prev->next = w->next;
        if (w->next)
            w->next->prev = w->prev;
        waiting->heap = merge(waiting->heap, below);
    }
    w->child = w->next = w->prev = NULL;
    w->is_due = false;
}

void rn_line_set_due(struct rn_waiter *w, int64_t due_ns)
{
    struct ration_waiting *waiting = w->waiting;

    if (w->is_due && w->due_ns == due_ns)
        return;
    if (w->is_due)
        heap_remove(waiting, w);
    w->due_ns = due_ns;
    if (due_ns == RATION_NEVER)
        return;
    w->is_due = true;
    w->child = w->next = w->prev = NULL;
    waiting->heap = merge(waiting->heap, w);
    if (waiting->fd >= 0 && due_ns < __atomic_load_n(&waiting->armed_ns, __ATOMIC_RELAXED))
        set_timer(waiting, 1); /* the run sets it right */
}

/* --- the mailbox ------------------------------------------------------------------------------ */

void rn_line_post(struct rn_waiter *w, int64_t due_ns, struct rn_wakes *wakes)
{
    struct ration_waiting *waiting = w->waiting;

    if (!__atomic_exchange_n(&w->is_mailed, true, __ATOMIC_SEQ_CST)) {
        w->mail = __atomic_load_n(&waiting->mailbox, __ATOMIC_RELAXED);
        while (!__atomic_compare_exchange_n(&waiting->mailbox, &w->mail, w, true, __ATOMIC_SEQ_CST,
                                            __ATOMIC_RELAXED))
            continue;
    }
    if (__atomic_load_n(&waiting->armed_ns, __ATOMIC_SEQ_CST) <= due_ns ||
        __atomic_exchange_n(&waiting->wake_pending, true, __ATOMIC_SEQ_CST))
        return;
    __atomic_fetch_add(&waiting->wakers, 1, __ATOMIC_RELAXED);
    waiting->wake_next = wakes->first;
    wakes->first = waiting;
}

void rn_line_wake(struct rn_wakes *wakes)
{
    while (wakes->first) {
        struct ration_waiting *waiting = wakes->first;

        wakes->first = waiting->wake_next;
        __atomic_store_n(&waiting->wake_pending, false, __ATOMIC_SEQ_CST);
        if (waiting->wake)
            waiting->wake(waiting->arg);
        if (__atomic_load_n(&waiting->fd, __ATOMIC_ACQUIRE) >= 0)
            set_timer(waiting, 1);
        __atomic_fetch_sub(&waiting->wakers, 1, __ATOMIC_RELEASE);
    }
}

static void read_mail(struct ration_waiting *waiting)
{
    struct rn_waiter *w = __atomic_exchange_n(&waiting->mailbox, NULL, __ATOMIC_SEQ_CST);

    while (w) {
        struct rn_waiter *rest = w->mail;

        __atomic_store_n(&w->is_mailed, false, __ATOMIC_SEQ_CST);
        rn_line_set_due(w, rn_line_table_due_ns(waiting->r->lines, w));
        w = rest;
    }
}

void rn_line_forget(struct rn_waiter *w)
{
    rn_line_set_due(w, RATION_NEVER);
    if (__atomic_load_n(&w->is_mailed, __ATOMIC_SEQ_CST))
        read_mail(w->waiting);
}

void rn_lines_entrust(struct ration_waiter *waiter, struct ration_waiting *to)
{
    struct rn_waiter *w = (struct rn_waiter *)(void *)waiter;
    struct rn_lines *lines = to->r->lines;
    struct rn_wakes wakes = {0};
    struct rn_line_stripe *stripe;

    for (;;) {
        stripe = rn_line_table_lock(lines, w->key);
        if (!__atomic_load_n(&w->is_mailed, __ATOMIC_SEQ_CST))
            break;
        rn_line_table_unlock(stripe, NULL);
        read_mail(w->waiting); /* it must be in one mailbox at most */
    }
    rn_line_set_due(w, RATION_NEVER);
    w->waiting = to;
    rn_line_post(w, INT64_MIN, &wakes);
    rn_line_table_unlock(stripe, &wakes);
}

bool rn_line_is_running(const struct ration_waiting *waiting)
{
    return waiting->running;
}

/* --- running ---------------------------------------------------------------------------------- */

int64_t rn_line_end_ns(const struct ration_waiting *waiting)
{
    return __atomic_load_n(&waiting->end_ns, __ATOMIC_RELAXED);
}

void ration_waiting_end_by(struct ration_waiting *waiting, int64_t at_ns)
{
    struct rn_wakes wakes = {waiting};

    __atomic_store_n(&waiting->end_ns, at_ns, __ATOMIC_SEQ_CST);
    if (__atomic_exchange_n(&waiting->wake_pending, true, __ATOMIC_SEQ_CST))
        return;
    __atomic_fetch_add(&waiting->wakers, 1, __ATOMIC_RELAXED);
    waiting->wake_next = NULL;
    rn_line_wake(&wakes);
}

/* Looks at all waiters: their ends have changed, or the clock was set back. */
static void look_at_all(struct ration_waiting *waiting, int64_t back_ns, int64_t now_ns)
{
    struct rn_lines *lines = waiting->r->lines;
    struct rn_waiter *todo = waiting->heap;

    waiting->heap = NULL;
    while (todo) { /* a list by `next`; the children of each come before what follows it */
        struct rn_waiter *w = todo, *child = w->child, *last = child;

        while (last && last->next)
            last = last->next;
        if (last)
            last->next = w->next;
        todo = child ? child : w->next;
        w->is_due = false;
        if (back_ns > 0)
            rn_line_table_shift(lines, w, back_ns, now_ns);
        rn_line_set_due(w, rn_line_table_due_ns(lines, w));
    }
}

void ration_waiting_run(struct ration_waiting *waiting, int64_t now_ns)
{
    int64_t now = rn_limiter_now(waiting->r, now_ns), back = 0, end, due;
    uint64_t expired;

    __atomic_store_n(&waiting->armed_ns, INT64_MIN, __ATOMIC_SEQ_CST);
    if (waiting->fd >= 0)
        (void)!read(waiting->fd, &expired, sizeof expired);
    if (waiting->last_ns != INT64_MIN && waiting->last_ns - now >= STEP_BACK_NS)
        back = waiting->last_ns - now;
    waiting->last_ns = waiting->last_ns > now && back == 0 ? waiting->last_ns : now;
    end = rn_line_end_ns(waiting);
    if (back != 0 || end != waiting->ends_ns)
        look_at_all(waiting, back, now);
    waiting->ends_ns = end;
    for (unsigned turns = 0; turns < TURNS_MOST;) {
        read_mail(waiting);
        struct rn_waiter *w = waiting->heap;

        if (!w || w->due_ns > now)
            break;
        heap_remove(waiting, w);
        if (!rn_line_table_begin(waiting->r->lines, w, now, &due)) {
            rn_line_set_due(w, due);
            continue;
        }
        turns++;
        waiting->running = true;
        w->turn((struct ration_waiter *)(void *)w);
        waiting->running = false;
    }
    if (waiting->fd >= 0)
        (void)ration_waiting_next(waiting, now);
}

int64_t ration_waiting_next(struct ration_waiting *waiting, int64_t now_ns)
{
    int64_t now = rn_limiter_now(waiting->r, now_ns), due, after;

    do {
        read_mail(waiting);
        due = waiting->heap ? waiting->heap->due_ns : RATION_NEVER;
        after = due == RATION_NEVER ? due : due > now ? due - now : 0;
        __atomic_store_n(&waiting->armed_ns, due, __ATOMIC_SEQ_CST);
        if (waiting->fd >= 0)
            set_timer(waiting, after == RATION_NEVER ? 0 : after == 0 ? 1 : after);
    } while (__atomic_load_n(&waiting->mailbox, __ATOMIC_SEQ_CST));
    return after;
}

int ration_waiting_fd(struct ration_waiting *waiting)
{
    if (waiting->fd >= 0)
        return waiting->fd;
    int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);

    if (fd < 0)
        return RATION_EIO;
    __atomic_store_n(&waiting->fd, fd, __ATOMIC_RELEASE);
    set_timer(waiting, 1); /* there may be waiters already */
    return fd;
}

void ration_waiter_leave(struct ration_waiter *waiter)
{
    if (rn_lines_waits(waiter))
        rn_lines_leave(waiter->waiting->r->lines, (struct rn_waiter *)(void *)waiter);
}

int64_t ration_waiter_rest(const struct ration_waiter *waiter, int64_t now_ns)
{
    const struct rn_waiter *w = (const struct rn_waiter *)(const void *)waiter;
    int64_t rest;

    if (!rn_lines_waits(waiter))
        return 0;
    rest = rn_line_end_ns(w->waiting);
    rest = w->until_ns < rest ? w->until_ns : rest;
    rest -= rn_limiter_now(w->waiting->r, now_ns);
    return rest > 0 ? rest : 0;
}

/* --- totals ----------------------------------------------------------------------------------- */

void ration_waiting_set_most(struct ration *r, uint64_t most)
{
    __atomic_store_n(&r->lines->most, most, __ATOMIC_RELAXED);
}

void ration_waiting_totals(const struct ration *r, struct ration_waiting_totals *totals)
{
    const struct rn_lines *lines = r->lines;
    const uint64_t *from = (const uint64_t *)&lines->totals;
    uint64_t *to = (uint64_t *)totals;

    for (size_t i = 0; i < sizeof *totals / sizeof *to; i++)
        to[i] = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
    totals->waiting = __atomic_load_n(&lines->waiting, __ATOMIC_RELAXED);
    totals->most = __atomic_load_n(&lines->most, __ATOMIC_RELAXED);
    totals->lines = __atomic_load_n(&lines->gate.lines, __ATOMIC_RELAXED);
}
