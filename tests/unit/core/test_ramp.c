/* SPDX-License-Identifier: Apache-2.0 */
/* The controller of a factor: examples, then its promises on a million random steps for each of
 * several plans and kinds of signal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/ramp.h"

#define SECOND INT64_C(1000000000)
#define PERCENT (RN_SIGNAL_UNIT / 100)

/* adapt: {when: cpu above 80%, to: 50%} */
static const struct rn_ramp_plan cpu_plan = {.when = {true, 80 * PERCENT},
                                             .calm_threshold = 70 * PERCENT,
                                             .percent = 50,
                                             .by = 10,
                                             .for_ns = 30 * SECOND,
                                             .every_ns = 10 * SECOND};
/* elastic: {up_to: 200%, while: cpu below 50%} */
static const struct rn_ramp_plan surplus_plan = {.when = {false, 50 * PERCENT},
                                                 .percent = 200,
                                                 .by = 10,
                                                 .for_ns = 30 * SECOND,
                                                 .every_ns = 10 * SECOND};

static unsigned lower(struct rn_ramp_state *s, int64_t second, int64_t percent)
{
    int64_t value = percent * PERCENT;

    return rn_ramp_lower(&cpu_plan, s, second * SECOND, percent < 0 ? NULL : &value);
}

static unsigned raise_to(struct rn_ramp_state *s, int64_t second, int64_t percent, bool lowered)
{
    int64_t value = percent * PERCENT;

    return rn_ramp_raise(&surplus_plan, s, second * SECOND, percent < 0 ? NULL : &value, lowered);
}

static unsigned follow(struct rn_ramp_state *s, int64_t second, unsigned asked, bool lost)
{
    return rn_ramp_follow(&cpu_plan, s, second * SECOND, asked == 0 ? NULL : &asked, lost);
}

/* ---- by hand */

static void what_another_node_asks_for_counts_at_once(void **state)
{
    struct rn_ramp_state s;

    (void)state;
    rn_ramp_start(&cpu_plan, &s, 100);
    assert_int_equal(follow(&s, 0, 100, false), 100);
    assert_int_equal(follow(&s, 1, 50, false), 50);
    assert_int_equal(follow(&s, 2, 60, false), 60); /* its controller has taken its time */
    assert_int_equal(follow(&s, 3, 30, false), 30);
    assert_int_equal(follow(&s, 4, 4000, false), 100);
}

static void a_node_that_has_fallen_silent_is_restored_in_steps(void **state)
{
    struct rn_ramp_state s;

    (void)state;
    rn_ramp_start(&cpu_plan, &s, 100);
    assert_int_equal(follow(&s, 0, 50, false), 50);
    assert_int_equal(follow(&s, 1, 100, true), 50);
    assert_int_equal(follow(&s, 30, 100, false), 50); /* the loss is remembered */
    assert_int_equal(follow(&s, 31, 100, false), 60);
    assert_int_equal(follow(&s, 40, 100, false), 60);
    assert_int_equal(follow(&s, 41, 65, false), 65); /* no further than another node allows */
    assert_int_equal(follow(&s, 42, 65, false), 65);
    assert_int_equal(follow(&s, 43, 80, false), 80); /* which is there, so it is followed */
    assert_int_equal(follow(&s, 44, 20, false), 20);
    for (int64_t second = 45; second < 75; second++)
        assert_int_equal(follow(&s, second, 0, false), 20); /* nothing is known */
    assert_int_equal(follow(&s, 75, 0, false), 30);
    assert_int_equal(follow(&s, 76, 100, false), 30);
}

static void a_value_beyond_the_threshold_lowers_at_once(void **state)
{
    struct rn_ramp_state s;

    (void)state;
    rn_ramp_start(&cpu_plan, &s, 100);
    assert_int_equal(lower(&s, 0, 80), 100);
    assert_int_equal(lower(&s, 0, 81), 50);
    assert_int_equal(lower(&s, 1, 100), 50);
}

static void a_lowered_factor_is_restored_in_steps_after_a_calm_time(void **state)
{
    struct rn_ramp_state s;

    (void)state;
    rn_ramp_start(&cpu_plan, &s, 100);
    lower(&s, 0, 90);
    for (int64_t t = 1; t <= 30; t++)
        assert_int_equal(lower(&s, t, 60), 50);
    for (int64_t t = 31; t < 200; t++)
        assert_int_equal(lower(&s, t, 60), t < 81 ? 60 + (t - 31) / 10 * 10 : 100);
}

static void a_value_between_the_thresholds_begins_the_calm_time_again(void **state)
{
    struct rn_ramp_state s;

    (void)state;
    rn_ramp_start(&cpu_plan, &s, 100);
    lower(&s, 0, 90);
    for (int64_t t = 1; t < 30; t++)
        lower(&s, t, 60);
    assert_int_equal(lower(&s, 30, 70), 50);
    for (int64_t t = 31; t < 61; t++)
        assert_int_equal(lower(&s, t, 69), 50);
    assert_int_equal(lower(&s, 61, 69), 60);
}

static void a_drop_while_restoring_lowers_again(void **state)
{
    struct rn_ramp_state s;

    (void)state;
    rn_ramp_start(&cpu_plan, &s, 100);
    lower(&s, 0, 90);
    for (int64_t t = 1; t <= 45; t++)
        lower(&s, t, 10);
    assert_int_equal(s.percent, 70);
    assert_int_equal(lower(&s, 46, 81), 50);
    for (int64_t t = 47; t < 77; t++)
        assert_int_equal(lower(&s, t, 10), 50);
}

static void a_stale_signal_restores_in_steps_and_ends_a_surplus_at_once(void **state)
{
    struct rn_ramp_state s;

    (void)state;
    rn_ramp_start(&cpu_plan, &s, 100);
    lower(&s, 0, 90);
    for (int64_t t = 1; t <= 30; t++)
        assert_int_equal(lower(&s, t, -1), 50);
    assert_int_equal(lower(&s, 31, -1), 60);
    rn_ramp_start(&surplus_plan, &s, 100);
    for (int64_t t = 0; t < 30; t++)
        assert_int_equal(raise_to(&s, t, 20, false), 100);
    for (int64_t t = 30; t < 300; t++)
        assert_int_equal(raise_to(&s, t, 20, false), t < 120 ? 110 + (t - 30) / 10 * 10 : 200);
    assert_int_equal(raise_to(&s, 300, -1, false), 100);
    assert_int_equal(raise_to(&s, 301, 20, false), 100);
}

static void a_surplus_ends_when_its_condition_does_or_an_adapt_lowers(void **state)
{
    struct rn_ramp_state s;

    (void)state;
    rn_ramp_start(&surplus_plan, &s, 100);
    for (int64_t t = 0; t <= 60; t++)
        raise_to(&s, t, 20, false);
    assert_int_equal(s.percent, 140);
    assert_int_equal(raise_to(&s, 61, 50, false), 100);
    for (int64_t t = 62; t <= 92; t++)
        raise_to(&s, t, 20, false);
    assert_int_equal(s.percent, 110);
    assert_int_equal(raise_to(&s, 93, 20, true), 100);
    assert_int_equal(raise_to(&s, 94, 20, false), 100);
}

static void a_restart_begins_at_most_where_it_stopped(void **state)
{
    struct rn_ramp_state s;

    (void)state;
    for (unsigned p = 1; p <= 400; p++) {
        unsigned at = p < 50 ? 50 : p > 100 ? 100 : p / 10 * 10;

        rn_ramp_start(&cpu_plan, &s, p);
        assert_int_equal(s.percent, at);
        assert_int_equal(lower(&s, 0, -1), at);
        rn_ramp_start(&surplus_plan, &s, p);
        assert_int_equal(s.percent, 100);
    }
}

static void a_ladder_holds_every_step(void **state)
{
    static const uint16_t down[] = {50, 60, 70, 80, 90, 100};
    struct rn_ramp_plan odd = {.percent = 115, .by = 10}, smallest = {.percent = 1, .by = 5};
    struct rn_ramp_plan largest = {.percent = 400, .by = 5};
    uint16_t out[RN_RAMP_LADDER_MAX];

    (void)state;
    assert_int_equal(rn_ramp_ladder(&cpu_plan, out), 6);
    assert_memory_equal(out, down, sizeof down);
    assert_int_equal(rn_ramp_ladder(&odd, out), 3);
    assert_int_equal(out[1], 110);
    assert_int_equal(out[2], 115);
    assert_int_equal(rn_ramp_ladder(&smallest, out), 21);
    assert_int_equal(out[0], 1);
    assert_int_equal(rn_ramp_ladder(&largest, out), 61);
}

/* ---- promises, on random and adversarial traces */

static uint64_t seed = 88172645463325252u;

static uint64_t any(uint64_t below)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed % below;
}

enum trace { NOISE, EDGE, BURSTS, HOSTILE };

/* Share in whole percent, or -1 for stale. HOSTILE is calm just until a step is due. */
static int64_t next_value(enum trace trace, const struct rn_ramp_state *s,
                          const struct rn_ramp_plan *plan, int64_t now)
{
    bool is_due = s->calm && now - s->calm_since_ns >= plan->for_ns;

    switch (trace) {
    case NOISE:
        return any(20) == 0 ? -1 : (int64_t)any(101);
    case EDGE:
        return any(2) ? 69 + (int64_t)any(3) : 79 + (int64_t)any(3);
    case BURSTS:
        return now / (45 * SECOND) % 2 ? 95 : (int64_t)any(50);
    case HOSTILE:
        return is_due && any(3) ? 100 : any(50) == 0 ? 75 : 10;
    }
    return 0;
}

struct watcher {
    int64_t last_step, last_turn,
        last_stir; /* upward step, turn upwards, moment that was not calm */
    bool stepped, turned, stirred, rising;
};

/* Checks one step from `before` to `after`. `is_calm`: the value permits to go up. */
static void watch(struct watcher *w, const struct rn_ramp_plan *plan, int64_t now, unsigned before,
                  unsigned after, bool is_calm)
{
    if (!is_calm) {
        assert_true(after <= before);
        w->last_stir = now;
        w->stirred = true;
    }
    if (after < before)
        w->rising = false;
    if (after <= before)
        return;
    assert_true(after - before <= plan->by);
    assert_true(!w->stepped || now - w->last_step >= plan->every_ns);
    assert_true(!w->stirred || now - w->last_stir >= plan->for_ns);
    if (!w->rising) {
        assert_true(!w->turned || now - w->last_turn >= plan->for_ns);
        w->last_turn = now;
        w->turned = true;
    }
    w->rising = true;
    w->stepped = true;
    w->last_step = now;
}

static bool is_member(const struct rn_ramp_plan *plan, unsigned percent)
{
    uint16_t ladder[RN_RAMP_LADDER_MAX];
    size_t count = rn_ramp_ladder(plan, ladder);

    for (size_t i = 0; i < count; i++)
        if (ladder[i] == percent)
            return true;
    return false;
}

static void run_trace(const struct rn_ramp_plan *plan, enum trace trace, uint32_t steps)
{
    struct rn_ramp_state s;
    struct watcher w = {.rising = false};
    int64_t now = 0;
    uint64_t turns = 0;

    rn_ramp_start(plan, &s, 100);
    for (uint32_t i = 0; i < steps; i++) {
        int64_t percent = next_value(trace, &s, plan, now), value = percent * PERCENT;
        bool stale = percent<0, raises = plan->percent> 100, was_rising = w.rising;
        bool lowered = raises && any(100) == 0;
        bool holds = !stale && rn_ramp_holds(&plan->when, value);
        bool calm = raises ? holds && !lowered : stale || value < plan->calm_threshold;
        unsigned before = s.percent;
        unsigned after = raises ? rn_ramp_raise(plan, &s, now, stale ? NULL : &value, lowered)
                                : rn_ramp_lower(plan, &s, now, stale ? NULL : &value);

        watch(&w, plan, now, before, after, calm);
        turns += w.rising && !was_rising;
        assert_true(is_member(plan, after));
        if (raises)
            assert_true(calm || after == 100);
        else
            assert_true(!holds || after == plan->percent);
        now += any(10) == 0 ? (int64_t)any(3) * SECOND + 1 : SECOND;
    }
    assert_true(turns <= (uint64_t)(now / plan->for_ns) + 1);
}

static void promises_hold_on_every_trace(void **state)
{
    struct rn_ramp_plan plans[] = {cpu_plan, surplus_plan, cpu_plan, surplus_plan};

    (void)state;
    plans[2].by = 7;
    plans[2].percent = 3;
    plans[2].for_ns = 3 * SECOND;
    plans[2].every_ns = SECOND;
    plans[3].for_ns = 2 * SECOND;
    plans[3].every_ns = 5 * SECOND;
    for (size_t p = 0; p < sizeof plans / sizeof *plans; p++)
        for (unsigned trace = NOISE; trace <= HOSTILE; trace++)
            run_trace(&plans[p], (enum trace)trace, 250000);
}

/* A clock that steps back never makes a step upwards come early. */
static void a_clock_that_steps_back_only_delays(void **state)
{
    struct rn_ramp_state s;

    (void)state;
    rn_ramp_start(&cpu_plan, &s, 100);
    lower(&s, 100, 90);
    for (int64_t t = 101; t < 130; t++)
        assert_int_equal(lower(&s, t, 10), 50);
    for (int64_t t = 20; t < 50; t++)
        assert_int_equal(lower(&s, t, 10), 50);
    assert_int_equal(lower(&s, 50, 10), 60);
    for (int64_t t = 0; t < 30; t++)
        assert_int_equal(lower(&s, t, 10), 60);
    assert_int_equal(lower(&s, 30, 10), 70);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_another_node_asks_for_counts_at_once),
        cmocka_unit_test(a_node_that_has_fallen_silent_is_restored_in_steps),
        cmocka_unit_test(a_value_beyond_the_threshold_lowers_at_once),
        cmocka_unit_test(a_lowered_factor_is_restored_in_steps_after_a_calm_time),
        cmocka_unit_test(a_value_between_the_thresholds_begins_the_calm_time_again),
        cmocka_unit_test(a_drop_while_restoring_lowers_again),
        cmocka_unit_test(a_stale_signal_restores_in_steps_and_ends_a_surplus_at_once),
        cmocka_unit_test(a_surplus_ends_when_its_condition_does_or_an_adapt_lowers),
        cmocka_unit_test(a_restart_begins_at_most_where_it_stopped),
        cmocka_unit_test(a_ladder_holds_every_step),
        cmocka_unit_test(promises_hold_on_every_trace),
        cmocka_unit_test(a_clock_that_steps_back_only_delays),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
