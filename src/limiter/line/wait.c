/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Waiting in line for threads, and a look at a line. A thread that waits sleeps on a condition
 * variable, which is signalled when its turn has come or it must look again.
 */
#include "limiter/line/wait.h"

#include <stdlib.h>
#include <time.h>

#include <ration/wait.h>

#include "base/clock.h"
#include "limiter/decide/workspace.h"
#include "limiter/limiter.h"
#include "limiter/line/gate.h"

/* The longest sleep: the clock of conditions stands while the machine is suspended, ours does not.
 */
#define NAP_NS RN_SECOND_NS

struct rn_wait_seat {
    struct ration_waiter waiter; /* first */
    struct rn_wait_seat *next;   /* unused ones */
    pthread_mutex_t lock;
    pthread_cond_t signal;
    bool signalled;
    bool called; /* its turn has come */
};

/* --- seats -------------------------------------------------------------------------------- */

void rn_wait_seats_init(struct rn_wait_seats *seats)
{
    pthread_mutex_init(&seats->lock, NULL);
    seats->unused = NULL;
}

static void free_seat(struct rn_wait_seat *seat)
{
    ration_waiting_free(seat->waiter.waiting);
    pthread_cond_destroy(&seat->signal);
    pthread_mutex_destroy(&seat->lock);
    free(seat);
}

void rn_wait_seats_done(struct rn_wait_seats *seats)
{
    for (struct rn_wait_seat *seat; (seat = seats->unused) != NULL;) {
        seats->unused = seat->next;
        free_seat(seat);
    }
    pthread_mutex_destroy(&seats->lock);
}

static void wake(void *arg)
{
    struct rn_wait_seat *seat = arg;

    pthread_mutex_lock(&seat->lock);
    seat->signalled = true;
    pthread_cond_signal(&seat->signal);
    pthread_mutex_unlock(&seat->lock);
}

static void turn(struct ration_waiter *waiter)
{
    ((struct rn_wait_seat *)(void *)waiter)->called = true;
}

static struct rn_wait_seat *new_seat(struct ration *r)
{
    struct rn_wait_seat *seat = calloc(1, sizeof *seat);
    pthread_condattr_t attributes;

    if (!seat)
        return NULL;
    pthread_mutex_init(&seat->lock, NULL);
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&seat->signal, &attributes);
    pthread_condattr_destroy(&attributes);
    seat->waiter.turn = turn;
    if (ration_waiting_new(r, wake, seat, &seat->waiter.waiting) == 0)
        return seat;
    free_seat(seat);
    return NULL;
}

/* NULL: out of memory. */
static struct rn_wait_seat *take_seat(struct ration *r)
{
    pthread_mutex_lock(&r->seats.lock);
    struct rn_wait_seat *seat = r->seats.unused;

    if (seat)
        r->seats.unused = seat->next;
    pthread_mutex_unlock(&r->seats.lock);
    return seat ? seat : new_seat(r);
}

static void return_seat(struct ration *r, struct rn_wait_seat *seat)
{
    pthread_mutex_lock(&r->seats.lock);
    seat->next = r->seats.unused;
    r->seats.unused = seat;
    pthread_mutex_unlock(&r->seats.lock);
}

/* --- sleeping ------------------------------------------------------------------------------ */

static void nap(struct rn_wait_seat *seat, int64_t longest_ns)
{
    struct timespec until;

    longest_ns = longest_ns < NAP_NS ? longest_ns : NAP_NS;
    clock_gettime(CLOCK_MONOTONIC, &until);
    longest_ns += until.tv_nsec;
    until.tv_sec += (time_t)(longest_ns / RN_SECOND_NS);
    until.tv_nsec = (long)(longest_ns % RN_SECOND_NS);
    pthread_mutex_lock(&seat->lock);
    while (!seat->signalled && pthread_cond_timedwait(&seat->signal, &seat->lock, &until) == 0)
        continue;
    seat->signalled = false;
    pthread_mutex_unlock(&seat->lock);
}

static void sleep_until_turn(struct ration *r, struct rn_wait_seat *seat)
{
    struct ration_waiting *waiting = seat->waiter.waiting;

    seat->called = false;
    while (!seat->called) {
        int64_t rest_ns = ration_waiting_next(waiting, ration_now(r));

        if (rest_ns > 0)
            nap(seat, rest_ns);
        ration_waiting_run(waiting, ration_now(r));
    }
}

int ration_wait(struct ration *r, const struct ration_request *request, struct ration_outcome *out)
{
    struct ration_request own = *request;
    struct rn_wait_seat *seat = take_seat(r);
    int code;

    if (!seat)
        return RATION_ENOMEM;
    own.waiter = &seat->waiter;
    while ((code = ration_decide(r, &own, RATION_NOW, out)) == RATION_EWAITS)
        sleep_until_turn(r, seat);
    return_seat(r, seat);
    return code;
}

int ration_wait_charge(struct ration *r, struct ration_charge *c)
{
    struct rn_wait_seat *seat = take_seat(r);
    int code;

    if (!seat)
        return c->error = RATION_ENOMEM;
    c->waiter = &seat->waiter;
    while ((code = ration_take(r, c, RATION_NOW)) == RATION_EWAITS)
        sleep_until_turn(r, seat);
    c->waiter = NULL;
    return_seat(r, seat);
    return code;
}

/* --- looking --------------------------------------------------------------------------------- */

/* Of the limits that apply, the line with the longest wait. */
static int look(struct rn_gathered *g, struct rn_matches *matches, struct rn_slice rule,
                struct ration_line *out)
{
    struct ration_line line;

    for (uint32_t i = 0; matches->outcome == RN_MATCH_LIMITS && i < matches->count; i++) {
        if (rule.data && !rn_slice_equal(matches->items[i].rule->name, rule))
            continue;
        *rn_gather_next(g) = rn_applied_of(&matches->items[i]);
        rn_gather_add(g);
        if (g->error != 0)
            return g->error;
    }
    for (size_t i = 0; i < g->tx.n; i++) {
        const struct rn_transaction_item *item = &g->tx.items[i];

        rn_lines_look(g->r->lines, item->key, g->charges[i].cost, item->rank, g->tx.now_ns, &line);
        if (line.wait_at_least_ns > out->wait_at_least_ns || line.waiting > out->waiting)
            *out = line;
    }
    return g->rule_count != 0 ? 0 : RATION_EUNMATCHED;
}

int ration_line(struct ration *r, const struct ration_request *request, const char *rule,
                size_t rule_len, int64_t now_ns, struct ration_line *out)
{
    struct rn_stripe *s = rn_stats_stripe(&r->stats);
    struct rn_workspace *w = rn_workspace_take(s);
    struct rn_slice name = {rule, rule ? rule_len : 0};
    struct ration_line found = {0};
    int code = rule ? RATION_ENORULE : RATION_EUNMATCHED;

    if (!w)
        return RATION_ENOMEM;
    struct rn_pin pin = rn_pin_take(&r->shelf, s);

    if (pin.book && (!rule || rn_book_find(pin.book, name))) {
        rn_match_request(pin.book->ruleset, request, &w->matches);
        rn_gather_init(&w->gathered, r, pin.book, rn_limiter_now(r, now_ns));
        code = look(&w->gathered, &w->matches, name, &found);
    }
    rn_pin_drop(&pin);
    rn_workspace_return(s, w);
    if (code == 0)
        *out = found;
    return code;
}
