/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs of a backend: ordered by deadline, ended once, and void for older references. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "redis/backend.h"

static struct rn_backend_jobs jobs;
static size_t ended;

static int clear(void **state)
{
    (void)state;
    jobs = (struct rn_backend_jobs){0};
    ended = 0;
    rn_backend_init_jobs(&jobs, NULL);
    return 0;
}

static void on_done(void *arg, struct rn_charge *batch, size_t n)
{
    (void)arg, (void)batch, (void)n;
    ended++;
}

static struct rn_backend_job *begin(int64_t deadline_ns)
{
    static struct rn_charge charge;

    return rn_backend_begin_job(&jobs, &charge, 1, on_done, NULL, deadline_ns);
}

static void jobs_are_ordered_by_deadline(void **state)
{
    static const int64_t deadlines[] = {30, 10, INT64_MAX, 20, 40, 5};
    struct rn_backend_job *begun[6];
    int64_t last = 0;

    (void)state;
    for (size_t i = 0; i < 6; i++)
        begun[i] = begin(deadlines[i]);
    assert_ptr_equal(jobs.last, begun[2]);
    rn_backend_end_job(begun[2]); /* the last, the first and one in the middle */
    rn_backend_end_job(begun[5]);
    rn_backend_end_job(begun[3]);
    assert_ptr_equal(jobs.first, begun[1]);
    assert_ptr_equal(jobs.last, begun[4]);
    for (struct rn_backend_job *job = jobs.first; job; job = jobs.first) {
        assert_true(job->deadline_ns > last);
        last = job->deadline_ns;
        rn_backend_end_job(job);
    }
    assert_int_equal(last, 40);
    assert_null(jobs.last);
    assert_int_equal(ended, 0);
}

static void a_job_is_done_once_and_then_has_another_life(void **state)
{
    struct rn_backend_job *job = begin(10);
    uint64_t life = job->life;

    (void)state;
    job->left = 3;
    rn_backend_answered(job, 2);
    assert_int_equal(ended, 0);
    rn_backend_answered(job, 1);
    assert_int_equal(ended, 1);
    assert_ptr_equal(begin(20), job);
    assert_true(job->life != life);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(jobs_are_ordered_by_deadline, clear),
        cmocka_unit_test_setup(a_job_is_done_once_and_then_has_another_life, clear),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
