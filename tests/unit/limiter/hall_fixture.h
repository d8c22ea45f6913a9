/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of waiting share: a thread's waiters under a stepped clock, and their calls. */
#ifndef RN_TESTS_LIMITER_HALL_FIXTURE_H
#define RN_TESTS_LIMITER_HALL_FIXTURE_H

#include "rules_fixture.h"

#include <ration/wait.h>

#define MS (SECOND / 1000)
#define CALLS_MAX 128

/* The waiters of a test, and the order in which their calls were admitted. */
struct hall {
    struct ration *r;
    struct ration_waiting *waiting;
    int64_t now_ns;
    unsigned admitted;
    unsigned order[CALLS_MAX];
};

/* A request that may wait. What it has come to is in `code` and `out`. */
struct call {
    struct ration_waiter waiter; /* first */
    struct hall *hall;
    unsigned number;
    unsigned asked;                 /* how often */
    int (*verb)(struct call *call); /* sets `allowed` */
    int code;
    bool allowed;
    int64_t done_ns;
    struct words words;
    struct ration_outcome out;
    struct ration_charge charges[2];
    uint64_t lease;
    char ticket[RATION_TICKET_SIZE];
};

static inline int decide_call(struct call *call)
{
    int code = ration_decide(call->hall->r, &call->words.request, call->hall->now_ns, &call->out);

    call->allowed = code == 0 && call->out.decision.allowed;
    return code;
}

static inline int ask_call(struct call *call)
{
    struct hall *h = call->hall;

    call->asked++;
    call->code = call->verb(call);
    if (call->code == RATION_EWAITS)
        return call->code;
    call->done_ns = h->now_ns;
    if (call->code == 0 && call->allowed)
        h->order[h->admitted++] = call->number;
    return call->code;
}

static inline void ask_again(struct ration_waiter *waiter)
{
    ask_call((struct call *)(void *)waiter);
}

static inline void call_init(struct call *call, struct hall *h, unsigned number, const char *words)
{
    memset(call, 0, sizeof *call);
    call->waiter = (struct ration_waiter){.waiting = h->waiting, .turn = ask_again};
    call->hall = h;
    call->number = number;
    call->verb = decide_call;
    split_words(&call->words, words);
    call->words.request.waiter = &call->waiter;
}

/* Asks for the first time. Returns the code. */
static inline int arrive(struct call *call, struct hall *h, unsigned number, const char *words)
{
    call_init(call, h, number, words);
    return ask_call(call);
}

static inline void hall_open(struct hall *h, struct ration *r)
{
    *h = (struct hall){.r = r, .now_ns = stopped_at(r, T0)};
    assert_int_equal(ration_waiting_new(r, NULL, NULL, &h->waiting), 0);
}

static inline void hall_open_rules(struct hall *h, const char *text)
{
    hall_open(h, open_rules(text));
}

static inline void hall_close(struct hall *h)
{
    ration_waiting_free(h->waiting);
    ration_close(h->r);
}

/* Runs the waiters until that time, at each time at which they ask to be run. */
static inline void pass_until(struct hall *h, int64_t until_ns)
{
    for (unsigned i = 0;; i++) {
        int64_t rest_ns = ration_waiting_next(h->waiting, h->now_ns);

        assert_true(i < 100000); /* else it spins */
        if (rest_ns > until_ns - h->now_ns)
            break;
        h->now_ns = stopped_at(h->r, h->now_ns + (rest_ns > 0 ? rest_ns : 0));
        ration_waiting_run(h->waiting, h->now_ns);
    }
    h->now_ns = stopped_at(h->r, until_ns);
    ration_waiting_run(h->waiting, h->now_ns);
}

static inline void pass(struct hall *h, int64_t time_ns)
{
    pass_until(h, h->now_ns + time_ns);
}

static inline struct ration_waiting_totals totals_of(const struct hall *h)
{
    struct ration_waiting_totals totals;

    ration_waiting_totals(h->r, &totals);
    return totals;
}

#endif
