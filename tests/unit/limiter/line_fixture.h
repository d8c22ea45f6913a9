/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of lines share: a decision by one limit, made of core and lines alone, and time
 * that is stepped. */
#ifndef RN_TESTS_LIMITER_LINE_FIXTURE_H
#define RN_TESTS_LIMITER_LINE_FIXTURE_H

#include "fixture.h"

#include <stdlib.h>

#include "limiter/line/lines.h"

#define MS INT64_C(1000000)
#define STATE_WORDS 256
#define ALWAYS (3600 * SECOND)

/* A limit with one state. */
struct desk {
    struct rn_limit limit;
    uint64_t key, state[STATE_WORDS];
    uint32_t size;
    bool batches, polls;
    unsigned asked; /* how often the state was */
};

static inline void desk_init(struct desk *d, const char *text, enum ration_algorithm algorithm,
                             uint64_t key)
{
    struct ration_named n = named("desk", text);

    n.limit.algorithm = algorithm;
    *d = (struct desk){.key = key * UINT64_C(0x9E3779B97F4A7C15), .size = 1000};
    rn_limit_init(&d->limit, &n.limit);
}

/* One that asks, and what became of it. */
struct client {
    struct ration_waiter waiter; /* the first member */
    struct ration *r;
    struct desk *desk;
    uint64_t cost;
    uint32_t rank;
    enum rn_line_steps steps; /* 0: as the desk says */
    int64_t until_ns, wait_ns;
    enum { ASKS, WAITS, ADMITTED, REFUSED } result;
    enum rn_line_answer answer;
    unsigned number; /* of its admission or refusal, from 1 */
    int64_t at_ns;
    unsigned turns, last_turn; /* how many it had, and the number of the last one */
    bool sleeps;               /* does not ask at its turn */
};

static int64_t clock_ns;
static unsigned decided, begun;

static inline struct rn_answer desk_take(struct desk *d, uint64_t cost, int64_t now_ns)
{
    struct rn_ask ask = {.op = RN_TAKE,
                         .now_ns = now_ns,
                         .cost = cost,
                         .id = ++d->asked,
                         .lease_ns = d->limit.lease_ns};
    struct rn_answer answer = {0};

    assert_true(d->limit.words_full <= STATE_WORDS);
    rn_limit_apply(&d->limit, d->state, d->limit.words_full ? d->limit.words_full : 1, &ask,
                   &answer);
    return answer;
}

static inline struct ration_verdict desk_verdict(const struct desk *d, const struct rn_answer *a)
{
    return (struct ration_verdict){.allowed = a->allowed,
                                   .limit = d->limit.cap,
                                   .remaining = a->remaining,
                                   .retry_after_ns = a->retry_after_ns,
                                   .reset_after_ns = a->reset_after_ns};
}

static inline void finish(struct client *c, bool admitted, const struct ration_verdict *verdict,
                          int64_t now_ns)
{
    rn_lines_finish(c->r->lines, &c->waiter, admitted, verdict, now_ns);
    c->result = admitted ? ADMITTED : REFUSED;
    c->number = ++decided;
    c->at_ns = now_ns;
}

/* What a decision does: passes the line, asks, and waits if refused. */
static inline void ask_at(struct client *c, int64_t now_ns)
{
    struct rn_lines *lines = c->r->lines;
    struct desk *d = c->desk;
    struct rn_line_refusal refusal = {.key = d->key,
                                      .limit = &d->limit,
                                      .units = c->cost,
                                      .rank = c->rank,
                                      .size = d->size,
                                      .steps = c->steps     ? c->steps
                                               : d->batches ? RN_STEPS_TAKE
                                                            : RN_STEPS_LOCAL,
                                      .polls = d->polls};

    if (rn_lines_is_over(&c->waiter)) {
        finish(c, false, NULL, now_ns);
        return;
    }
    refusal.by_line = rn_lines_is_ahead(lines, d->key, c->cost, c->rank, &c->waiter, now_ns,
                                        &refusal.verdict.retry_after_ns);
    if (!refusal.by_line) {
        struct rn_answer answer = desk_take(d, c->cost, now_ns);

        refusal.verdict = desk_verdict(d, &answer);
        if (answer.allowed) {
            finish(c, true, &refusal.verdict, now_ns);
            return;
        }
    }
    if (!rn_lines_waits(&c->waiter))
        c->wait_ns = c->until_ns - now_ns;
    int64_t from_ns = rn_lines_waits(&c->waiter) ? rn_lines_arrived_ns(&c->waiter) : now_ns;

    c->answer = rn_lines_join(lines, &c->waiter, &refusal, from_ns + c->wait_ns, now_ns);
    if (c->answer == RN_LINE_JOINED)
        c->result = WAITS;
    else
        finish(c, false, NULL, now_ns);
}

static inline void client_turn(struct ration_waiter *waiter)
{
    struct client *c = (struct client *)(void *)waiter;

    c->turns++;
    c->last_turn = ++begun;
    if (!c->sleeps)
        ask_at(c, clock_ns);
}

static inline void arrive(struct client *c, struct ration_waiting *waiting, struct ration *r,
                          struct desk *d)
{
    uint64_t cost = c->cost ? c->cost : 1;

    c->waiter = (struct ration_waiter){.waiting = waiting, .turn = client_turn};
    c->r = r;
    c->desk = d;
    c->cost = cost;
    c->until_ns = c->until_ns ? c->until_ns : clock_ns + ALWAYS;
    ask_at(c, clock_ns);
}

/* Lets time pass, event by event: each of n threads runs when it is due, or was woken. */
static inline void pass_time(struct ration_waiting *const *waiting, size_t n, int64_t until_ns)
{
    for (;;) {
        int64_t soonest = RATION_NEVER;

        for (size_t i = 0; i < n; i++) {
            int64_t after = ration_waiting_next(waiting[i], clock_ns);

            soonest = after < soonest ? after : soonest;
        }
        if (soonest == RATION_NEVER || soonest > until_ns - clock_ns)
            break;
        clock_ns += soonest;
        for (size_t i = 0; i < n; i++)
            ration_waiting_run(waiting[i], clock_ns);
    }
    clock_ns = until_ns;
}

static inline struct ration_waiting *new_waiting(struct ration *r)
{
    struct ration_waiting *waiting = NULL;

    assert_int_equal(ration_waiting_new(r, NULL, NULL, &waiting), 0);
    return waiting;
}

#endif
