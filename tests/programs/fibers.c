/* SPDX-License-Identifier: Apache-2.0 */
/* Runs fibers on a thread, without a test framework: for C libraries that have none
 * (tests/musl.py). Exits with 0 if all of them did all their rounds. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/fiber.h"

#define FIBERS 16
#define ROUNDS 100

static void count_rounds(void *arg)
{
    for (unsigned i = 0; i < ROUNDS; i++) {
        ++*(unsigned *)arg;
        rn_fiber_wait();
    }
}

static void count_end(void *arg)
{
    *(unsigned *)arg += 1000;
}

static void *run_all(void *unused)
{
    struct rn_fiber *fibers[FIBERS];
    unsigned rounds[FIBERS] = {0};
    uintptr_t wrong = 0;

    (void)unused;
    for (unsigned i = 0; i < FIBERS; i++) {
        if (!(fibers[i] = rn_fiber_new(64 << 10)))
            exit(2);
        rn_fiber_run(fibers[i], count_rounds, count_end, &rounds[i]);
    }
    for (unsigned round = 0; round < ROUNDS; round++)
        for (unsigned i = 0; i < FIBERS; i++)
            rn_fiber_wake(fibers[i]);
    for (unsigned i = 0; i < FIBERS; i++) {
        wrong += rounds[i] != ROUNDS + 1000;
        rn_fiber_free(fibers[i]);
    }
    return (void *)wrong;
}

int main(void)
{
    pthread_t thread;
    void *wrong = NULL;

    if (pthread_create(&thread, NULL, run_all, NULL) != 0)
        return 2;
    pthread_join(thread, &wrong);
    return wrong != NULL;
}
