/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Factors that change while threads and processes decide. At one instant no client gets more than
 * the largest factor admits.
 */
#include "factor_fixture.h"

#include <pthread.h>
#include <sys/wait.h>

#define WORKERS 4
#define ROUNDS 150
#define ATTEMPTS 60

static const char *const each[] = {
    "limits: [{name: a, key: user, limit: 100 per hour}]",
    "limits: [{name: a, key: user, limit: 100 per hour, algorithm: fixed-window}]",
    "limits: [{name: a, key: user, limit: 100 per hour, algorithm: sliding-window}]",
    "limits: [{name: a, key: user, limit: 100 per hour, algorithm: sliding-log}]",
};

struct worker {
    struct ration *r;
    unsigned round;
    uint64_t admitted;
};

/* Some of what was admitted is given back, at its price. */
static uint64_t decide_some(struct ration *r, unsigned round)
{
    uint64_t units = 0;
    char words[32];

    snprintf(words, sizeof words, "user=u%u", round);
    for (unsigned i = 0; i < ATTEMPTS; i++) {
        struct ration_outcome out = decide_cost(r, words, 1 + i % 3, T0);

        if (!out.decision.allowed)
            continue;
        if (i % 7 == 0)
            assert_int_equal(ration_outcome_give_back(r, &out, T0), 0);
        else
            units += 1 + i % 3;
    }
    return units;
}

static void *work(void *arg)
{
    struct worker *w = arg;

    w->admitted = decide_some(w->r, w->round);
    return NULL;
}

static void *flap(void *arg)
{
    struct worker *w = arg;

    for (unsigned i = 0; i < 200; i++)
        set_factor(w->r, "a", i % 2 ? 50 : 80);
    return NULL;
}

static void threads_admit_no_more_than_the_largest_factor(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(each); i++) {
        struct ration *r = open_factor_rules(each[i]);

        set_factor(r, "a", 80);
        for (unsigned round = 0; round < ROUNDS; round++) {
            pthread_t threads[WORKERS + 1];
            struct worker workers[WORKERS + 1];
            uint64_t sum = 0;

            for (unsigned k = 0; k <= WORKERS; k++) {
                workers[k] = (struct worker){.r = r, .round = round};
                assert_int_equal(
                    pthread_create(&threads[k], NULL, k < WORKERS ? work : flap, &workers[k]), 0);
            }
            for (unsigned k = 0; k <= WORKERS; k++) {
                pthread_join(threads[k], NULL);
                sum += workers[k].admitted;
            }
            assert_in_range(sum, 20, 80);
        }
        ration_close(r);
    }
}

/* The rules are opened once in each process, as by workers of nginx. */
static uint64_t decide_in_child(const char *path, const char *rules, unsigned child, int out)
{
    struct ration_options options = {.state_path = path, .memory_bytes = UINT64_C(2) << 20};
    struct ration *r = NULL;
    uint64_t sum = 0;

    assert_int_equal(ration_open(&options, &r, NULL), 0);
    factor_rules(r, rules, T0);
    for (unsigned i = 0; i < 40; i++) {
        set_factor(r, "a", (i + child) % 2 ? 30 : 80);
        sum += decide_some(r, 0);
    }
    ration_close(r);
    return write(out, &sum, sizeof sum) == sizeof sum ? sum : 0;
}

static void processes_admit_no_more_than_the_largest_factor(void **state)
{
    char path[] = "/tmp/ration-test-XXXXXX";
    int fd = mkstemp(path), pipes[2];

    (void)state;
    close(fd);
    for (size_t i = 0; i < COUNT(each); i++) {
        uint64_t sum = 0, part;

        unlink(path);
        assert_int_equal(pipe(pipes), 0);
        for (unsigned child = 0; child < WORKERS; child++)
            if (fork() == 0) {
                decide_in_child(path, each[i], child, pipes[1]);
                _exit(0);
            }
        for (unsigned child = 0; child < WORKERS; child++) {
            assert_int_equal(read(pipes[0], &part, sizeof part), sizeof part);
            sum += part;
        }
        for (unsigned child = 0; child < WORKERS; child++)
            wait(NULL);
        close(pipes[0]);
        close(pipes[1]);
        assert_in_range(sum, 20, 80);
    }
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(threads_admit_no_more_than_the_largest_factor),
        cmocka_unit_test(processes_admit_no_more_than_the_largest_factor),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
