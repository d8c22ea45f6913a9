/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs, and the queues of charges that wait for a renewal. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "redis/leased/waiting.h"

static size_t ended;
static struct rn_backend_jobs jobs;

static void on_done(void *arg, struct rn_charge *batch, size_t n)
{
    (void)batch;
    assert_int_equal(n, *(size_t *)arg);
    ended++;
}

static struct rn_waiting *new_waiting(void)
{
    struct rn_waiting *waiting = calloc(1, sizeof *waiting);

    assert_non_null(waiting);
    jobs = (struct rn_backend_jobs){0};
    rn_backend_init_jobs(&jobs, NULL);
    ended = 0;
    return waiting;
}

static void a_job_ends_with_the_last_of_its_charges(void **state)
{
    struct rn_waiting *waiting = new_waiting();
    struct rn_charge batch[3] = {{.ask.cost = 1}, {.ask.cost = 2}, {.ask.cost = 4}};
    struct rn_waiting_queue a = {0}, b = {0};
    size_t n = 3;
    struct rn_backend_job *job = rn_backend_begin_job(&jobs, batch, n, on_done, &n, INT64_MAX);

    (void)state;
    assert_true(rn_waiting_add(waiting, job, &batch[0], &a, 50));
    assert_true(rn_waiting_add(waiting, job, &batch[1], &b, 40));
    assert_true(rn_waiting_add(waiting, job, &batch[2], &a, 60));
    assert_int_equal(a.units, 5);
    assert_ptr_equal(rn_waiting_next(waiting)->charge, &batch[1]);
    rn_backend_answered(rn_waiting_end(waiting, a.first), 1);
    assert_ptr_equal(a.first->charge, &batch[2]);
    rn_backend_answered(rn_waiting_end(waiting, b.first), 1);
    assert_int_equal(ended, 0);
    rn_backend_answered(rn_waiting_end(waiting, rn_waiting_next(waiting)), 1);
    assert_int_equal(ended, 1);
    assert_null(rn_waiting_next(waiting));
    assert_null(a.first);
    assert_int_equal(a.units + b.units, 0);
    free(waiting);
}

/* From the front, the middle and the end, and again behind those that are left. */
static void a_waiter_that_leaves_does_not_change_the_order(void **state)
{
    static const size_t leavers[] = {0, 2, 4};
    struct rn_charge batch[6] = {0};
    size_t n = 6;

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct rn_waiting *waiting = new_waiting();
        struct rn_backend_job *job = rn_backend_begin_job(&jobs, batch, n, on_done, &n, INT64_MAX);
        struct rn_waiting_queue queue = {0};

        for (size_t j = 0; j < 5; j++)
            assert_true(rn_waiting_add(waiting, job, &batch[j], &queue, 10));
        rn_waiting_end(waiting, &waiting->waiters[leavers[i]]);
        assert_true(rn_waiting_add(waiting, job, &batch[5], &queue, 10));
        for (size_t j = 0; j < 6; j++)
            if (j != leavers[i]) {
                assert_ptr_equal(queue.first->charge, &batch[j]);
                rn_waiting_end(waiting, queue.first);
            }
        assert_null(queue.first);
        free(waiting);
    }
}

static void the_ring_of_waiters_and_the_jobs_can_be_filled_again(void **state)
{
    struct rn_waiting *waiting = new_waiting();
    struct rn_charge charge = {.ask.cost = 1};
    struct rn_waiting_queue queue = {0};
    size_t n = 1;
    struct rn_backend_job *job = rn_backend_begin_job(&jobs, &charge, n, on_done, &n, INT64_MAX);

    (void)state;
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < RN_WAITING_MAX; i++)
            assert_true(rn_waiting_add(waiting, job, &charge, &queue, (int64_t)i));
        assert_false(rn_waiting_add(waiting, job, &charge, &queue, 0));
        while (queue.first)
            rn_waiting_end(waiting, queue.first);
    }
    for (size_t i = 1; i < RN_BACKEND_JOBS; i++)
        assert_non_null(rn_backend_begin_job(&jobs, &charge, n, on_done, &n, INT64_MAX));
    assert_null(rn_backend_begin_job(&jobs, &charge, n, on_done, &n, INT64_MAX));
    rn_backend_end_job(job);
    assert_non_null(rn_backend_begin_job(&jobs, &charge, n, on_done, &n, INT64_MAX));
    free(waiting);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_job_ends_with_the_last_of_its_charges),
        cmocka_unit_test(a_waiter_that_leaves_does_not_change_the_order),
        cmocka_unit_test(the_ring_of_waiters_and_the_jobs_can_be_filled_again),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
