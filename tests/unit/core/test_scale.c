/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits at a factor. Whatever factors follow each other, no time sees more units admitted than the
 * largest factor of that time admits by itself: a million random decisions for each algorithm, a
 * hundred million with RATION_SOAK=1.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../model/model.h"
#include "../../model/subject.h"
#include "core/algorithm.h"
#include "core/scale.h"
#include "unit/sanitized.h"

#define PERCENT_MAX 400
#define TRACE_LENGTH 250
#define DECISIONS_EACH SCALED(1000000, 250000)
#define LADDER_MAX 12
#define LATEST (INT64_C(3500000000) * SECOND)

/* ---- every percent */

static uint64_t share(uint64_t units, unsigned percent)
{
    uint64_t part = units * percent / 100;

    return part == 0 && units != 0 ? 1 : part;
}

static const struct ration_limit each_form[] = {
    {.algorithm = RATION_TOKEN_BUCKET, .amount = 100, .period_ns = MINUTE},
    {.algorithm = RATION_TOKEN_BUCKET, .amount = 10, .period_ns = 3 * SECOND},
    {.algorithm = RATION_TOKEN_BUCKET, .amount = 1, .period_ns = SECOND},
    {.algorithm = RATION_TOKEN_BUCKET, .amount = 1000, .period_ns = MINUTE, .burst = 50},
    {.algorithm = RATION_TOKEN_BUCKET, .amount = 7, .period_ns = HOUR, .burst = 2},
    {.algorithm = RATION_TOKEN_BUCKET, .amount = 10000, .period_ns = SECOND},
    {.algorithm = RATION_TOKEN_BUCKET, .amount = 1000000, .period_ns = SECOND},
    {.algorithm = RATION_TOKEN_BUCKET, .amount = 30000, .period_ns = SECOND, .burst = 7},
    {.algorithm = RATION_TOKEN_BUCKET, .amount = 999983, .period_ns = SECOND, .burst = 1234567},
    {.algorithm = RATION_LEAKY_BUCKET, .amount = 10, .period_ns = SECOND, .queue = 4},
    {.algorithm = RATION_LEAKY_BUCKET, .amount = 3, .period_ns = SECOND, .queue = 99},
    {.algorithm = RATION_TOKEN_BUCKET, .amount = 60, .period_ns = MINUTE, .step_ns = 10 * SECOND},
    {.algorithm = RATION_FIXED_WINDOW, .amount = 100, .period_ns = MINUTE},
    {.algorithm = RATION_FIXED_WINDOW, .amount = 400000, .period_ns = MINUTE},
    {.algorithm = RATION_FIXED_WINDOW, .amount = 33, .period_ns = 1000},
    {.algorithm = RATION_SLIDING_WINDOW, .amount = 100, .period_ns = MINUTE},
    {.algorithm = RATION_SLIDING_WINDOW, .amount = 100, .period_ns = MINUTE, .sub_windows = 10},
    {.algorithm = RATION_SLIDING_LOG, .amount = 33, .period_ns = MINUTE},
};
#define EACH_FORM (sizeof each_form / sizeof *each_form)

/* All of them at once, so that every step must agree with every other. */
static const uint16_t *all_percents(void)
{
    static uint16_t percents[PERCENT_MAX];

    for (unsigned i = 0; i < PERCENT_MAX; i++)
        percents[i] = (uint16_t)(i + 1);
    return percents;
}

static void admits_its_share_after_idling(const struct rn_limit *written, unsigned percent,
                                          const struct rn_limit *step)
{
    bool stepped = step->form == RN_FORM_STEP;
    uint64_t cap = share(written->cap, stepped && percent > 100 ? 100 : percent);
    struct subject s = {.limit = *step, .form = step->form};

    s.words = step->words_full ? step->words_full : 1;
    s.state = zeroed(s.words);
    s.scratch = zeroed(s.words);
    assert_int_equal(step->cap, cap);
    assert_int_equal(peek(&s, BASE, 0).remaining, cap);
    assert_true(peek(&s, BASE, cap).allowed);
    assert_false(peek(&s, BASE, cap + 1).allowed);
    for (uint64_t i = 0; i < cap && cap <= 1000; i++)
        assert_true(take(&s, BASE, 1).allowed || stepped);
    assert_true(cap > 1000 || !take(&s, BASE, 1).allowed);
    free(s.state);
    free(s.scratch);
}

static void every_percent_admits_exactly_its_share_after_idling(void **state)
{
    const uint16_t *percents = all_percents();

    (void)state;
    for (size_t i = 0; i < EACH_FORM; i++) {
        struct rn_limit written, step;
        struct rn_scale scale;

        rn_limit_init(&written, &each_form[i]);
        rn_scale_init(&scale, &written, percents, PERCENT_MAX);
        for (unsigned p = 1; p <= PERCENT_MAX; p++) {
            rn_scale_step(&scale, p, &step);
            admits_its_share_after_idling(&written, p, &step);
        }
    }
}

static void all_steps_share_form_and_block_size(void **state)
{
    const uint16_t *percents = all_percents();

    (void)state;
    for (size_t i = 0; i < EACH_FORM; i++) {
        struct rn_limit written, first, step;
        struct rn_scale scale;

        rn_limit_init(&written, &each_form[i]);
        rn_scale_init(&scale, &written, percents, PERCENT_MAX);
        rn_scale_step(&scale, PERCENT_MAX, &first);
        for (unsigned p = 1; p <= PERCENT_MAX; p++) {
            rn_scale_step(&scale, p, &step);
            assert_int_equal(step.form, first.form);
            assert_int_equal(step.shape, written.shape);
            assert_int_equal(step.words_small, first.words_small);
            assert_int_equal(step.words_full, first.words_full);
            assert_int_equal(step.sub_ns, written.sub_ns);
            assert_true(step.form != RN_FORM_GCRA || step.unit_ns >= first.unit_ns);
        }
    }
}

/* A typical rule keeps the form that needs one word. */
static void common_buckets_stay_one_word(void **state)
{
    static const uint16_t percents[] = {50, 60, 70, 80, 90, 100, 110, 120, 150, 200};
    static const struct ration_limit common[] = {
        {.algorithm = RATION_TOKEN_BUCKET, .amount = 10, .period_ns = 3 * SECOND},
        {.algorithm = RATION_TOKEN_BUCKET, .amount = 1000, .period_ns = MINUTE},
        {.algorithm = RATION_TOKEN_BUCKET, .amount = 100, .period_ns = SECOND},
        {.algorithm = RATION_TOKEN_BUCKET, .amount = 1000, .period_ns = SECOND},
        {.algorithm = RATION_TOKEN_BUCKET, .amount = 5000, .period_ns = HOUR},
    };

    (void)state;
    for (size_t i = 0; i < sizeof common / sizeof *common; i++) {
        struct rn_limit written;
        struct rn_scale scale;

        rn_limit_init(&written, &common[i]);
        rn_scale_init(&scale, &written, percents, sizeof percents / sizeof *percents);
        assert_false(scale.fine);
    }
}

static void a_log_and_places_never_outgrow_their_blocks(void **state)
{
    static const uint16_t percents[] = {100, 400};
    struct rn_limit written, step;
    struct rn_scale scale;

    (void)state;
    rn_limit_init(&written, &(struct ration_limit){.algorithm = RATION_SLIDING_LOG,
                                                   .amount = RATION_LOG_MAX,
                                                   .period_ns = MINUTE});
    rn_scale_init(&scale, &written, percents, 2);
    rn_scale_step(&scale, 400, &step);
    assert_int_equal(step.amount, RATION_LOG_MAX);
    rn_limit_init(&written, &(struct ration_limit){.algorithm = RATION_CONCURRENCY,
                                                   .amount = RATION_PLACES_MAX - 1});
    rn_scale_init(&scale, &written, percents, 2);
    rn_scale_step(&scale, 400, &step);
    assert_int_equal(step.amount, RATION_PLACES_MAX);
    assert_int_equal(step.words_full, 2 + 2 * RATION_PLACES_MAX);
}

/* ---- one limit at changing factors */

struct ladder {
    struct rn_limit written;
    struct rn_limit steps[LADDER_MAX];
    uint16_t percents[LADDER_MAX];
    size_t count;
};

static void ladder_init(struct ladder *l, const struct ration_limit *spec)
{
    struct rn_scale scale;

    rn_limit_init(&l->written, spec);
    rn_scale_init(&scale, &l->written, l->percents, l->count);
    for (size_t i = 0; i < l->count; i++)
        rn_scale_step(&scale, l->percents[i], &l->steps[i]);
}

/* 100 and up to eleven others, ascending. */
static void random_percents(struct ladder *l)
{
    bool tens = random_below(2);

    l->count = 0;
    for (unsigned p = 1; p <= PERCENT_MAX && l->count < LADDER_MAX; p++) {
        bool chosen = tens ? p >= 50 && p <= 150 && p % 10 == 0 : random_below(40) == 0;

        if (p == 100 || (chosen && (p > 100 || l->count + 1 < LADDER_MAX)))
            l->percents[l->count++] = (uint16_t)p;
    }
}

/* A unit that was admitted, and what was given back of it. */
struct admission {
    int64_t now_ns, elapsed_ns, mark;
    uint64_t units;
    bool is_used;     /* its receipt */
    size_t step;      /* of the ladder: its price */
    size_t charge;    /* of the model */
    unsigned largest; /* percent in force from here until the present one */
};

struct trace {
    struct ration_limit spec;
    struct ladder ladder;
    size_t step; /* in force */
    struct subject subject;
    struct model model;
    bool bucket, debits, exact;
    int64_t now, elapsed_ns;
    uint64_t number, turn, cost;
    struct admission admitted[TRACE_LENGTH];
    size_t count;
};

static uint64_t decisions, admissions, changes, refunds;

static void need_at(const struct trace *t, bool holds, const char *what, int line)
{
    char limit[256];

    if (holds)
        return;
    describe(&t->spec, limit, sizeof(limit));
    fail_msg("line %d: %s\n  limit %s form %d\n  RATION_SEED=%" PRIu64 " trace %" PRIu64
             " turn %" PRIu64 " now %" PRId64 " cost %" PRIu64 " at %u %%",
             line, what, limit, (int)t->subject.limit.form, random_seed, t->number, t->turn, t->now,
             t->cost, t->ladder.percents[t->step]);
}
#define need(t, condition) need_at(t, condition, #condition, __LINE__)

static void set_factor(struct trace *t, size_t step)
{
    unsigned percent = t->ladder.percents[step];

    t->step = step;
    t->subject.limit = t->ladder.steps[step];
    t->model.spec.amount = t->subject.limit.amount;
    t->model.cap = t->subject.limit.cap;
    for (size_t i = 0; i < t->count; i++)
        if (t->admitted[i].largest < percent)
            t->admitted[i].largest = percent;
    changes++;
}

/* The most units of a bucket in a time at a factor, times 100 * period. */
static model_int bucket_bound(const struct trace *t, int64_t first_ns, int64_t last_ns,
                              unsigned percent)
{
    const struct ration_limit *s = &t->spec;
    model_int cap = (model_int)t->ladder.written.cap * percent, refill;

    if (s->step_ns != 0) {
        int64_t steps = last_ns / s->step_ns - first_ns / s->step_ns;

        percent = percent > 100 ? 100 : percent;
        cap = (model_int)t->ladder.written.cap * percent;
        refill =
            (model_int)steps * (model_int)t->ladder.written.step_units * percent * s->period_ns;
    } else {
        refill = (model_int)s->amount * percent * (last_ns - first_ns);
    }
    if (cap < 100) { /* one unit is always possible, and then costs all */
        refill = refill * 100 / cap;
        cap = 100;
    }
    return cap * s->period_ns + refill;
}

/* All intervals that end now: none holds more than its largest factor admits. A step back is no
 * time passed; a stepped bucket is not tested with one. */
static void judge_bucket(struct trace *t)
{
    model_int sum = 0;

    for (size_t i = t->count; i-- > 0;) {
        const struct admission *a = &t->admitted[i];

        sum += (model_int)a->units * 100 * t->spec.period_ns;
        need(t, sum <= bucket_bound(t, t->spec.step_ns ? a->now_ns : a->elapsed_ns,
                                    t->spec.step_ns ? t->now : t->elapsed_ns, a->largest));
    }
}

static void take_one(struct trace *t)
{
    struct rn_answer look = peek(&t->subject, t->now, t->cost);
    bool fits = t->bucket || model_fits(&t->model, t->cost);
    bool must_fit = !t->bucket && t->exact && model_must_fit(&t->model, t->cost);
    struct rn_answer answer = take(&t->subject, t->now, t->cost);
    uint64_t cap = t->subject.limit.cap;

    need(t, look.allowed == answer.allowed);
    need(t, fits || !answer.allowed);
    need(t, !must_fit || answer.allowed);
    need(t, answer.remaining <= cap);
    need(t, answer.allowed == (answer.retry_after_ns == 0));
    need(t, answer.allowed || (answer.retry_after_ns == RN_NEVER) ==
                                  (t->cost > cap && t->cost > t->ladder.written.cap));
    if (!answer.allowed && t->cost <= cap)
        need(t, peek(&t->subject, t->now + answer.retry_after_ns, t->cost).allowed);
    need(t, peek(&t->subject, t->now + answer.reset_after_ns, cap).allowed);
    decisions++;
    if (!answer.allowed || t->cost == 0)
        return;
    admissions++;
    if (!t->bucket)
        model_take(&t->model, t->cost, t->subject.wall_offset_ns);
    t->admitted[t->count++] = (struct admission){.now_ns = t->now,
                                                 .elapsed_ns = t->elapsed_ns,
                                                 .mark = answer.mark,
                                                 .units = t->cost,
                                                 .step = t->step,
                                                 .charge = t->model.charge_count - 1,
                                                 .largest = t->ladder.percents[t->step]};
    if (t->bucket)
        judge_bucket(t);
}

/* A part of one of the last takes, at its own price. A receipt is used once. */
static void refund_one(struct trace *t)
{
    struct admission *a = &t->admitted[t->count - 1 - random_below(t->count < 4 ? t->count : 4)];
    uint64_t units = random_below(3) ? a->units : random_below(a->units + 1);
    uint64_t before = peek(&t->subject, t->now, 0).remaining;

    if (units == 0 || a->is_used)
        return;
    a->is_used = true;
    t->subject.limit = t->ladder.steps[a->step];
    bool done = give_back(&t->subject, t->now, units, a->now_ns, a->mark).allowed;

    t->subject.limit = t->ladder.steps[t->step];
    need(t, t->debits || peek(&t->subject, t->now, 0).remaining >= before);
    t->exact = false;
    if (!done)
        return;
    if (!t->bucket)
        model_give_back(&t->model, a->charge, units);
    a->units -= units;
    refunds++;
}

static void move_clock(struct trace *t, bool steps_back)
{
    int64_t gap = random_gap(&t->subject);

    if (steps_back && random_below(30) == 0)
        gap = -(int64_t)random_scale(1, 3 * (uint64_t)subject_horizon(&t->subject));
    if (gap < 0 && t->now + gap < DAY)
        gap = 0;
    t->now += gap;
    t->elapsed_ns += gap > 0 ? gap : 0;
    model_tick(&t->model, t->now);
}

/* Few enough units that 128 bits hold what is compared. */
static bool is_plain(const struct ration_limit *s)
{
    return s->amount > 0 && s->amount <= 100000000 && s->burst <= 100000000 &&
           (s->algorithm != RATION_SLIDING_LOG || s->amount <= 2000) &&
           (s->step_ns != 0 || s->period_ns / (int64_t)s->amount >= 4);
}

static void run_trace(enum ration_algorithm algorithm, uint64_t number)
{
    static struct trace t;
    struct ration_limit spec = random_limit(algorithm);

    while (!is_plain(&spec))
        spec = random_limit(algorithm);
    t = (struct trace){.spec = spec, .number = number, .exact = true};
    random_percents(&t.ladder);
    ladder_init(&t.ladder, &spec);
    t.bucket = algorithm == RATION_TOKEN_BUCKET || algorithm == RATION_LEAKY_BUCKET;
    t.debits = random_below(3) == 0 && !spec.from_first; /* where a window begins */
    t.subject = subject_new(&spec);
    subject_free(&t.subject);
    t.subject.limit = t.ladder.steps[0];
    t.subject.form = t.subject.limit.form;
    t.subject.words = t.subject.limit.words_small ? t.subject.limit.words_small : 1;
    t.subject.state = zeroed(t.subject.words);
    t.subject.scratch =
        zeroed(t.subject.limit.words_full ? t.subject.limit.words_full : RN_WIDE_WORDS);
    t.now = BASE + (int64_t)random_below((uint64_t)DAY);
    if (random_below(2))
        t.subject.wall_offset_ns = (int64_t)random_below((uint64_t)DAY) - DAY / 2;
    spec.amount = t.ladder.steps[t.ladder.count - 1].amount; /* which the grain is made for */
    model_init(&t.model, &spec);
    model_tick(&t.model, t.now);
    bool steps_back = spec.step_ns == 0 && random_below(3) == 0 &&
                      !(t.debits && algorithm == RATION_FIXED_WINDOW); /* which window it is */

    set_factor(&t, random_below(t.ladder.count));
    for (t.turn = 0; t.turn < TRACE_LENGTH && t.now < LATEST; t.turn++) {
        uint64_t dice = random_below(24);

        t.cost = random_cost(random_below(4) ? t.subject.limit.cap : t.ladder.written.cap);
        if (dice == 0 && t.debits) {
            subject_do(&t.subject, RN_DEBIT, t.now, t.cost);
            t.exact = false;
        } else if (dice == 1 && t.debits) {
            subject_do(&t.subject, RN_FORCE, t.now, t.cost);
            t.exact = false;
        } else if (dice < 4 && t.count > 0 && t.model.back_at_ns < 0) {
            refund_one(&t);
        } else {
            take_one(&t);
        }
        if (random_below(8) == 0)
            set_factor(&t, random_below(t.ladder.count));
        move_clock(&t, steps_back);
    }
    model_done(&t.model);
    subject_free(&t.subject);
}

static void no_interval_exceeds_its_largest_factor(void **state)
{
    const struct rn_algorithm *a = *state;

    random_init();
    decisions = admissions = changes = refunds = 0;
    for (uint64_t number = 0; decisions < DECISIONS_EACH * soak_factor(); number++)
        run_trace(a->algorithm, number);
    print_message("# %" PRIu64 " decisions, %" PRIu64 " admitted, %" PRIu64 " changes, %" PRIu64
                  " given back\n",
                  decisions, admissions, changes, refunds);
    assert_in_range(admissions, decisions / 10, decisions - decisions / 10);
    assert_true(refunds > decisions / 200);
}

/* ---- vectors */

static struct subject subject_of(struct ladder *l, const struct ration_limit *spec)
{
    struct subject s;

    ladder_init(l, spec);
    s = (struct subject){.spec = *spec, .limit = l->steps[0], .form = l->steps[0].form};
    s.words = s.limit.words_full ? s.limit.words_full : 1;
    s.state = zeroed(s.words);
    s.scratch = zeroed(s.words > RN_WIDE_WORDS ? s.words : RN_WIDE_WORDS);
    return s;
}

static uint64_t drain_at(struct subject *s, const struct rn_limit *step, int64_t now)
{
    uint64_t taken = 0;

    s->limit = *step;
    while (take(s, now, 1).allowed)
        taken++;
    return taken;
}

/* STRATEGIES §1: 60 taken at 1, 30 given back at 0.5 must leave 70 of 100, not 100. */
/* It follows load by itself. A rule with a factor may have one by an override. */
static void an_adaptive_limit_stays_as_written(void **state)
{
    const uint16_t *percents = all_percents();
    struct rn_limit written, step;
    struct rn_scale scale;

    (void)state;
    rn_limit_init(&written, &(struct ration_limit){
                                .algorithm = RATION_CONCURRENCY, .amount = 500, .adaptive_min = 5});
    rn_scale_init(&scale, &written, percents, PERCENT_MAX);
    for (unsigned p = 1; p <= PERCENT_MAX; p++) {
        rn_scale_step(&scale, p, &step);
        assert_int_equal(step.form, RN_FORM_ADAPTIVE);
        assert_int_equal(step.amount, 500);
        assert_int_equal(step.least, 5);
        assert_int_equal(step.percent, 0);
        assert_int_equal(step.words_small, written.words_small);
        assert_int_equal(step.words_full, written.words_full);
    }
}

static void a_refund_is_worth_what_was_paid(void **state)
{
    struct ladder l = {.percents = {50, 100}, .count = 2};

    (void)state;
    for (size_t i = 0; i < EACH_FORM; i++) {
        struct ration_limit spec = each_form[i];

        if (spec.amount != 100)
            continue;
        struct subject s = subject_of(&l, &spec);

        s.limit = l.steps[1];
        int64_t mark = take(&s, BASE, 60).mark;

        give_back(&s, BASE, 30, BASE, mark);
        assert_int_equal(peek(&s, BASE, 0).remaining, 70);
        s.limit = l.steps[0];
        assert_int_equal(peek(&s, BASE, 0).remaining,
                         spec.algorithm == RATION_TOKEN_BUCKET ? 35 : 20);
        subject_free(&s);
    }
}

/* Flapping between 1 and 0.5 would admit 115 of 100 if units were converted to and fro. */
static void a_stepped_bucket_that_flaps_admits_no_more(void **state)
{
    static const struct ration_limit spec = {.algorithm = RATION_TOKEN_BUCKET,
                                             .amount = 100,
                                             .period_ns = 100 * SECOND,
                                             .step_ns = SECOND};
    struct ladder l = {.percents = {50, 100, 200}, .count = 3};
    struct subject s = subject_of(&l, &spec);
    uint64_t admitted = 0;

    (void)state;
    for (unsigned i = 0; i < 300; i++) {
        s.limit = l.steps[i % 2];
        admitted += take(&s, BASE, 1).allowed;
    }
    assert_in_range(admitted, 66, 67); /* half of them at twice the price */
    assert_int_equal(drain_at(&s, &l.steps[2], BASE), 0);
    assert_int_equal(l.steps[2].cap, 100);
    subject_free(&s);
}

/* 70 % of 50,000 a second are 35,000 units of 28,571.43 ns. In whole nanoseconds they would fill
 * 20 us more than a bucket at 80 % has, where a unit costs only 3.6 us less. */
static void a_lower_factor_lends_nothing_by_rounding(void **state)
{
    static const struct ration_limit spec = {
        .algorithm = RATION_TOKEN_BUCKET, .amount = 50000, .period_ns = SECOND};
    struct ladder l = {.percents = {70, 80, 100}, .count = 3};
    struct subject s = subject_of(&l, &spec);

    (void)state;
    s.limit = l.steps[1];
    assert_true(take(&s, BASE, 40000).allowed);
    s.limit = l.steps[0];
    assert_false(take(&s, BASE + 24999, 1).allowed);
    assert_true(take(&s, BASE + 28572, 1).allowed);
    subject_free(&s);
}

static void places_held_stay_and_none_is_granted_above_the_share(void **state)
{
    static const struct ration_limit spec = {.algorithm = RATION_CONCURRENCY, .amount = 10};
    struct ladder l = {.percents = {50, 100, 200}, .count = 3};
    struct subject s = subject_of(&l, &spec);
    struct rn_ask ask = {.op = RN_TAKE, .now_ns = BASE, .cost = 1, .lease_ns = MINUTE};
    struct rn_answer answer;

    (void)state;
    s.limit = l.steps[1];
    for (ask.id = 1; ask.id <= 10; ask.id++) {
        subject_ask(&s, &ask, &answer);
        assert_true(answer.allowed);
    }
    s.limit = l.steps[0];
    for (uint64_t held = 10; held >= 5; held--) {
        ask.op = RN_TAKE;
        ask.id = 100;
        subject_ask(&s, &ask, &answer);
        assert_false(answer.allowed);
        assert_true(answer.retry_after_ns > 0 && answer.retry_after_ns <= MINUTE);
        ask.op = RN_RELEASE;
        ask.id = held;
        subject_ask(&s, &ask, &answer);
        assert_true(answer.allowed);
    }
    ask.op = RN_TAKE;
    ask.id = 100;
    subject_ask(&s, &ask, &answer);
    assert_true(answer.allowed);
    s.limit = l.steps[2];
    for (ask.id = 101; ask.id <= 115; ask.id++) {
        subject_ask(&s, &ask, &answer);
        assert_true(answer.allowed);
    }
    subject_ask(&s, &ask, &answer);
    assert_false(answer.allowed);
    subject_free(&s);
}

static void a_cost_above_the_lowered_capacity_has_a_wait(void **state)
{
    struct ladder l = {.percents = {1, 50, 100}, .count = 3};

    (void)state;
    for (size_t i = 0; i < EACH_FORM; i++) {
        struct subject s = subject_of(&l, &each_form[i]);
        uint64_t written = l.written.cap;
        int64_t retry;

        for (size_t step = 0; step < 2 && written > 1; step++) {
            s.limit = l.steps[step];
            retry = peek(&s, BASE, written).retry_after_ns;
            assert_true(retry > 0 && retry != RN_NEVER);
            assert_true(peek(&s, BASE, written + 1).retry_after_ns == RN_NEVER);
        }
        subject_free(&s);
    }
}

static void a_slow_bucket_does_not_overflow_at_one_percent(void **state)
{
    static const struct ration_limit spec = {.algorithm = RATION_TOKEN_BUCKET,
                                             .amount = 1,
                                             .period_ns = RATION_PERIOD_MAX_NS,
                                             .burst = 2};
    struct ladder l = {.percents = {1, 100}, .count = 2};
    struct subject s = subject_of(&l, &spec);

    (void)state;
    s.limit = l.steps[0];
    assert_true(take(&s, BASE, 1).allowed);
    struct rn_answer answer = take(&s, BASE, 1);

    assert_false(answer.allowed);
    assert_true(answer.retry_after_ns > 0 && answer.retry_after_ns <= 2 * RATION_PERIOD_MAX_NS);
    s.limit = l.steps[1];
    assert_true(take(&s, BASE + 2 * RATION_PERIOD_MAX_NS, 1).allowed);
    subject_free(&s);
}

int main(void)
{
    struct CMUnitTest tests[RN_ALGORITHMS_MAX + 10] = {
        cmocka_unit_test(every_percent_admits_exactly_its_share_after_idling),
        cmocka_unit_test(all_steps_share_form_and_block_size),
        cmocka_unit_test(common_buckets_stay_one_word),
        cmocka_unit_test(a_log_and_places_never_outgrow_their_blocks),
        cmocka_unit_test(an_adaptive_limit_stays_as_written),
        cmocka_unit_test(a_refund_is_worth_what_was_paid),
        cmocka_unit_test(a_stepped_bucket_that_flaps_admits_no_more),
        cmocka_unit_test(a_lower_factor_lends_nothing_by_rounding),
        cmocka_unit_test(places_held_stay_and_none_is_granted_above_the_share),
        cmocka_unit_test(a_cost_above_the_lowered_capacity_has_a_wait),
        cmocka_unit_test(a_slow_bucket_does_not_overflow_at_one_percent),
    };
    size_t n = 10;

    for (const struct rn_algorithm *a = rn_algorithms; a->name; a++)
        if (a->is_rate)
            tests[n++] = (struct CMUnitTest){.name = a->name,
                                             .test_func = no_interval_exceeds_its_largest_factor,
                                             .initial_state = (void *)(uintptr_t)a};
    return _cmocka_run_group_tests("scale", tests, n, NULL, NULL);
}
