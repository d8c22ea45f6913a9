/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiling limits: what is refused and why, which limits share state, how a
 * state moves between layouts; and that no content of a state does harm.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "../../model/subject.h"
#include "core/algorithm.h"

#define HOSTILE_CASES UINT64_C(100000)

typedef struct ration_limit limit;

/* ---- faults */

static void good_limits_have_no_fault(void **unused)
{
    static const limit good[] = {
        {RATION_TOKEN_BUCKET, .amount = 100, .period_ns = MINUTE},
        {RATION_TOKEN_BUCKET, .amount = 0, .period_ns = MINUTE},
        {RATION_TOKEN_BUCKET, .amount = 1, .period_ns = 365 * DAY},
        {RATION_TOKEN_BUCKET, .amount = RATION_RATE_MAX, .period_ns = SECOND},
        {RATION_TOKEN_BUCKET, .amount = 1000, .period_ns = RATION_PERIOD_MIN_NS},
        {RATION_TOKEN_BUCKET, .amount = 1, .period_ns = RATION_PERIOD_MAX_NS},
        {RATION_TOKEN_BUCKET, .amount = 100, .period_ns = MINUTE, .burst = 20},
        {RATION_TOKEN_BUCKET, .amount = 100, .period_ns = MINUTE, .step_ns = 6 * SECOND},
        {RATION_LEAKY_BUCKET, .amount = 10, .period_ns = SECOND, .queue = 50},
        {RATION_LEAKY_BUCKET, .amount = 10, .period_ns = SECOND},
        {RATION_FIXED_WINDOW, .amount = RATION_AMOUNT_MAX, .period_ns = 30 * DAY},
        {RATION_FIXED_WINDOW, .amount = 5, .period_ns = DAY, .from_first = true},
        {RATION_SLIDING_LOG, .amount = RATION_LOG_MAX, .period_ns = HOUR},
        {RATION_SLIDING_WINDOW, .amount = 1000000, .period_ns = HOUR},
        {RATION_SLIDING_WINDOW, .amount = 100, .period_ns = HOUR, .sub_windows = 2},
        {RATION_SLIDING_WINDOW, .amount = 100, .period_ns = HOUR, .sub_windows = 1024},
        {RATION_CONCURRENCY, .amount = RATION_PLACES_MAX},
        {RATION_CONCURRENCY, .amount = RATION_ADAPTIVE_MAX, .adaptive_min = 1},
        {RATION_CONCURRENCY, .amount = 20, .lease_ns = RATION_LEASE_MAX_NS},
        {.algorithm = RATION_UNLIMITED},
    };

    (void)unused;
    for (size_t i = 0; i < sizeof(good) / sizeof(*good); i++)
        if (rn_limit_fault(&good[i]))
            fail_msg("good limit %zu: %s", i, rn_limit_fault(&good[i]));
}

static void faulty_limits_are_told_what_is_wrong(void **unused)
{
    static const struct {
        limit limit;
        const char *word; /* that the text has to mention */
    } bad[] = {
        {{RATION_TOKEN_BUCKET, .amount = RATION_RATE_MAX + 1, .period_ns = SECOND}, "rate"},
        {{RATION_FIXED_WINDOW, .amount = 1001, .period_ns = 1000}, "rate"},
        {{RATION_TOKEN_BUCKET, .amount = RATION_AMOUNT_MAX + 1, .period_ns = 365 * DAY}, "amount"},
        {{RATION_FIXED_WINDOW, .amount = 10, .period_ns = MINUTE, .burst = 5}, "burst"},
        {{RATION_SLIDING_LOG, .amount = 10, .period_ns = MINUTE, .burst = 5}, "burst"},
        {{RATION_LEAKY_BUCKET, .amount = 10, .period_ns = MINUTE, .burst = 5}, "burst"},
        {{RATION_TOKEN_BUCKET, .amount = 10, .period_ns = MINUTE, .queue = 5}, "queue"},
        {{RATION_SLIDING_WINDOW, .amount = 10, .period_ns = MINUTE, .queue = 5}, "queue"},
        {{RATION_SLIDING_LOG, .amount = RATION_LOG_MAX + 1, .period_ns = MINUTE}, "sub_windows"},
        {{RATION_TOKEN_BUCKET, .amount = 1, .period_ns = MINUTE, .sub_windows = 6}, "sub-window"},
        {{RATION_FIXED_WINDOW, .amount = 1, .period_ns = MINUTE, .sub_windows = 6}, "sub-window"},
        {{RATION_SLIDING_WINDOW, .amount = 1, .period_ns = HOUR, .sub_windows = 1}, "sub-window"},
        {{RATION_SLIDING_WINDOW, .amount = 1, .period_ns = HOUR, .sub_windows = 1025}, "1024"},
        {{RATION_TOKEN_BUCKET, .amount = 100, .period_ns = MINUTE, .step_ns = SECOND}, "step"},
        {{RATION_TOKEN_BUCKET, .amount = 1, .period_ns = MINUTE, .step_ns = 2 * MINUTE}, "step"},
        {{RATION_TOKEN_BUCKET, .amount = 1, .period_ns = MINUTE, .step_ns = -1}, "step"},
        {{RATION_FIXED_WINDOW, .amount = 60, .period_ns = MINUTE, .step_ns = SECOND}, "step"},
        {{RATION_LEAKY_BUCKET, .amount = 60, .period_ns = MINUTE, .step_ns = SECOND}, "step"},
        {{RATION_SLIDING_LOG, .amount = 1, .period_ns = MINUTE, .from_first = true}, "first"},
        {{RATION_CONCURRENCY, .amount = RATION_PLACES_MAX + 1}, "16,000"},
        {{RATION_CONCURRENCY, .amount = RATION_ADAPTIVE_MAX + 1, .adaptive_min = 1}, "10,000"},
        {{RATION_CONCURRENCY, .amount = 4, .adaptive_min = 5}, "above the maximum"},
        {{RATION_TOKEN_BUCKET, .amount = 9, .period_ns = SECOND, .adaptive_min = 5}, "adaptive"},
        {{RATION_CONCURRENCY, .amount = 1, .lease_ns = RATION_LEASE_MAX_NS + 1}, "lease"},
        {{RATION_CONCURRENCY, .amount = 1, .lease_ns = -1}, "lease"},
        {{RATION_FIXED_WINDOW, .amount = 1, .period_ns = RATION_PERIOD_MIN_NS - 1}, "period"},
        {{RATION_FIXED_WINDOW, .amount = 1, .period_ns = RATION_PERIOD_MAX_NS + 1}, "period"},
        {{RATION_FIXED_WINDOW, .amount = 1, .period_ns = 0}, "period"},
        {{RATION_FIXED_WINDOW, .amount = 1, .period_ns = INT64_MIN}, "period"},
        {{RATION_TOKEN_BUCKET, .amount = 1, .period_ns = DAY, .burst = UINT64_MAX}, "burst"},
        {{RATION_TOKEN_BUCKET, .amount = 1, .period_ns = DAY, .burst = 1000000}, "refill"},
        {{RATION_LEAKY_BUCKET, .amount = 1, .period_ns = DAY, .queue = UINT64_MAX}, "queue"},
        {{(enum ration_algorithm)99, .amount = 1, .period_ns = DAY}, "algorithm"},
    };

    (void)unused;
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        const char *fault = rn_limit_fault(&bad[i].limit);

        if (!fault || !strstr(fault, bad[i].word))
            fail_msg("faulty limit %zu: \"%s\" does not mention %s", i, fault ? fault : "(none)",
                     bad[i].word);
    }
}

static void random_specs_are_refused_or_work(void **unused)
{
    (void)unused;
    random_init();
    for (uint64_t i = 0; i < HOSTILE_CASES; i++) {
        limit l = {.algorithm = (enum ration_algorithm)random_below(9),
                   .amount = random_scale(0, random_below(4) ? 1000000 : UINT64_MAX),
                   .period_ns = (int64_t)random_scale(0, random_below(4) ? DAY : UINT64_MAX)};

        if (random_below(4) == 0)
            l.burst = random_scale(0, UINT64_MAX);
        if (random_below(4) == 0)
            l.queue = random_scale(0, UINT64_MAX);
        if (random_below(4) == 0)
            l.step_ns = (int64_t)random_scale(0, UINT64_MAX);
        if (random_below(4) == 0)
            l.sub_windows = (uint32_t)random_scale(0, 2000);
        if (rn_limit_fault(&l))
            continue;
        struct subject s = subject_new(&l);

        if (l.algorithm != RATION_CONCURRENCY)
            assert_true(take(&s, BASE, s.limit.cap).allowed);
        subject_free(&s);
    }
}

/* ---- shapes */

static uint64_t shape(limit l)
{
    struct rn_limit compiled;

    assert_null(rn_limit_fault(&l));
    rn_limit_init(&compiled, &l);
    return compiled.shape;
}

static void limits_that_differ_in_amount_share_a_shape(void **unused)
{
    (void)unused;
    for (const struct rn_algorithm *a = rn_algorithms; a->name; a++) {
        limit l = {a->algorithm, .amount = 100, .period_ns = MINUTE};
        limit twice = {a->algorithm, .amount = 200, .period_ns = MINUTE};

        if (!a->is_rate)
            continue;
        if (a->algorithm == RATION_LEAKY_BUCKET) /* a queue's window is how long one waits */
            l.queue = 99, twice.queue = 199;
        assert_true(shape(l) == shape(twice));
    }
    assert_true(shape((limit){RATION_FIXED_WINDOW, .amount = 5, .period_ns = DAY}) ==
                shape((limit){RATION_FIXED_WINDOW, .amount = 5000000, .period_ns = DAY}));
}

static void limits_that_differ_in_kind_or_window_share_none(void **unused)
{
    static const limit different[] = {
        {RATION_TOKEN_BUCKET, .amount = 100, .period_ns = MINUTE},
        {RATION_TOKEN_BUCKET, .amount = 100, .period_ns = HOUR},
        {RATION_TOKEN_BUCKET, .amount = 100, .period_ns = MINUTE, .step_ns = 6 * SECOND},
        {RATION_LEAKY_BUCKET, .amount = 100, .period_ns = MINUTE, .queue = 99},
        {RATION_FIXED_WINDOW, .amount = 100, .period_ns = MINUTE},
        {RATION_FIXED_WINDOW, .amount = 100, .period_ns = HOUR},
        {RATION_FIXED_WINDOW, .amount = 100, .period_ns = MINUTE, .from_first = true},
        {RATION_SLIDING_LOG, .amount = 100, .period_ns = MINUTE},
        {RATION_SLIDING_WINDOW, .amount = 100, .period_ns = MINUTE},
        {RATION_SLIDING_WINDOW, .amount = 100, .period_ns = MINUTE, .sub_windows = 60},
        {RATION_SLIDING_WINDOW, .amount = 100, .period_ns = MINUTE, .sub_windows = 30},
        {RATION_CONCURRENCY, .amount = 100},
        {.algorithm = RATION_UNLIMITED},
    };
    size_t count = sizeof(different) / sizeof(*different);

    (void)unused;
    for (size_t i = 0; i < count; i++)
        for (size_t j = 0; j < i; j++)
            if (shape(different[i]) == shape(different[j]))
                fail_msg("limits %zu and %zu share a shape", i, j);
}

/* ---- another amount, same state */

/* As a reload does: the state stays, the limit changes. */
static void change_amount(struct subject *s, uint64_t amount)
{
    limit l = s->spec;

    l.amount = amount;
    if (l.queue)
        l.queue = amount - 1;
    s->spec = l;
    rn_limit_init(&s->limit, &l);
    free(s->scratch);
    s->scratch = zeroed(s->limit.words_full > s->words ? s->limit.words_full : s->words);
}

static void windows_keep_their_count_when_the_amount_changes(void **unused)
{
    static const limit limits[] = {
        {RATION_FIXED_WINDOW, .amount = 100, .period_ns = MINUTE},
        {RATION_FIXED_WINDOW, .amount = 100, .period_ns = SECOND / 10},
        {RATION_SLIDING_LOG, .amount = 100, .period_ns = MINUTE},
        {RATION_SLIDING_WINDOW, .amount = 100, .period_ns = MINUTE},
        {RATION_SLIDING_WINDOW, .amount = 100, .period_ns = MINUTE, .sub_windows = 60},
    };

    (void)unused;
    for (size_t i = 0; i < sizeof(limits) / sizeof(*limits); i++) {
        struct subject s = subject_new(&limits[i]);

        assert_true(take(&s, BASE, 60).allowed);
        change_amount(&s, 50000);
        assert_int_equal(peek(&s, BASE, 0).remaining, 50000 - 60);
        assert_true(take(&s, BASE, 50000 - 60).allowed);
        assert_false(take(&s, BASE, 1).allowed);
        change_amount(&s, 10);
        assert_int_equal(peek(&s, BASE, 0).remaining, 0);
        assert_false(take(&s, BASE, 1).allowed);
        assert_true(peek(&s, BASE + 2 * MINUTE, 10).allowed);
        subject_free(&s);
    }
}

static void buckets_keep_their_spent_share_when_the_amount_changes(void **unused)
{
    static const limit limits[] = {
        {RATION_TOKEN_BUCKET, .amount = 100, .period_ns = MINUTE},
        {RATION_LEAKY_BUCKET, .amount = 100, .period_ns = MINUTE, .queue = 99},
    };

    (void)unused;
    for (size_t i = 0; i < 2; i++) {
        struct subject s = subject_new(&limits[i]);

        assert_true(take(&s, BASE, 60).allowed);
        change_amount(&s, 200);
        assert_int_equal(peek(&s, BASE, 0).remaining, 80);
        change_amount(&s, 100);
        assert_int_equal(peek(&s, BASE, 0).remaining, 40);
        subject_free(&s);
    }
}

static void growing_from_word_to_block_keeps_what_is_spent(void **unused)
{
    static const struct {
        limit small, large;
    } pairs[] = {
        {{RATION_FIXED_WINDOW, .amount = 100, .period_ns = MINUTE},
         {RATION_FIXED_WINDOW, .amount = 1 << 21, .period_ns = MINUTE}},
        {{RATION_TOKEN_BUCKET, .amount = 100, .period_ns = SECOND},
         {RATION_TOKEN_BUCKET, .amount = 300000000, .period_ns = SECOND}},
    };

    (void)unused;
    for (size_t i = 0; i < 2; i++) {
        struct subject s = subject_new(&pairs[i].small), l = subject_new(&pairs[i].large);
        uint64_t left = i == 0 ? (1 << 21) - 25 : 225000000;

        assert_true(rn_form_is_word(s.limit.form) && !rn_form_is_word(l.limit.form));
        assert_true(s.limit.shape == l.limit.shape);
        take(&s, BASE, 25);
        assert_true(rn_limit_convert(&l.limit, s.limit.form, s.state[0], l.state));
        assert_int_equal(peek(&l, BASE, 0).remaining, left);
        assert_true(rn_limit_idle_at(l.limit.form, l.state[0]) >=
                    rn_limit_idle_at(s.limit.form, s.state[0]));
        subject_free(&s);
        subject_free(&l);
    }
}

static void unlimited_admits_everything(void **unused)
{
    struct subject s = subject_new(&(limit){.algorithm = RATION_UNLIMITED});

    (void)unused;
    assert_true(take(&s, BASE, UINT64_MAX).allowed);
    assert_true(take(&s, BASE, UINT64_MAX).allowed);
    subject_free(&s);
}

static void an_amount_of_0_refuses_all(void **unused)
{
    (void)unused;
    for (const struct rn_algorithm *a = rn_algorithms; a->name; a++) {
        if (a->algorithm == RATION_UNLIMITED)
            continue;
        struct subject s = subject_new(&(limit){a->algorithm, .amount = 0, .period_ns = MINUTE});

        assert_false(take(&s, BASE, 1).allowed);
        assert_int_equal(take(&s, BASE, 1).retry_after_ns, RN_NEVER);
        assert_true(take(&s, BASE, 0).allowed);
        subject_free(&s);
    }
}

static void the_oldest_charge_of_a_log_has_its_age(void **unused)
{
    struct subject s = subject_new(&(limit){RATION_SLIDING_LOG, .amount = 9, .period_ns = MINUTE});

    (void)unused;
    assert_int_equal(subject_do(&s, RN_OLDEST, BASE, 0).oldest_ns, RN_NEVER);
    take(&s, BASE, 1);
    take(&s, BASE + 20 * SECOND, 1);
    assert_int_equal(subject_do(&s, RN_OLDEST, BASE + 50 * SECOND, 0).oldest_ns, 50 * SECOND);
    assert_in_range(subject_do(&s, RN_OLDEST, BASE + 70 * SECOND, 0).oldest_ns,
                    50 * SECOND - MINUTE / 65500 - 1, 50 * SECOND);
    assert_int_equal(subject_do(&s, RN_OLDEST, BASE + 81 * SECOND, 0).oldest_ns, RN_NEVER);
    subject_free(&s);
}

/* ---- hostile states */

static uint64_t hostile_word(int64_t now)
{
    switch (random_below(6)) {
    case 0:
        return random_next();
    case 1:
        return random_scale(0, UINT64_MAX);
    case 2:
        return (uint64_t)(now + (int64_t)random_scale(0, DAY));
    case 3:
        return random_below(100);
    case 4:
        return UINT64_MAX - random_below(3);
    default:
        return (uint64_t)INT64_MAX + random_below(3) - 1;
    }
}

static void no_content_of_a_state_does_harm(void **unused)
{
    static const enum rn_op ops[] = {RN_PEEK,  RN_OLDEST,    RN_TAKE,   RN_DRAIN, RN_FORCE,
                                     RN_DEBIT, RN_GIVE_BACK, RN_CREDIT, RN_RENEW, RN_RELEASE};

    (void)unused;
    random_init();
    for (uint64_t i = 0; i < HOSTILE_CASES * soak_factor(); i++) {
        limit l = {RATION_CONCURRENCY, .amount = random_below(40)};
        if (l.amount != 0 && random_below(2))
            l.adaptive_min = (uint16_t)(1 + random_below(l.amount));
        if (random_below(7))
            l = random_limit(random_algorithm());
        struct subject s = subject_new(&l);
        int64_t now = random_below(9) ? BASE : (int64_t)random_below((uint64_t)DAY);

        if (random_below(2) && s.limit.words_full > s.words)
            subject_grow(&s);
        for (uint32_t w = 0; w < s.words; w++)
            s.state[w] = hostile_word(now);
        for (int step = 0; step < 4; step++) {
            struct rn_ask ask = {.op = ops[random_below(sizeof ops / sizeof *ops)],
                                 .now_ns = now,
                                 .cost = random_cost(s.limit.cap),
                                 .id = 1 + random_below(100),
                                 .lease_ns = (int64_t)random_scale(1, RATION_LEASE_MAX_NS),
                                 .at_ns = now - (int64_t)random_below((uint64_t)DAY),
                                 .mark = (int64_t)hostile_word(now)};
            struct rn_answer answer;
            enum rn_outcome outcome = subject_ask(&s, &ask, &answer);

            if ((outcome != RN_KEEP && outcome != RN_WRITE) || answer.remaining > s.limit.cap ||
                answer.retry_after_ns < 0 || answer.delay_ns < 0 || answer.reset_after_ns < 0)
                fail_msg("RATION_SEED=%" PRIu64 " case %" PRIu64 " step %d: form %d op %d answers "
                         "retry %" PRId64 " delay %" PRId64 " reset %" PRId64 " remaining %" PRIu64,
                         random_seed, i, step, (int)s.limit.form, (int)ask.op,
                         answer.retry_after_ns, answer.delay_ns, answer.reset_after_ns,
                         answer.remaining);
            rn_limit_idle_at(s.limit.form, s.state[0]);
            now += (int64_t)random_scale(0, (uint64_t)DAY);
        }
        subject_free(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_limits_have_no_fault),
        cmocka_unit_test(faulty_limits_are_told_what_is_wrong),
        cmocka_unit_test(random_specs_are_refused_or_work),
        cmocka_unit_test(limits_that_differ_in_amount_share_a_shape),
        cmocka_unit_test(limits_that_differ_in_kind_or_window_share_none),
        cmocka_unit_test(windows_keep_their_count_when_the_amount_changes),
        cmocka_unit_test(buckets_keep_their_spent_share_when_the_amount_changes),
        cmocka_unit_test(growing_from_word_to_block_keeps_what_is_spent),
        cmocka_unit_test(unlimited_admits_everything),
        cmocka_unit_test(an_amount_of_0_refuses_all),
        cmocka_unit_test(the_oldest_charge_of_a_log_has_its_age),
        cmocka_unit_test(no_content_of_a_state_does_harm),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
