/* SPDX-License-Identifier: Apache-2.0 */
/* Least waits against core: random limits, states and lines, served as early as the limit lets them
 * be. Nobody goes before the estimate. */
#include "fixture.h"

#include "core/scale.h"
#include "limiter/line/estimate.h"
#include "model/random.h"

#define LINE 12
#define WORDS 600
#define ROUNDS 6000

/* Of each algorithm and form. */
static const char *const limits[] = {
    "10 per minute",
    "3 per second burst 20",
    "7 per 60s burst 3",
    "700000 per second burst 9",
    "100 per minute in steps of 6s",
    "30 per minute in steps of 20s burst 25",
    "10 per second queue 5",
    "20 concurrent",
};
static const enum ration_algorithm others[] = {RATION_FIXED_WINDOW, RATION_SLIDING_LOG,
                                               RATION_SLIDING_WINDOW};

static struct rn_limit limit;
static uint64_t state[WORDS];
static int64_t now_ns;
static struct rn_answer answer;

static bool take_now(uint64_t cost)
{
    struct rn_ask ask = {.op = RN_TAKE,
                         .now_ns = now_ns,
                         .cost = cost,
                         .id = random_next() | 1,
                         .lease_ns = (int64_t)(1 + random_below(5)) * SECOND};

    rn_limit_apply(&limit, state, limit.words_full ? limit.words_full : 1, &ask, &answer);
    return answer.allowed;
}

static void choose_limit(void)
{
    unsigned which = (unsigned)random_below(COUNT(limits) + 6);
    struct ration_named n = named("a", which < COUNT(limits) ? limits[which] : "10 per 20s");

    if (which >= COUNT(limits)) {
        n.limit.algorithm = others[which % COUNT(others)];
        n.limit.amount = 1 + random_below(30);
        n.limit.period_ns = (int64_t)random_scale(1000, 100 * SECOND);
        n.limit.period_ns += (int64_t)n.limit.amount;
        n.limit.from_first = n.limit.algorithm == RATION_FIXED_WINDOW && random_below(3) == 0;
        n.limit.sub_windows = n.limit.algorithm == RATION_SLIDING_WINDOW && random_below(2)
                                  ? 2 + (uint32_t)random_below(9)
                                  : 0;
    }
    assert_null(rn_limit_fault(&n.limit));
    rn_limit_init(&limit, &n.limit);
    if (random_below(3) == 0 && limit.form != RN_FORM_ADAPTIVE) { /* at a factor */
        uint16_t percents[] = {10, 30, 50, 90, 100};
        struct rn_limit written = limit;
        struct rn_scale scale;

        rn_scale_init(&scale, &written, percents, COUNT(percents));
        rn_scale_step(&scale, percents[random_below(COUNT(percents))], &limit);
    }
    assert_true(limit.words_full <= WORDS);
}

static struct ration_verdict verdict_of(void)
{
    return (struct ration_verdict){.remaining = answer.remaining,
                                   .retry_after_ns = answer.retry_after_ns,
                                   .reset_after_ns = answer.reset_after_ns};
}

static void keep_bounds(int64_t *bounds, const uint64_t *costs, unsigned from,
                        const struct rn_estimate *estimate)
{
    uint64_t units = 0;

    for (unsigned i = from; i < LINE; i++) {
        units += costs[i];
        int64_t at = rn_estimate_at(estimate, units);

        bounds[i] = at > bounds[i] ? at : bounds[i];
    }
}

/* Charges the units of a line in order, each as soon as the limit lets it, and now and then a
 * little later. */
static void serve(const uint64_t *costs)
{
    int64_t bounds[LINE];
    struct ration_verdict verdict;
    struct rn_estimate estimate;

    for (unsigned i = 0; i < LINE; i++)
        bounds[i] = INT64_MIN;
    for (unsigned i = 0; i < LINE; i++) {
        bool late = false;

        while (!take_now(costs[i])) {
            verdict = verdict_of();
            estimate = rn_estimate_refused(&limit, &verdict, 0, costs[i], now_ns);
            keep_bounds(bounds, costs, i, &estimate);
            assert_true(answer.retry_after_ns > 0 && answer.retry_after_ns < RATION_NEVER);
            late = random_below(8) == 0;
            now_ns += answer.retry_after_ns +
                      (late ? (int64_t)random_below((uint64_t)limit.period_ns + 1) : 0);
        }
        if (now_ns < bounds[i])
            fail_msg("form %d, seed %" PRIu64 ": %" PRId64 " ns before the least wait", limit.form,
                     random_seed, bounds[i] - now_ns);
        verdict = verdict_of();
        estimate = rn_estimate_admitted(&limit, &verdict, now_ns);
        keep_bounds(bounds, costs, i + 1, &estimate);
    }
}

static void nobody_goes_before_the_least_wait(void **unused)
{
    uint64_t costs[LINE];

    (void)unused;
    random_init();
    for (uint64_t round = 0; round < ROUNDS * soak_factor(); round++) {
        choose_limit();
        memset(state, 0, sizeof state);
        now_ns = T0 + (int64_t)random_below(1000 * SECOND);
        for (unsigned i = 0; i < 30; i++) { /* what others have charged before */
            take_now(1 + random_below(limit.cap));
            now_ns += (int64_t)random_scale(0, (uint64_t)(2 * SECOND));
        }
        for (unsigned i = 0; i < LINE; i++)
            costs[i] = rn_form_is_places(limit.form) ? 1 : 1 + random_below(limit.cap);
        serve(costs);
    }
}

/* When the next goes after an admission is known, so that it needs no second look. */
static void the_next_opening_is_exact_for_buckets_and_windows(void **unused)
{
    static const struct {
        const char *text;
        enum ration_algorithm algorithm;
    } exact[] = {{"10 per minute", RATION_TOKEN_BUCKET},
                 {"10 per second queue 5", RATION_LEAKY_BUCKET},
                 {"100 per minute in steps of 6s", RATION_TOKEN_BUCKET},
                 {"10 per minute", RATION_FIXED_WINDOW}};

    (void)unused;
    for (size_t i = 0; i < COUNT(exact); i++) {
        struct ration_named n = named("a", exact[i].text);

        n.limit.algorithm = exact[i].algorithm;
        rn_limit_init(&limit, &n.limit);
        memset(state, 0, sizeof state);
        now_ns = T0 + 123456789;
        for (unsigned j = 0; j < 100; j++) {
            uint64_t cost = 1 + j % 4;
            struct ration_verdict verdict;

            if (!take_now(j % 3 + 1))
                now_ns += answer.retry_after_ns;
            else
                continue;
            assert_true(take_now(j % 3 + 1));
            verdict = verdict_of();
            struct rn_estimate estimate = rn_estimate_admitted(&limit, &verdict, now_ns);
            int64_t at = rn_estimate_at(&estimate, cost);

            if (at <= now_ns) {
                assert_true(take_now(cost));
                continue;
            }
            assert_false(take_now(cost));
            assert_int_equal(now_ns + answer.retry_after_ns, at);
        }
    }
}

static void places_are_freed_at_any_time(void **unused)
{
    struct ration_named n = named("a", "2 concurrent");
    struct ration_verdict verdict = {.retry_after_ns = SECOND};
    struct rn_estimate estimate;

    (void)unused;
    rn_limit_init(&limit, &n.limit);
    estimate = rn_estimate_refused(&limit, &verdict, 0, 1, T0);
    assert_true(rn_estimate_at(&estimate, 1000) < T0);
}

/* The shortest month: no window of a calendar ends sooner than half of the longest. */
static void windows_of_a_calendar_are_no_shorter_than_the_estimate(void **unused)
{
    static const int64_t ends[] = {0, 31 * 86400 * SECOND, 59 * 86400 * SECOND,
                                   90 * 86400 * SECOND};
    static const struct rn_calendar calendar = {ends, COUNT(ends)};
    struct ration_named n = named("a", "10 per calendar month");
    uint64_t costs[LINE];

    (void)unused;
    n.limit.algorithm = RATION_FIXED_WINDOW;
    rn_limit_init(&limit, &n.limit);
    rn_limit_set_calendar(&limit, &calendar);
    memset(state, 0, sizeof state);
    now_ns = 86400 * SECOND;
    for (unsigned i = 0; i < LINE; i++)
        costs[i] = i < 3 ? 5 : 3;
    serve(costs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_goes_before_the_least_wait),
        cmocka_unit_test(the_next_opening_is_exact_for_buckets_and_windows),
        cmocka_unit_test(places_are_freed_at_any_time),
        cmocka_unit_test(windows_of_a_calendar_are_no_shorter_than_the_estimate),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
