/* SPDX-License-Identifier: Apache-2.0 */
#include "redis/leased/waiting.h"

void rn_waiting_init(struct rn_waiting *w)
{
    for (size_t i = RN_WAITING_JOBS; i-- > 0;) {
        w->jobs[i].waiting = w;
        w->jobs[i].next = w->spare;
        w->spare = &w->jobs[i];
    }
}

struct rn_waiting_job *rn_waiting_begin(struct rn_waiting *w, struct rn_charge *batch, size_t n,
                                        rn_backend_done *done, void *arg)
{
    struct rn_waiting_job *job = w->spare;

    if (!job)
        return NULL;
    w->spare = job->next;
    *job = (struct rn_waiting_job){.batch = batch, .n = n, .done = done, .arg = arg, .waiting = w};
    return job;
}

void rn_waiting_cancel(struct rn_waiting_job *job)
{
    job->next = job->waiting->spare;
    job->waiting->spare = job;
}

void rn_waiting_answered(struct rn_waiting_job *job, size_t n)
{
    struct rn_waiting_job ended = *job;

    job->left -= n;
    if (job->left > 0)
        return;
    rn_waiting_cancel(job);
    ended.done(ended.arg, ended.batch, ended.n);
}

bool rn_waiting_add(struct rn_waiting_job *job, struct rn_charge *charge, struct rn_queue *queue,
                    int64_t deadline_ns)
{
    struct rn_waiting *w = job->waiting;
    struct rn_waiter *waiter = &w->waiters[(w->first + w->count) % RN_WAITERS];

    if (w->count == RN_WAITERS)
        return false;
    w->count++;
    job->left++;
    *waiter = (struct rn_waiter){.job = job,
                                 .charge = charge,
                                 .queue = queue,
                                 .link = queue->first ? queue->end : &queue->first,
                                 .deadline_ns = deadline_ns};
    *waiter->link = waiter;
    queue->end = &waiter->next;
    queue->units += charge->ask.cost;
    return true;
}

struct rn_waiting_job *rn_waiting_end(struct rn_waiter *waiter)
{
    struct rn_waiting_job *job = waiter->job;
    struct rn_waiting *w = job->waiting;

    *waiter->link = waiter->next;
    *(waiter->next ? &waiter->next->link : &waiter->queue->end) = waiter->link;
    waiter->queue->units -= waiter->charge->ask.cost;
    waiter->job = NULL;
    while (w->count > 0 && !w->waiters[w->first].job) {
        w->first = (w->first + 1) % RN_WAITERS;
        w->count--;
    }
    return job;
}

/* As a rule it is the first one: most are given the same time. */
struct rn_waiter *rn_waiting_next(struct rn_waiting *w)
{
    struct rn_waiter *next = NULL;

    for (size_t i = 0; i < w->count; i++) {
        struct rn_waiter *waiter = &w->waiters[(w->first + i) % RN_WAITERS];

        if (waiter->job && (!next || waiter->deadline_ns < next->deadline_ns))
            next = waiter;
    }
    return next;
}
