/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the limits promise over many decisions: bounds over every interval,
 * with units given back or not; a full bucket after any idle time; departures
 * from a queue; the way out after a clock went back.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../model/model.h"
#include "../../model/subject.h"

#define TRACES 3000
#define TRACE_LENGTH 120
#define LATEST (INT64_C(3500000000) * SECOND)

static void need_at(const struct subject *s, bool holds, const char *what, int line)
{
    char limit[256];

    if (holds)
        return;
    describe(&s->spec, limit, sizeof(limit));
    fail_msg("line %d: %s\n  limit %s form %d\n  RATION_SEED=%" PRIu64, line, what, limit,
             (int)s->limit.form, random_seed);
}
#define need(subject, condition) need_at(subject, condition, #condition, __LINE__)

/* ---- idle */

static void spend_at_random(struct subject *s, int64_t *now)
{
    for (int i = 0; i < 20 && *now < LATEST; i++) {
        take(s, *now, random_cost(s->limit.cap));
        *now += random_gap(s);
    }
}

static void after_any_idle_time_the_cap_is_there_and_not_one_more(void **unused)
{
    (void)unused;
    random_init();
    for (uint64_t i = 0; i < TRACES * soak_factor(); i++) {
        struct ration_limit spec = random_limit(random_algorithm());
        struct subject s = subject_new(&spec);
        uint64_t cap = s.limit.cap, singles = 0;
        int64_t now = BASE;

        spend_at_random(&s, &now);
        now += 2 * subject_horizon(&s) + (int64_t)random_below(1000);
        if (cap > 500 || random_below(2)) {
            need(&s, take(&s, now, cap).allowed);
        } else {
            while (singles <= cap && take(&s, now, 1).allowed)
                singles++;
            need(&s, singles == cap);
        }
        need(&s, !take(&s, now, 1).allowed);
        need(&s, peek(&s, now, 0).remaining == 0);
        subject_free(&s);
    }
}

/* ---- bounds over intervals, less what was given back */

struct receipt {
    int64_t at_ns, mark;
    uint64_t units;
    size_t charge; /* in the model's list */
};

/* Every pair: what was admitted between two charges, both included. */
static void check_every_interval(const struct subject *s, const struct model *m)
{
    model_int scale = model_bound_scale(m);

    for (size_t i = 0; i < m->charge_count; i++) {
        model_int sum = 0;

        for (size_t j = i; j < m->charge_count; j++) {
            int64_t apart = m->charges[j].now_ns - m->charges[i].now_ns;

            sum += (model_int)m->charges[j].units * scale;
            need(s, m->charges[i].units == 0 || sum <= model_bound(m, apart));
        }
    }
}

static void check_every_window(const struct subject *s, const struct model *m)
{
    for (size_t i = 0; i < m->charge_count; i++) {
        uint64_t units = 0;

        for (size_t j = 0; j < m->charge_count; j++)
            if (m->charges[j].number == m->charges[i].number)
                units += m->charges[j].units;
        need(s, units <= s->spec.amount);
    }
}

/* Gives back part of a take, or all of it. What was undone counts no more,
 * even if the limit did not credit it. */
static void give_some_back(struct subject *s, struct model *m, struct receipt *r, int64_t now)
{
    uint64_t units = random_below(3) ? r->units : 1 + random_below(r->units);
    uint64_t before = peek(s, now, 0).remaining;
    struct rn_answer answer = give_back(s, now, units, r->at_ns, r->mark);

    need(s, answer.remaining >= before && answer.remaining <= s->limit.cap);
    need(s, answer.remaining - before <= units);
    need(s, answer.allowed || answer.remaining == before);
    need(s, peek(s, now, 0).remaining == answer.remaining);
    model_give_back(m, r->charge, units);
}

static void run_with_give_backs(struct subject *s, struct model *m, bool gives_back)
{
    struct receipt open[TRACE_LENGTH];
    size_t count = 0;
    int64_t now = BASE + (int64_t)random_below((uint64_t)DAY);

    for (int i = 0; i < TRACE_LENGTH && now < LATEST; i++) {
        model_tick(m, now);
        if (gives_back && count > 0 && random_below(3) == 0) {
            size_t at = random_below(count);

            give_some_back(s, m, &open[at], now);
            open[at] = open[--count];
        } else {
            uint64_t cost = random_cost(s->limit.cap);
            struct rn_answer answer = take(s, now, cost);

            if (answer.allowed && cost != 0) {
                open[count++] = (struct receipt){now, answer.mark, cost, m->charge_count};
                model_take(m, cost, 0);
            }
        }
        now += random_gap(s);
    }
}

static void no_interval_holds_more_than_the_bound(void **unused)
{
    (void)unused;
    random_init();
    for (uint64_t i = 0; i < 2 * TRACES * soak_factor(); i++) {
        struct ration_limit spec = random_limit(random_algorithm());
        struct subject s = subject_new(&spec);
        struct model m;

        model_init(&m, &spec);
        run_with_give_backs(&s, &m, i % 3 != 0);
        check_every_interval(&s, &m);
        if (spec.algorithm == RATION_FIXED_WINDOW)
            check_every_window(&s, &m);
        model_done(&m);
        subject_free(&s);
    }
}

/* Of a unit's refill time, that which has not passed since the take. */
static void a_bucket_gives_back_what_has_not_been_refilled(void **unused)
{
    struct ration_limit spec = {RATION_TOKEN_BUCKET, .amount = 10, .period_ns = 10 * SECOND};
    struct subject s = subject_new(&spec);
    int64_t mark = take(&s, BASE, 6).mark;

    (void)unused;
    assert_int_equal(give_back(&s, BASE + 2 * SECOND, 6, BASE, mark).remaining, 10);
    assert_false(give_back(&s, BASE + 2 * SECOND, 6, BASE, mark).allowed);
    mark = take(&s, BASE + 2 * SECOND, 10).mark;
    assert_true(take(&s, BASE + 5 * SECOND, 3).allowed);
    struct rn_answer answer = give_back(&s, BASE + 6 * SECOND, 10, BASE + 2 * SECOND, mark);

    assert_true(answer.allowed);
    assert_int_equal(answer.remaining, 7); /* 1 refilled, 10 - 4 given back */
    assert_false(give_back(&s, BASE + 12 * SECOND, 3, BASE + 5 * SECOND, mark).allowed);
    subject_free(&s);
}

static void a_receipt_of_a_window_that_is_gone_gives_nothing_back(void **unused)
{
    static const struct ration_limit specs[] = {
        {RATION_FIXED_WINDOW, .amount = 10, .period_ns = MINUTE},
        {RATION_FIXED_WINDOW, .amount = 10, .period_ns = SECOND / 10, .from_first = true},
        {RATION_SLIDING_LOG, .amount = 10, .period_ns = MINUTE},
        {RATION_SLIDING_WINDOW, .amount = 10, .period_ns = MINUTE},
        {RATION_SLIDING_WINDOW, .amount = 10, .period_ns = MINUTE, .sub_windows = 6},
    };

    (void)unused;
    for (size_t i = 0; i < sizeof(specs) / sizeof(*specs); i++) {
        struct subject s = subject_new(&specs[i]);
        int64_t mark = take(&s, BASE, 4).mark, later = BASE + 3 * subject_horizon(&s);

        take(&s, later, 10);
        struct rn_answer answer = give_back(&s, later, 4, BASE, mark);

        need(&s, !answer.allowed && answer.remaining == 0);
        subject_free(&s);
    }
}

static void units_given_back_in_time_are_there_again(void **unused)
{
    (void)unused;
    random_init();
    for (int i = 0; i < TRACES; i++) {
        struct ration_limit spec = random_limit(random_algorithm());
        struct subject s = subject_new(&spec);
        uint64_t cap = s.limit.cap;

        if (cap > 0) {
            take(&s, BASE, random_below(cap));
            uint64_t left = peek(&s, BASE, 0).remaining, cost = 1 + random_below(left);
            struct rn_answer answer = take(&s, BASE, cost);

            answer = give_back(&s, BASE, cost, BASE, answer.mark);
            need(&s, answer.allowed && answer.remaining == left);
        }
        subject_free(&s);
    }
}

/* ---- queues */

/* The n-th unit leaves no earlier than n - 1 units' time after the first. */
static void departures_from_a_queue_keep_their_distance(void **unused)
{
    (void)unused;
    random_init();
    for (uint64_t i = 0; i < TRACES * soak_factor(); i++) {
        struct ration_limit spec = random_limit(RATION_LEAKY_BUCKET);
        struct subject s = subject_new(&spec);
        int64_t now = BASE, first = 0;
        model_int units = 0;

        for (int step = 0; step < TRACE_LENGTH && now < LATEST; step++) {
            uint64_t cost = 1 + random_below(random_below(4) ? 1 : s.limit.cap);
            struct rn_answer answer = take(&s, now, cost);
            int64_t leaves = now + answer.delay_ns;

            need(&s, answer.allowed ? answer.delay_ns >= 0 : answer.delay_ns == 0);
            if (answer.allowed) {
                if (answer.delay_ns == 0) /* the queue was empty: start to count again */
                    first = now, units = 0;
                need(&s, (model_int)(leaves - first) * (model_int)spec.amount >=
                             units * spec.period_ns);
                /* and is not held up: within 1 ns, or 1e-6, a unit */
                need(&s, (model_int)(leaves - first) * (model_int)spec.amount <=
                             (units * spec.period_ns / 1000000 + units * spec.period_ns) +
                                 (model_int)spec.amount);
                units += (model_int)cost;
            }
            now += random_gap(&s);
        }
        subject_free(&s);
    }
}

static void only_the_tail_of_a_queue_can_be_given_back(void **unused)
{
    struct ration_limit spec = {RATION_LEAKY_BUCKET, .amount = 10, .period_ns = SECOND, .queue = 5};
    struct subject s = subject_new(&spec);
    int64_t first = take(&s, BASE, 1).mark, second = take(&s, BASE, 1).mark;

    (void)unused;
    assert_false(give_back(&s, BASE, 1, BASE, first).allowed);
    assert_int_equal(peek(&s, BASE, 1).delay_ns, SECOND / 5);
    assert_true(give_back(&s, BASE, 1, BASE, second).allowed);
    assert_int_equal(peek(&s, BASE, 1).delay_ns, SECOND / 10);
    subject_free(&s);
}

/* ---- clocks */

static void a_clock_that_went_back_adds_nothing(void **unused)
{
    (void)unused;
    random_init();
    for (uint64_t i = 0; i < 10 * TRACES * soak_factor(); i++) {
        struct ration_limit spec = random_limit(random_algorithm());
        struct subject s = subject_new(&spec);
        int64_t now = BASE;

        spend_at_random(&s, &now);
        now -= now % model_grain(&spec); /* not in the rounding of a window's end */
        uint64_t left = peek(&s, now, 0).remaining;
        int64_t back = (int64_t)random_scale(1, 4 * (uint64_t)subject_horizon(&s));

        need(&s, now - back < DAY || peek(&s, now - back, 0).remaining <= left);
        subject_free(&s);
    }
}

/* A log rounds times up: the newest may seem more than a period after the
 * oldest, which is not gone for that. */
static void a_log_brought_back_in_time_keeps_its_oldest(void **unused)
{
    struct ration_limit spec = {RATION_SLIDING_LOG, .amount = 3, .period_ns = DAY};
    struct subject s = subject_new(&spec);

    (void)unused;
    take(&s, BASE, 2);
    take(&s, BASE + DAY - 1, 1);
    assert_false(take(&s, BASE - 2 * DAY, 1).allowed);
    subject_free(&s);
}

static void nobody_is_locked_out_by_a_clock_that_went_back(void **unused)
{
    (void)unused;
    random_init();
    for (uint64_t i = 0; i < TRACES * soak_factor(); i++) {
        struct ration_limit spec = random_limit(random_algorithm());
        struct subject s = subject_new(&spec);
        int64_t now = BASE, horizon = subject_horizon(&s);

        spend_at_random(&s, &now);
        take(&s, now, s.limit.cap);
        now -= (int64_t)random_scale(1, (uint64_t)(now - DAY));
        take(&s, now, s.limit.cap);
        need(&s, peek(&s, now + 2 * horizon, s.limit.cap).allowed);
        subject_free(&s);
    }
}

#define BOUNDARY ((BASE / (60 * SECOND) + 1) * 60 * SECOND)

static struct subject ten_per_minute(bool from_first)
{
    struct ration_limit spec = {RATION_FIXED_WINDOW, .amount = 10, .period_ns = 60 * SECOND};

    spec.from_first = from_first;
    return subject_new(&spec);
}

/* Ended early, the window would be followed by a rest of itself. */
static void a_step_back_does_not_begin_an_aligned_window_twice(void **unused)
{
    struct subject s = ten_per_minute(false);

    (void)unused;
    assert_true(take(&s, BOUNDARY + SECOND / 2, 1).allowed);
    assert_int_equal(peek(&s, BOUNDARY - SECOND / 2, 0).remaining, 9);
    take(&s, BOUNDARY - SECOND / 2, 1);
    assert_true(take(&s, BOUNDARY + 59 * SECOND, 8).allowed);
    assert_false(take(&s, BOUNDARY + 60 * SECOND - SECOND / 1000, 1).allowed);
    assert_true(take(&s, BOUNDARY + 60 * SECOND, 10).allowed);
    subject_free(&s);
}

/* The wall clock is set back by half a minute: what begins when the window ends
 * is the same minute once more. */
static void a_window_that_the_wall_clock_repeats_keeps_its_count(void **unused)
{
    struct subject s = ten_per_minute(false);

    (void)unused;
    assert_true(take(&s, BOUNDARY + SECOND, 10).allowed);
    s.wall_offset_ns = -30 * SECOND;
    assert_false(take(&s, BOUNDARY + 61 * SECOND, 1).allowed);
    assert_int_equal(peek(&s, BOUNDARY + 61 * SECOND, 1).retry_after_ns, 29 * SECOND);
    assert_true(take(&s, BOUNDARY + 90 * SECOND, 10).allowed);
    subject_free(&s);
}

/* The end of the first window is rounded up; what is asked in the rounding
 * belongs to the second, but it cannot be told to which. */
static void nothing_is_admitted_while_it_is_unclear_whether_a_window_has_ended(void **unused)
{
    struct subject s = ten_per_minute(true);
    int64_t start = BOUNDARY + 1, end = start + 60 * SECOND;
    struct rn_answer answer;

    (void)unused;
    assert_true(take(&s, start, 5).allowed);
    assert_int_equal(peek(&s, end - SECOND / 1000, 0).remaining, 5);
    answer = take(&s, end + 1, 1);
    assert_false(answer.allowed);
    assert_in_range(answer.retry_after_ns, 1, 320000);
    assert_true(take(&s, end + 1 + answer.retry_after_ns, 10).allowed);
    subject_free(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(after_any_idle_time_the_cap_is_there_and_not_one_more),
        cmocka_unit_test(no_interval_holds_more_than_the_bound),
        cmocka_unit_test(a_bucket_gives_back_what_has_not_been_refilled),
        cmocka_unit_test(a_receipt_of_a_window_that_is_gone_gives_nothing_back),
        cmocka_unit_test(units_given_back_in_time_are_there_again),
        cmocka_unit_test(departures_from_a_queue_keep_their_distance),
        cmocka_unit_test(only_the_tail_of_a_queue_can_be_given_back),
        cmocka_unit_test(a_clock_that_went_back_adds_nothing),
        cmocka_unit_test(a_log_brought_back_in_time_keeps_its_oldest),
        cmocka_unit_test(nobody_is_locked_out_by_a_clock_that_went_back),
        cmocka_unit_test(a_step_back_does_not_begin_an_aligned_window_twice),
        cmocka_unit_test(a_window_that_the_wall_clock_repeats_keeps_its_count),
        cmocka_unit_test(nothing_is_admitted_while_it_is_unclear_whether_a_window_has_ended),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
