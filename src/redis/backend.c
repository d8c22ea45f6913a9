/* SPDX-License-Identifier: Apache-2.0 */
#include "redis/backend.h"

#include "base/fiber.h"

static void wake(void *fiber, struct rn_charge *batch, size_t n)
{
    (void)batch, (void)n;
    rn_fiber_wake(fiber);
}

/* Off a fiber there is nothing to park. */
static void apply(struct rn_store *store, struct rn_charge *batch, size_t n)
{
    struct rn_fiber *fiber = rn_fiber_current();

    if (rn_backend_begin((struct rn_backend *)(void *)store, batch, n, fiber ? wake : NULL,
                         fiber) == RN_PENDING)
        rn_fiber_wait();
}

static void disown(struct rn_store *store, const struct rn_charge *charge, uint64_t late)
{
    struct rn_backend *backend = (struct rn_backend *)(void *)store;

    backend->ops->disown(backend, charge, late);
}

void rn_backend_init(struct rn_backend *backend, const struct rn_backend_ops *ops)
{
    static const struct rn_store_ops store_ops = {.apply = apply, .disown = disown};

    *backend = (struct rn_backend){{&store_ops}, ops};
}

/* --- jobs ----------------------------------------------------------------------------------- */

void rn_backend_init_jobs(struct rn_backend_jobs *jobs, void *owner)
{
    jobs->owner = owner;
    for (size_t i = 0; i < RN_BACKEND_JOBS; i++) {
        jobs->pool[i].jobs = jobs;
        jobs->pool[i].next = jobs->spare;
        jobs->spare = &jobs->pool[i];
    }
}

/* NULL: the job is the first one. */
static struct rn_backend_job *job_before(const struct rn_backend_job *job)
{
    return job->link == &job->jobs->first
               ? NULL
               : (struct rn_backend_job *)((char *)job->link -
                                           offsetof(struct rn_backend_job, next));
}

/* Most new jobs have the latest deadline: the search starts at the end. */
struct rn_backend_job *rn_backend_begin_job(struct rn_backend_jobs *jobs, struct rn_charge *batch,
                                            size_t n, rn_backend_done *done, void *arg,
                                            int64_t deadline_ns)
{
    struct rn_backend_job *job = jobs->spare, *before = jobs->last;

    if (!job)
        return NULL;
    jobs->spare = job->next;
    while (before && before->deadline_ns > deadline_ns)
        before = job_before(before);
    *job = (struct rn_backend_job){.batch = batch,
                                   .n = n,
                                   .done = done,
                                   .arg = arg,
                                   .jobs = jobs,
                                   .life = job->life,
                                   .deadline_ns = deadline_ns,
                                   .link = before ? &before->next : &jobs->first};
    job->next = *job->link;
    *job->link = job;
    if (job->next)
        job->next->link = &job->next;
    else
        jobs->last = job;
    return job;
}

void rn_backend_end_job(struct rn_backend_job *job)
{
    struct rn_backend_jobs *jobs = job->jobs;

    if (!job->next)
        jobs->last = job_before(job);
    *job->link = job->next;
    if (job->next)
        job->next->link = job->link;
    job->life++;
    job->next = jobs->spare;
    jobs->spare = job;
}

void rn_backend_answered(struct rn_backend_job *job, size_t parts)
{
    struct rn_backend_job ended = *job;

    job->left -= parts;
    if (job->left > 0)
        return;
    rn_backend_end_job(job);
    ended.done(ended.arg, ended.batch, ended.n);
}
