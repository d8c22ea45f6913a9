/* SPDX-License-Identifier: Apache-2.0 */
#include "redis/leased/waiting.h"

bool rn_waiting_add(struct rn_waiting *w, struct rn_backend_job *job, struct rn_charge *charge,
                    struct rn_waiting_queue *queue, int64_t deadline_ns)
{
    struct rn_waiting_charge *waiter = &w->waiters[(w->first + w->count) % RN_WAITING_MAX];

    if (w->count == RN_WAITING_MAX)
        return false;
    w->count++;
    job->left++;
    *waiter = (struct rn_waiting_charge){.job = job,
                                         .charge = charge,
                                         .queue = queue,
                                         .link = queue->first ? queue->end : &queue->first,
                                         .deadline_ns = deadline_ns};
    *waiter->link = waiter;
    queue->end = &waiter->next;
    queue->units += charge->ask.cost;
    return true;
}

struct rn_backend_job *rn_waiting_end(struct rn_waiting *w, struct rn_waiting_charge *waiter)
{
    struct rn_backend_job *job = waiter->job;

    *waiter->link = waiter->next;
    *(waiter->next ? &waiter->next->link : &waiter->queue->end) = waiter->link;
    waiter->queue->units -= waiter->charge->ask.cost;
    waiter->job = NULL;
    while (w->count > 0 && !w->waiters[w->first].job) {
        w->first = (w->first + 1) % RN_WAITING_MAX;
        w->count--;
    }
    return job;
}

/* Fibers may set earlier deadlines, so the first waiter is not always the next. */
struct rn_waiting_charge *rn_waiting_next(struct rn_waiting *w)
{
    struct rn_waiting_charge *next = NULL;

    for (size_t i = 0; i < w->count; i++) {
        struct rn_waiting_charge *waiter = &w->waiters[(w->first + i) % RN_WAITING_MAX];

        if (waiter->job && (!next || waiter->deadline_ns < next->deadline_ns))
            next = waiter;
    }
    return next;
}
