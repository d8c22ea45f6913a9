/* SPDX-License-Identifier: Apache-2.0 */
/* Which limit covers which: as soon as one is said to, the naive model of it
 * never refuses what the other admits, however greedy and well timed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/envelope.h"
#include "model/model.h"
#include "model/subject.h"

static int64_t settles(const struct ration_limit *outer, const struct ration_limit *inner)
{
    struct rn_limit a, b;

    rn_limit_init(&a, outer);
    rn_limit_init(&b, inner);
    return rn_envelope_settles_ns(&a, &b);
}

static bool covers(const struct ration_limit *outer, const struct ration_limit *inner)
{
    return settles(outer, inner) != RN_NEVER;
}

/* ---- by hand */

static struct ration_limit limit_of(enum ration_algorithm algorithm, uint64_t amount,
                                    int64_t period_ns)
{
    return (struct ration_limit){.algorithm = algorithm, .amount = amount, .period_ns = period_ns};
}

static void a_window_needs_the_burst_and_the_rate_of_a_bucket(void **state)
{
    static const enum ration_algorithm windows[] = {RATION_FIXED_WINDOW, RATION_SLIDING_LOG,
                                                    RATION_SLIDING_WINDOW};
    struct ration_limit bucket = limit_of(RATION_TOKEN_BUCKET, 20, MINUTE);

    (void)state;
    for (size_t i = 0; i < sizeof windows / sizeof *windows; i++) {
        struct ration_limit enough = limit_of(windows[i], 41, MINUTE);
        struct ration_limit less = limit_of(windows[i], 39, MINUTE);

        assert_true(covers(&enough, &bucket));
        assert_false(covers(&less, &bucket));
        assert_false(covers(&bucket, &enough));
    }
}

static void windows_that_divide_each_other_cover_without_slack(void **state)
{
    struct ration_limit small = limit_of(RATION_FIXED_WINDOW, 10, 10 * SECOND);
    struct ration_limit large = limit_of(RATION_FIXED_WINDOW, 60, MINUTE);
    struct ration_limit odd = limit_of(RATION_FIXED_WINDOW, 60, MINUTE + SECOND);

    (void)state;
    assert_true(covers(&large, &small));
    assert_false(covers(&odd, &small));
    large.amount = 59;
    assert_false(covers(&large, &small));
    large.amount = 60;
    small.from_first = true;
    assert_false(covers(&large, &small));
}

static void a_window_that_cannot_always_count_covers_nothing(void **state)
{
    struct ration_limit small = limit_of(RATION_TOKEN_BUCKET, 1, MINUTE);
    struct ration_limit large = limit_of(RATION_FIXED_WINDOW, 1000, MINUTE);

    (void)state;
    assert_true(covers(&large, &small));
    large.from_first = true;
    assert_false(covers(&large, &small));
    large.amount = 1 << 20; /* kept with exact ends */
    assert_true(covers(&large, &small));
}

static void a_bucket_of_the_same_rate_never_settles(void **state)
{
    struct ration_limit small = limit_of(RATION_FIXED_WINDOW, 10, MINUTE);
    struct ration_limit large = limit_of(RATION_TOKEN_BUCKET, 10, MINUTE);

    (void)state;
    large.burst = 1000;
    assert_false(covers(&large, &small));
    large.amount = 11;
    assert_true(covers(&large, &small));
    assert_true(settles(&large, &small) >= 20 * MINUTE); /* 20 units at 1 a minute */
    large.burst = 19;
    assert_false(covers(&large, &small));
}

static void the_lengths_of_a_calendar_are_taken_from_it(void **state)
{
    const int64_t ends[] = {0, DAY, 2 * DAY - HOUR, 3 * DAY};
    const struct rn_calendar days = {ends, 4};
    struct ration_limit day = {
        .algorithm = RATION_FIXED_WINDOW, .amount = 100, .calendar = RATION_CALENDAR_DAY};
    struct ration_limit bucket = limit_of(RATION_TOKEN_BUCKET, 200, 23 * HOUR);
    struct ration_limit hourly = limit_of(RATION_TOKEN_BUCKET, 2, HOUR);
    struct rn_limit a, b, c;

    (void)state;
    rn_limit_init(&a, &day);
    rn_limit_set_calendar(&a, &days);
    rn_limit_init(&b, &bucket);
    assert_int_not_equal(rn_envelope_settles_ns(&b, &a), RN_NEVER);
    bucket.amount = 200;
    bucket.period_ns = 47 * HOUR; /* 97.9 in 23 hours, the shortest day */
    rn_limit_init(&b, &bucket);
    assert_int_equal(rn_envelope_settles_ns(&b, &a), RN_NEVER);
    rn_limit_init(&c, &hourly); /* 2 + 2 * 25 in the longest day */
    a.amount = 52;
    assert_int_not_equal(rn_envelope_settles_ns(&a, &c), RN_NEVER);
    a.amount = 51;
    assert_int_equal(rn_envelope_settles_ns(&a, &c), RN_NEVER);
}

/* ---- against the model */

/* Of one of ours: an algorithm of the embedder's is neither larger nor smaller than any. */
static struct ration_limit random_comparable(void)
{
    for (;;) {
        struct ration_limit l = random_limit(random_algorithm());

        if (l.algorithm != RATION_OWN_ALGORITHM)
            return l;
    }
}

static struct ration_limit random_inner(void)
{
    for (;;) {
        struct ration_limit l = random_comparable();

        if (l.amount == 0 || l.amount > 40 || l.burst > 40 || l.queue > 40)
            continue;
        if (l.period_ns >= 1000000 && l.period_ns <= DAY)
            return l;
    }
}

/* The smallest value of the field with which `outer` covers `inner`, if any. */
static bool shrink(struct ration_limit *outer, uint64_t *field, const struct ration_limit *inner)
{
    uint64_t low = 0, high = 1;

    for (*field = high; rn_limit_fault(outer) || !covers(outer, inner); *field = high) {
        low = high;
        high *= 2;
        if (high > 1 << 20)
            return false;
    }
    while (high - low > 1) {
        *field = low + (high - low) / 2;
        if (!rn_limit_fault(outer) && covers(outer, inner))
            high = *field;
        else
            low = *field;
    }
    *field = high;
    return rn_limit_fault(outer) == NULL && covers(outer, inner);
}

/* A limit that covers the other, as small as that is possible in one respect. */
static bool random_outer(struct ration_limit *outer, const struct ration_limit *inner)
{
    *outer = random_comparable();
    outer->from_first = false;
    outer->period_ns = 1 + (int64_t)random_below((uint64_t)inner->period_ns * 8);
    outer->amount = 1 << 20;
    if (random_below(2))
        outer->period_ns = inner->period_ns * (1 + (int64_t)random_below(8));
    if (outer->period_ns < RATION_PERIOD_MIN_NS || outer->period_ns > 8 * DAY)
        return false;
    outer->step_ns = outer->step_ns != 0 ? outer->period_ns : 0; /* any amount is whole */
    if (outer->algorithm == RATION_LEAKY_BUCKET || outer->algorithm == RATION_TOKEN_BUCKET) {
        bool leaky = outer->algorithm == RATION_LEAKY_BUCKET;
        uint64_t *burst = leaky ? &outer->queue : &outer->burst;

        *burst = 1 << 20;
        return shrink(outer, &outer->amount, inner) && shrink(outer, burst, inner);
    }
    return shrink(outer, &outer->amount, inner);
}

/* As much as fits, at moments that hurt. */
static void attack(const struct ration_limit *outer, const struct ration_limit *inner)
{
    struct subject s = subject_new(inner), grid = subject_new(outer);
    struct model m;
    int64_t now = BASE + (int64_t)random_below((uint64_t)outer->period_ns), settled;
    char a[300], b[300];

    model_init(&m, outer);
    model_tick(&m, now);
    model_take(&m, m.cap, 0); /* by others, at once */
    settled = now + settles(outer, inner);
    for (int i = 0; i < 150; i++) {
        uint64_t fits, cost;

        now += random_gap(random_below(3) ? &s : &grid);
        if (i == 20 && now < settled)
            now = settled;
        fits = peek(&s, now, 0).remaining;
        cost = random_below(3) ? fits : random_below(fits + 1);
        model_tick(&m, now);
        if (cost == 0 || (now < settled && !model_fits(&m, cost)))
            continue; /* asked, it refuses */
        assert_true(take(&s, now, cost).allowed);
        if (!model_fits(&m, cost)) {
            describe(outer, a, sizeof a);
            describe(inner, b, sizeof b);
            fail_msg("seed %" PRIu64 ": %s refuses %" PRIu64 " units of %s", random_seed, a, cost,
                     b);
        }
        model_take(&m, cost, 0);
    }
    model_done(&m);
    subject_free(&s);
    subject_free(&grid);
}

static void what_covers_never_refuses_what_the_other_admits(void **state)
{
    uint64_t attacks[RN_ALGORITHMS_MAX][RN_ALGORITHMS_MAX] = {{0}};

    (void)state;
    random_init();
    for (uint64_t i = 0; i < 60000 * soak_factor(); i++) {
        struct ration_limit inner = random_inner(), outer;

        if (!random_outer(&outer, &inner))
            continue;
        attack(&outer, &inner);
        attacks[outer.algorithm][inner.algorithm]++;
    }
    /* An algorithm that covers nothing, so that its form has no `settles`, must be left out here
     * by its name. */
    for (const struct rn_algorithm *a = rn_algorithms; a->name; a++)
        for (const struct rn_algorithm *b = rn_algorithms; b->name; b++)
            if (a->is_rate && b->is_rate)
                assert_true(attacks[a->algorithm][b->algorithm] > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_window_needs_the_burst_and_the_rate_of_a_bucket),
        cmocka_unit_test(windows_that_divide_each_other_cover_without_slack),
        cmocka_unit_test(a_window_that_cannot_always_count_covers_nothing),
        cmocka_unit_test(a_bucket_of_the_same_rate_never_settles),
        cmocka_unit_test(the_lengths_of_a_calendar_are_taken_from_it),
        cmocka_unit_test(what_covers_never_refuses_what_the_other_admits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
