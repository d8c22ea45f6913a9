/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every algorithm against its exact definition (tests/model) on random traces:
 * a million decisions, a hundred million with RATION_SOAK=1. What is promised
 * beyond single decisions, such as bounds over intervals, is in
 * test_properties.c.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../model/model.h"
#include "../../model/subject.h"
#include "core/algorithm.h"

#define TRACE_LENGTH 250
#define DECISIONS_EACH UINT64_C(150000) /* times seven algorithms */
#define LATEST (INT64_C(3500000000) * SECOND)

struct trace {
    struct subject subject;
    struct model model;
    int64_t now;
    bool steps_back, debits;
    uint64_t number, step, cost;
};

static uint64_t decisions, admitted, lenient, debits, uncollected, drained, credited;

/* Says how to repeat what failed. */
static void need_at(const struct trace *t, bool holds, const char *what, int line)
{
    char limit[256];

    if (holds)
        return;
    describe(&t->subject.spec, limit, sizeof(limit));
    fail_msg("line %d: %s\n  limit %s form %d\n  RATION_SEED=%" PRIu64 " trace %" PRIu64
             " step %" PRIu64 " now %" PRId64 " cost %" PRIu64 "%s",
             line, what, limit, (int)t->subject.limit.form, random_seed, t->number, t->step, t->now,
             t->cost, t->model.back_at_ns >= 0 ? ", after a step back" : "");
}
#define need(t, condition) need_at(t, condition, #condition, __LINE__)

/* remaining: that many fit and not one more. */
static void remaining_tells_the_next_answer(const struct trace *t, uint64_t remaining)
{
    need(t, remaining <= t->subject.limit.cap);
    need(t, peek(&t->subject, t->now, remaining).allowed);
    need(t, !peek(&t->subject, t->now, remaining + 1).allowed);
    need(t, peek(&t->subject, t->now, 0).remaining == remaining);
}

/* retry_after: the same cost is admitted then and not a nanosecond before. */
static void retry_after_tells_when(const struct trace *t, int64_t retry_ns)
{
    need(t, (retry_ns == RN_NEVER) == (t->cost > t->subject.limit.cap));
    if (retry_ns == RN_NEVER)
        return;
    need(t, retry_ns > 0);
    need(t, peek(&t->subject, t->now + retry_ns, t->cost).allowed);
    need(t, !peek(&t->subject, t->now + retry_ns - 1, t->cost).allowed);
}

/* reset_after: nothing is spent then, something is before; and a state that
 * may be reclaimed equals none. */
static void reset_after_tells_when_full(const struct trace *t, int64_t reset_ns)
{
    const struct subject *s = &t->subject;
    int64_t idle_at = rn_limit_idle_at(s->form, s->state[0]);

    need(t, reset_ns >= 0);
    need(t, peek(s, t->now + reset_ns, 0).remaining == s->limit.cap);
    need(t, peek(s, t->now + reset_ns, s->limit.cap).allowed);
    if (reset_ns > 0)
        need(t, peek(s, t->now + reset_ns - 1, 0).remaining < s->limit.cap);
    need(t, idle_at >= t->now + reset_ns || reset_ns == 0);
    need(t, peek(s, idle_at > t->now ? idle_at : t->now, 0).remaining == s->limit.cap);
}

/* A refusal leaves every bit alone, unless the state lay too far ahead. */
static void refusal_changes_nothing(const struct trace *t, const uint64_t *before,
                                    enum rn_outcome outcome)
{
    const struct subject *s = &t->subject;
    int64_t horizon = 3 * subject_horizon(s);
    int64_t idle_at = rn_limit_idle_at(s->form, s->state[0]);

    if (outcome == RN_KEEP) {
        need(t, memcmp(before, s->state, s->words * sizeof(*before)) == 0);
        return;
    }
    need(t, outcome == RN_WRITE && t->model.back_at_ns >= 0);
    need(t, idle_at - t->now <= horizon);
}

/* A drain that is refused takes all that was left; the wait is that of the next attempt. */
static void drain_takes_the_rest(struct trace *t, const struct rn_answer *look,
                                 const struct rn_answer *answer)
{
    need(t, answer->drained == look->remaining && answer->remaining == 0);
    model_take(&t->model, answer->drained, t->subject.wall_offset_ns);
    drained += answer->drained != 0;
}

static void take_and_judge(struct trace *t, enum rn_op op)
{
    struct subject *s = &t->subject;
    struct rn_ask ask = {.op = op, .now_ns = t->now, .cost = t->cost};
    bool fits = model_fits(&t->model, t->cost), must_fit = model_must_fit(&t->model, t->cost);
    struct rn_answer look = peek(s, t->now, t->cost), answer;
    uint64_t *before = zeroed(s->words);

    memcpy(before, s->state, s->words * sizeof(*before));
    enum rn_outcome outcome = subject_ask(s, &ask, &answer);

    need(t, look.allowed == answer.allowed);
    need(t, look.delay_ns == answer.delay_ns);
    need(t, look.retry_after_ns == answer.retry_after_ns ||
                (op == RN_DRAIN && look.retry_after_ns < answer.retry_after_ns));
    need(t, answer.allowed == (answer.retry_after_ns == 0));
    need(t, fits || !answer.allowed); /* never admits what the definition refuses */
    need(t, !must_fit || answer.allowed);
    if (answer.allowed) {
        need(t, look.remaining - t->cost == answer.remaining);
        model_take(&t->model, t->cost, s->wall_offset_ns);
    } else {
        need(t, answer.remaining < t->cost);
        if (op == RN_DRAIN && look.remaining != 0)
            drain_takes_the_rest(t, &look, &answer);
        else
            refusal_changes_nothing(t, before, outcome);
        retry_after_tells_when(t, answer.retry_after_ns);
    }
    free(before);
    remaining_tells_the_next_answer(t, answer.remaining);
    reset_after_tells_when_full(t, answer.reset_after_ns);
    decisions++;
    admitted += answer.allowed;
    lenient += fits && !must_fit;
}

/* A forced charge takes what is left and no more. */
static void force(struct trace *t)
{
    uint64_t left = peek(&t->subject, t->now, 0).remaining;
    uint64_t taken = t->cost < left ? t->cost : left;
    struct rn_answer answer = subject_do(&t->subject, RN_FORCE, t->now, t->cost);

    need(t, answer.remaining == left - taken);
    model_take(&t->model, taken, t->subject.wall_offset_ns);
    if (t->cost > taken)
        model_saturate(&t->model);
    remaining_tells_the_next_answer(t, answer.remaining);
    reset_after_tells_when_full(t, answer.reset_after_ns);
}

/* A late debit charges everything, up to one capacity below empty. */
static void debit(struct trace *t)
{
    struct rn_answer look = peek(&t->subject, t->now, 0);
    uint64_t fits = t->cost < look.remaining ? t->cost : look.remaining;
    struct rn_answer answer = subject_do(&t->subject, RN_DEBIT, t->now, t->cost);
    struct model_range beyond = model_debit(&t->model, t->cost, look.remaining, answer.uncollected,
                                            t->subject.wall_offset_ns);

    need(t, answer.remaining == look.remaining - fits);
    if (t->cost != 0 && t->model.back_at_ns < 0)
        need(t, answer.uncollected >= beyond.least && answer.uncollected <= beyond.most);
    remaining_tells_the_next_answer(t, answer.remaining);
    reset_after_tells_when_full(t, answer.reset_after_ns);
    debits++;
    uncollected += t->cost != 0 && answer.uncollected != 0;
}

/* A credit gives back what is spent and no more. */
static void credit(struct trace *t)
{
    struct rn_answer look = peek(&t->subject, t->now, 0);
    uint64_t cap = t->subject.limit.cap, lacks = cap - look.remaining;
    struct rn_answer answer = subject_do(&t->subject, RN_CREDIT, t->now, t->cost);

    need(t, !answer.allowed || (t->cost != 0 && look.reset_after_ns != 0));
    need(t, answer.remaining >= look.remaining && answer.remaining <= cap);
    need(t, answer.remaining - look.remaining <= (t->cost < lacks ? t->cost : lacks) + 1);
    model_credit(&t->model, t->cost);
    remaining_tells_the_next_answer(t, answer.remaining);
    reset_after_tells_when_full(t, answer.reset_after_ns);
    credited += answer.allowed;
}

static void move_clock(struct trace *t)
{
    int64_t gap = random_gap(&t->subject);

    if (t->steps_back && random_below(30) == 0)
        gap = -(int64_t)random_scale(1, 3 * (uint64_t)subject_horizon(&t->subject));
    if (gap < 0 && t->now + gap < DAY)
        gap = 0;
    t->now += gap;
    model_tick(&t->model, t->now);
}

static void run_trace(enum ration_algorithm algorithm, uint64_t number)
{
    struct ration_limit spec = random_limit(algorithm);
    struct trace t = {.subject = subject_new(&spec), .number = number};

    t.now = BASE + (int64_t)random_below((uint64_t)DAY);
    t.steps_back = random_below(3) == 0;
    t.debits = random_below(2) == 0;
    if (random_below(2))
        t.subject.wall_offset_ns = (int64_t)random_below((uint64_t)DAY) - DAY / 2;
    model_init(&t.model, &spec);
    model_tick(&t.model, t.now);
    for (t.step = 0; t.step < TRACE_LENGTH && t.now < LATEST; t.step++) {
        t.cost = random_cost(t.subject.limit.cap);
        if (t.debits && random_below(12) == 0)
            debit(&t);
        else if (random_below(40) == 0)
            force(&t);
        else if (random_below(30) == 0 && t.model.back_at_ns < 0)
            credit(&t);
        else
            take_and_judge(&t, random_below(4) ? RN_TAKE : RN_DRAIN);
        move_clock(&t);
    }
    model_done(&t.model);
    subject_free(&t.subject);
}

static void compare(enum ration_algorithm algorithm, uint64_t goal)
{
    goal *= soak_factor();
    random_init();
    decisions = admitted = lenient = debits = uncollected = drained = credited = 0;
    for (uint64_t number = 0; decisions < goal; number++)
        run_trace(algorithm, number);
    print_message("# %" PRIu64 " decisions, %" PRIu64 " admitted, %" PRIu64 " left open, %" PRIu64
                  " late debits, %" PRIu64 " not collected in full, %" PRIu64 " drained, %" PRIu64
                  " credited\n",
                  decisions, admitted, lenient, debits, uncollected, drained, credited);
    assert_in_range(uncollected, debits / 50, debits - debits / 2);
    /* A comparison that mostly shrugs, or sees one answer only, proves nothing. */
    assert_in_range(admitted, decisions / 8, decisions - decisions / 8);
    assert_in_range(lenient, 0, decisions / 5);
    assert_in_range(drained, decisions / 200, decisions);
    assert_in_range(credited, decisions / 200, decisions);
}

static void an_algorithm_agrees_with_its_definition(void **state)
{
    enum ration_algorithm a = *(const enum ration_algorithm *)*state;

    /* A sliding window has two forms. */
    compare(a, a == RATION_SLIDING_WINDOW ? 2 * DECISIONS_EACH : DECISIONS_EACH);
}

int main(void)
{
    static const enum ration_algorithm own = RATION_OWN_ALGORITHM;
    struct CMUnitTest tests[RN_ALGORITHMS_MAX + 1];
    size_t n = 0;

    for (const struct rn_algorithm *a = rn_algorithms; a->name; a++)
        if (a->is_rate)
            tests[n++] = (struct CMUnitTest){.name = a->name,
                                             .test_func = an_algorithm_agrees_with_its_definition,
                                             .initial_state = (void *)(uintptr_t)&a->algorithm};
    tests[n++] = (struct CMUnitTest){.name = "an algorithm of the embedder's",
                                     .test_func = an_algorithm_agrees_with_its_definition,
                                     .initial_state = (void *)(uintptr_t)&own};
    return _cmocka_run_group_tests("model", tests, n, NULL, NULL);
}
