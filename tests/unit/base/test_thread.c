/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of threads: unique among the living, reused after the dead. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>

#include "base/thread.h"

#define CROWD (RN_THREADS + 8)

/* Threads that all ask before any of them ends. */
static pthread_barrier_t all_asked;
static unsigned answers[CROWD];

static void *ask_and_wait(void *arg)
{
    unsigned *answer = arg;

    *answer = rn_thread_index();
    pthread_barrier_wait(&all_asked);
    return NULL;
}

static void gather(unsigned count)
{
    pthread_t threads[CROWD];

    pthread_barrier_init(&all_asked, NULL, count);
    for (unsigned i = 0; i < count; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask_and_wait, &answers[i]), 0);
    for (unsigned i = 0; i < count; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&all_asked);
}

static void a_thread_keeps_its_number(void **state)
{
    unsigned first = rn_thread_index();

    (void)state;
    assert_true(first < RN_THREAD_SHARED);
    for (int i = 0; i < 100; i++)
        assert_int_equal(rn_thread_index(), first);
}

static void living_threads_differ(void **state)
{
    uint64_t seen = UINT64_C(1) << rn_thread_index();

    (void)state;
    gather(RN_THREADS - 2); /* with this one: as many as there are numbers of one's own */
    for (unsigned i = 0; i < RN_THREADS - 2; i++) {
        assert_true(answers[i] < RN_THREAD_SHARED);
        assert_int_equal(seen >> answers[i] & 1, 0);
        seen |= UINT64_C(1) << answers[i];
    }
}

static void threads_beyond_the_numbers_share_one(void **state)
{
    unsigned shared = 0;

    (void)state;
    rn_thread_index();
    gather(CROWD);
    for (unsigned i = 0; i < CROWD; i++)
        shared += answers[i] == RN_THREAD_SHARED;
    assert_int_equal(shared, CROWD - (RN_THREADS - 2));
}

static void numbers_come_back_when_threads_end(void **state)
{
    (void)state;
    for (int round = 0; round < 50; round++) {
        gather(4);
        for (unsigned i = 0; i < 4; i++)
            assert_true(answers[i] < 8);
    }
}

/* What a number indexes may be updated without atomics: the thread sanitizer
 * would object if the handing over from thread to thread had a gap. */
static unsigned long stripes[RN_THREADS];

static void *count_once(void *arg)
{
    unsigned number = rn_thread_index();

    (void)arg;
    if (number != RN_THREAD_SHARED)
        stripes[number]++;
    return NULL;
}

static void *spawn_many(void *arg)
{
    for (int i = 0; i < 200; i++) {
        pthread_t thread;
        if (pthread_create(&thread, NULL, count_once, NULL) == 0)
            pthread_join(thread, NULL);
    }
    return arg;
}

static void a_stripe_passes_cleanly_to_the_next_owner(void **state)
{
    pthread_t spawners[4];
    unsigned long sum = 0;

    (void)state;
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&spawners[i], NULL, spawn_many, NULL), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(spawners[i], NULL);
    for (int i = 0; i < RN_THREADS; i++)
        sum += stripes[i];
    assert_int_equal(sum, 4 * 200);
}

/* Destructors of a thread's keys may run in any order, so one that counts
 * something may ask after the number was freed. It must not get a new one. */
static pthread_key_t late_key;
static atomic_uint late_answer;

static void ask_late(void *value)
{
    static _Thread_local int rounds;

    if (rounds++ == 0)
        pthread_setspecific(late_key, value); /* once more, after the others */
    else
        atomic_store(&late_answer, rn_thread_index());
}

static void *ask_and_leave(void *arg)
{
    rn_thread_index();
    pthread_setspecific(late_key, &late_key);
    return arg;
}

static void a_number_freed_is_not_taken_again_by_the_same_thread(void **state)
{
    pthread_t thread;

    (void)state;
    assert_int_equal(pthread_key_create(&late_key, ask_late), 0);
    assert_int_equal(pthread_create(&thread, NULL, ask_and_leave, NULL), 0);
    pthread_join(thread, NULL);
    pthread_key_delete(late_key);
    assert_int_equal(atomic_load(&late_answer), RN_THREAD_SHARED);
}

int main(void)
{
    const struct CMUnitTest thread[] = {
        cmocka_unit_test(a_thread_keeps_its_number),
        cmocka_unit_test(living_threads_differ),
        cmocka_unit_test(threads_beyond_the_numbers_share_one),
        cmocka_unit_test(numbers_come_back_when_threads_end),
        cmocka_unit_test(a_stripe_passes_cleanly_to_the_next_owner),
        cmocka_unit_test(a_number_freed_is_not_taken_again_by_the_same_thread),
    };

    return cmocka_run_group_tests(thread, NULL, NULL);
}
