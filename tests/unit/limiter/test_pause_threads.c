/* SPDX-License-Identifier: Apache-2.0 */
/* Pauses that processes set at the same time: none is lost, and decisions go on meanwhile. */
#include "fixture.h"

#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include <ration/pause.h>

#define ROUNDS 2000
#define THREADS 3

static struct ration *users[THREADS]; /* of one state file: as processes are */
static pthread_barrier_t barrier;
static unsigned lost[THREADS];

static struct ration_pause_of key_of(unsigned number, char text[24])
{
    int len = snprintf(text, 24, "key %u", number);

    return (struct ration_pause_of){.key = text, .key_len = (size_t)len};
}

static int64_t rest_of(struct ration *r, unsigned number, int64_t now_ns)
{
    char text[24];
    struct ration_pause_of of = key_of(number, text);
    int64_t rest_ns = -1;

    return ration_pause_rest(r, &of, now_ns, &rest_ns) == 0 ? rest_ns : -1;
}

/* In each round all pauses of the one before have ended, so that each user may clear the filter. */
static void *pause_in_rounds(void *arg)
{
    unsigned self = (unsigned)((struct ration **)arg - users);
    char text[24];

    for (unsigned i = 0; i < ROUNDS; i++) {
        int64_t now_ns = T0 + (int64_t)i * MINUTE;
        struct ration_pause_of of = key_of(i * THREADS + self, text);

        pthread_barrier_wait(&barrier);
        lost[self] += ration_pause(users[self], &of, 10 * SECOND, now_ns, NULL) != 0;
        pthread_barrier_wait(&barrier);
        for (unsigned k = 0; k < THREADS; k++)
            lost[self] += rest_of(users[self], i * THREADS + k, now_ns + SECOND) != 9 * SECOND;
        pthread_barrier_wait(&barrier);
        if (self == 0)
            lost[self] += ration_pause_lift(users[0], &of, now_ns, NULL) != 0;
        pthread_barrier_wait(&barrier);
        lost[self] += rest_of(users[self], i * THREADS, now_ns + SECOND) != 0;
    }
    return NULL;
}

static void no_pause_is_lost_when_several_processes_set_them(void **state)
{
    char path[64];
    pthread_t threads[THREADS];

    (void)state;
    snprintf(path, sizeof path, "/tmp/ration-pause-threads-%ld", (long)getpid());
    unlink(path);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(ration_open(&(struct ration_options){.state_path = path,
                                                              .memory_bytes = UINT64_C(4) << 20},
                                     &users[i], NULL),
                         0);
    assert_int_equal(pthread_barrier_init(&barrier, NULL, THREADS), 0);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, pause_in_rounds, &users[i]), 0);
    for (unsigned i = 0; i < THREADS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (unsigned i = 0; i < THREADS; i++) {
        assert_int_equal(lost[i], 0);
        ration_close(users[i]);
    }
    pthread_barrier_destroy(&barrier);
    unlink(path);
}

static uint64_t admitted; /* although it was paused */
static bool ended;

static void *ask(void *arg)
{
    struct ration *r = arg;

    while (!__atomic_load_n(&ended, __ATOMIC_ACQUIRE)) {
        struct ration_charge c = charge(0, "k", 1);

        if (ration_take(r, &c, T0) != 0 || c.verdict.allowed || !c.paused)
            __atomic_fetch_add(&admitted, 1, __ATOMIC_RELAXED);
    }
    return NULL;
}

static void a_pause_that_is_prolonged_never_ends_meanwhile(void **state)
{
    struct ration_named limits[] = {named("a", "1000000 per second")};
    struct ration *r = open_limits(limits, 1);
    struct ration_pause_of of = {.key = "k", .key_len = 1, .limit_given = true};
    pthread_t threads[2];

    (void)state;
    assert_int_equal(ration_pause(r, &of, SECOND, T0, NULL), 0);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask, r), 0);
    for (int64_t i = 1; i <= 20000; i++)
        assert_int_equal(ration_pause(r, &of, SECOND + i, T0, NULL), 0);
    __atomic_store_n(&ended, true, __ATOMIC_RELEASE);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(admitted, 0);
    ration_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_pause_is_lost_when_several_processes_set_them),
        cmocka_unit_test(a_pause_that_is_prolonged_never_ends_meanwhile),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
