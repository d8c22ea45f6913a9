/* SPDX-License-Identifier: Apache-2.0 */
/* Many threads at once: never more than the limit, and never a stray charge. */
#include "fixture.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#define THREADS 8
#define ROUNDS 4000
#define KEYS 1000

struct crew {
    struct ration *r;
    pthread_barrier_t start;
    atomic_ulong admitted[KEYS], pairs, released, settled;
};

struct worker {
    struct crew *crew;
    unsigned number;
};

static void run_crew(struct crew *crew, void *(*work)(void *))
{
    pthread_t threads[THREADS];
    struct worker workers[THREADS];

    pthread_barrier_init(&crew->start, NULL, THREADS);
    for (unsigned i = 0; i < THREADS; i++) {
        workers[i] = (struct worker){crew, i};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&crew->start);
}

/* The same moment for all: what is admitted is the capacity, to the unit. */
static void *hammer_one_key(void *arg)
{
    struct worker *w = arg;

    pthread_barrier_wait(&w->crew->start);
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct ration_charge c = charge(0, "one", 1 + i % 3);

        if (ration_take(w->crew->r, &c, T0) == 0 && c.verdict.allowed)
            atomic_fetch_add(&w->crew->admitted[0], c.cost);
    }
    return NULL;
}

static void one_key_admits_its_limit_exactly(void **state)
{
    const struct ration_named kinds[] = {
        named("v", "5000 per hour"),
        with(named("v", "5000 per hour"), RATION_FIXED_WINDOW),
        with(named("v", "5000 per hour"), RATION_SLIDING_WINDOW),
        with(named("v", "5000 per hour"), RATION_SLIDING_LOG),
    };

    (void)state;
    for (size_t i = 0; i < COUNT(kinds); i++) {
        struct crew crew = {.r = open_limits(&kinds[i], 1)};
        struct ration_totals t;

        run_crew(&crew, hammer_one_key);
        assert_int_equal(crew.admitted[0], 5000);
        assert_int_equal(left(crew.r, 0, "one", T0), 0);
        ration_totals(crew.r, &t);
        assert_int_equal(t.allowed + t.refused, THREADS * ROUNDS);
        ration_close(crew.r);
    }
}

/* Variants in turns, of which the second guards the first, on one key after the
 * other. */
static void *hammer_variants(void *arg)
{
    struct worker *w = arg;

    pthread_barrier_wait(&w->crew->start);
    for (unsigned i = 0; i < KEYS; i++) {
        char name[8];

        snprintf(name, sizeof name, "%u", i);
        for (unsigned round = 0; round < 8; round++) {
            struct ration_charge c = charge((w->number + round) % 2, name, 1 + round % 3);

            if (ration_take(w->crew->r, &c, T0 + MINUTE) == 0 && c.verdict.allowed)
                atomic_fetch_add(&w->crew->admitted[i], c.cost);
        }
    }
    return NULL;
}

/* The clients have left 20 units of the larger; the window of the smaller is new. */
static void a_guard_is_not_exceeded_by_races(void **state)
{
    const struct ration_named larger[] = {
        named("v", "3100 per hour burst 5000"),
        with(named("v", "5000 per hour"), RATION_FIXED_WINDOW),
        with(named("v", "5000 per hour"), RATION_SLIDING_WINDOW),
        with(named("v", "5000 per hour"), RATION_SLIDING_LOG),
    };

    (void)state;
    for (size_t i = 0; i < COUNT(larger); i++) {
        const struct ration_named pair[] = {with(named("v", "50 per minute"), RATION_FIXED_WINDOW),
                                            larger[i]};
        struct ration_options options = {
            .memory_bytes = UINT64_C(64) << 20, .limits = pair, .limit_count = 2};
        struct crew crew = {0};

        assert_int_equal(ration_open(&options, &crew.r, NULL), 0);
        for (unsigned k = 0; k < KEYS; k++) {
            char name[8];

            snprintf(name, sizeof name, "%u", k);
            assert_true(take(crew.r, 1, name, 4980, T0 + MINUTE - SECOND));
        }
        run_crew(&crew, hammer_variants);
        for (unsigned k = 0; k < KEYS; k++)
            assert_in_range(crew.admitted[k], 18, 20);
        ration_close(crew.r);
    }
}

static void *hammer_many_keys(void *arg)
{
    struct worker *w = arg;
    char names[20][8];
    struct ration_charge c[20];

    pthread_barrier_wait(&w->crew->start);
    for (unsigned round = 0; round < ROUNDS / 8; round++) {
        for (unsigned i = 0; i < 20; i++) {
            snprintf(names[i], sizeof names[i], "%u", (round * 20 + i) % KEYS);
            c[i] = charge(0, names[i], 1);
        }
        ration_take_batch(w->crew->r, c, 20, T0);
        for (unsigned i = 0; i < 20; i++)
            if (c[i].error == 0 && c[i].verdict.allowed)
                atomic_fetch_add(&w->crew->admitted[(round * 20 + i) % KEYS], 1);
    }
    return NULL;
}

static void fresh_keys_in_batches_admit_their_limits_exactly(void **state)
{
    const struct ration_named limit = named("v", "7 per hour");
    struct crew crew = {.r = open_limits(&limit, 1)};

    (void)state;
    run_crew(&crew, hammer_many_keys);
    for (unsigned i = 0; i < KEYS; i++)
        assert_int_equal(crew.admitted[i], 7);
    ration_close(crew.r);
}

/* Two limits that run out together, taken in either order, so that threads
 * overtake each other and have to undo. */
static void *hammer_pairs(void *arg)
{
    struct worker *w = arg;
    uint32_t first = w->number % 2;

    pthread_barrier_wait(&w->crew->start);
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct ration_charge c[] = {charge(first, "key", 1), charge(1 - first, "key", 1)};
        struct ration_decision d;

        if (ration_check(w->crew->r, c, 2, T0, &d) == 0 && d.allowed)
            atomic_fetch_add(&w->crew->pairs, 1);
    }
    return NULL;
}

static void pairs_are_charged_together_or_not_at_all(void **state)
{
    const struct ration_named limits[] = {
        named("bucket", "1000 per hour"),
        with(named("window", "1000 per hour"), RATION_FIXED_WINDOW),
    };

    (void)state;
    for (int round = 0; round < 5; round++) {
        struct crew crew = {.r = open_limits(limits, 2)};

        run_crew(&crew, hammer_pairs);
        assert_true(crew.pairs <= 1000 && crew.pairs > 900);
        assert_int_equal(left(crew.r, 0, "key", T0), 1000 - crew.pairs);
        assert_int_equal(left(crew.r, 1, "key", T0), 1000 - crew.pairs);
        ration_close(crew.r);
    }
}

/* Takers and givers: the sum of what was kept is what is spent. */
static void *take_and_give_back(void *arg)
{
    struct worker *w = arg;

    pthread_barrier_wait(&w->crew->start);
    for (unsigned i = 0; i < ROUNDS; i++) {
        struct ration_charge c = charge(0, "one", 1);

        if (ration_take(w->crew->r, &c, T0) != 0 || !c.verdict.allowed)
            continue;
        if (i % 2)
            ration_give_back(w->crew->r, &c, T0);
        else
            atomic_fetch_add(&w->crew->admitted[0], 1);
    }
    return NULL;
}

static void what_is_given_back_is_free_again_and_no_more(void **state)
{
    const struct ration_named limit = named("v", "20000 per hour");
    struct crew crew = {.r = open_limits(&limit, 1)};

    (void)state;
    run_crew(&crew, take_and_give_back);
    assert_int_equal(crew.admitted[0], THREADS * ROUNDS / 2);
    assert_int_equal(left(crew.r, 0, "one", T0), 20000 - THREADS * ROUNDS / 2);
    ration_close(crew.r);
}

static void *hold_places(void *arg)
{
    struct worker *w = arg;

    pthread_barrier_wait(&w->crew->start);
    for (unsigned i = 0; i < ROUNDS / 4; i++) {
        struct ration_charge c = charge(0, "one", 1);
        uint64_t lease = 0;

        if (ration_acquire(w->crew->r, &c, 0, T0, &lease) != 0 || lease == 0)
            continue;
        unsigned long inside = atomic_fetch_add(&w->crew->admitted[0], 1);

        if (inside >= 3)
            atomic_fetch_add(&w->crew->pairs, 1);
        atomic_fetch_sub(&w->crew->admitted[0], 1);
        if (ration_release(w->crew->r, &c, lease, T0) == 0)
            atomic_fetch_add(&w->crew->released, 1);
    }
    return NULL;
}

static void never_more_are_inside_than_there_are_places(void **state)
{
    const struct ration_named limit = named("v", "3 concurrent");
    struct crew crew = {.r = open_limits(&limit, 1)};
    struct ration_totals t;

    (void)state;
    run_crew(&crew, hold_places);
    assert_int_equal(crew.pairs, 0);
    ration_totals(crew.r, &t);
    assert_int_equal(crew.released, t.allowed);
    assert_int_equal(left(crew.r, 0, "one", T0), 3);
    ration_close(crew.r);
}

/* All try to settle one reservation after the other. */
#define HOLDS 200
static struct ration_charge held[HOLDS];
static uint64_t holds[HOLDS];

static void *settle_all(void *arg)
{
    struct worker *w = arg;

    pthread_barrier_wait(&w->crew->start);
    for (unsigned i = 0; i < HOLDS; i++) {
        struct ration_charge copy = held[i];
        int code = ration_refund(w->crew->r, holds[i], &copy, 1, T0);

        if (code == 0)
            atomic_fetch_add(&w->crew->settled, 1);
    }
    return NULL;
}

static void a_reservation_is_settled_by_one_thread(void **state)
{
    const struct ration_named limit = named("v", "1000 per hour");
    struct crew crew = {.r = open_limits(&limit, 1)};

    (void)state;
    for (unsigned i = 0; i < HOLDS; i++) {
        struct ration_decision d;

        held[i] = charge(0, "one", 2);
        assert_int_equal(ration_reserve(crew.r, &held[i], 1, MINUTE, T0, &holds[i], &d), 0);
    }
    assert_true(take(crew.r, 0, "one", 500, T0));
    run_crew(&crew, settle_all);
    assert_int_equal(crew.settled, HOLDS);
    assert_int_equal(left(crew.r, 0, "one", T0), 500);
    ration_close(crew.r);
}

/* Reading what others write. */
static void *decide_and_read(void *arg)
{
    struct worker *w = arg;
    struct ration_totals t;
    struct ration_top top[4];
    struct ration_memory m;

    pthread_barrier_wait(&w->crew->start);
    for (unsigned i = 0; i < ROUNDS / 4; i++) {
        struct ration_charge c = charge(i % 2, "one", 1);

        ration_take(w->crew->r, &c, T0 + i);
        if (w->number == 0) {
            ration_totals(w->crew->r, &t);
            ration_top(w->crew->r, top, 4);
        }
        if (w->number == 0 && i % 500 == 0)
            ration_memory(w->crew->r, T0, &m);
    }
    return NULL;
}

static void statistics_may_be_read_meanwhile(void **state)
{
    const struct ration_named limits[] = {named("tier", "10 per hour"),
                                          named("tier", "9 per minute")};
    struct crew crew = {.r = open_limits(limits, 2)};
    struct ration_totals t;

    (void)state;
    run_crew(&crew, decide_and_read);
    ration_totals(crew.r, &t);
    assert_int_equal(t.allowed + t.refused, THREADS * (ROUNDS / 4));
    ration_close(crew.r);
}

/* More threads than there are stripes: some share one. */
#define CROWD 80

static void *decide_a_little(void *arg)
{
    struct crew *crew = arg;

    for (unsigned i = 0; i < 100; i++) {
        struct ration_charge c = charge(0, "one", 1);

        ration_take(crew->r, &c, T0);
    }
    pthread_barrier_wait(&crew->start); /* no thread leaves its stripe to another */
    return NULL;
}

static void a_crowd_of_threads_is_counted_to_the_last(void **state)
{
    const struct ration_named limit = named("v", "5000 per hour");
    struct crew crew = {.r = open_limits(&limit, 1)};
    pthread_t threads[CROWD];
    struct ration_totals t;

    (void)state;
    pthread_barrier_init(&crew.start, NULL, CROWD);
    for (unsigned i = 0; i < CROWD; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, decide_a_little, &crew), 0);
    for (unsigned i = 0; i < CROWD; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&crew.start);
    ration_totals(crew.r, &t);
    assert_int_equal(t.allowed, 5000);
    assert_int_equal(t.refused, CROWD * 100 - 5000);
    ration_close(crew.r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_key_admits_its_limit_exactly),
        cmocka_unit_test(a_guard_is_not_exceeded_by_races),
        cmocka_unit_test(fresh_keys_in_batches_admit_their_limits_exactly),
        cmocka_unit_test(pairs_are_charged_together_or_not_at_all),
        cmocka_unit_test(what_is_given_back_is_free_again_and_no_more),
        cmocka_unit_test(never_more_are_inside_than_there_are_places),
        cmocka_unit_test(a_reservation_is_settled_by_one_thread),
        cmocka_unit_test(statistics_may_be_read_meanwhile),
        cmocka_unit_test(a_crowd_of_threads_is_counted_to_the_last),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
