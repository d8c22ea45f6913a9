/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches that are not answered yet, and those of their charges that wait here for
 * something, in order, as long as each can. Memory of fixed size.
 */
#ifndef RN_REDIS_WAITING_H
#define RN_REDIS_WAITING_H

#include "redis/backend.h"

#define RN_WAITING_JOBS 1024
#define RN_WAITERS 4096 /* a power of two */

/* One rn_backend_begin. */
struct rn_waiting_job {
    struct rn_charge *batch;
    size_t n, left; /* left: not answered yet */
    rn_backend_done *done;
    void *arg;
    struct rn_waiting *waiting; /* whose it is */
    struct rn_waiting_job *next;
};

/* Those who wait for the same thing. Zeroed before first use. */
struct rn_queue {
    struct rn_waiter *first, **end;
    uint64_t units; /* that they want */
};

struct rn_waiter {
    struct rn_waiting_job *job; /* NULL: it has been answered */
    struct rn_charge *charge;
    struct rn_queue *queue;
    struct rn_waiter *next, **link; /* in the queue */
    int64_t deadline_ns;            /* of the loop's clock */
};

struct rn_waiting {
    struct rn_waiting_job jobs[RN_WAITING_JOBS], *spare;
    struct rn_waiter waiters[RN_WAITERS]; /* a ring: in the order in which they came */
    size_t first, count;
};

void rn_waiting_init(struct rn_waiting *waiting);

/* NULL: too many. */
struct rn_waiting_job *rn_waiting_begin(struct rn_waiting *waiting, struct rn_charge *batch,
                                        size_t n, rn_backend_done *done, void *arg);
/* Before anybody knows of it: it was answered at once. */
void rn_waiting_cancel(struct rn_waiting_job *job);
/* `n` of its charges have been answered. The last ones end it, and `done` is called. */
void rn_waiting_answered(struct rn_waiting_job *job, size_t n);

/* One more of what is left of a job waits, behind others. False: too many do. */
bool rn_waiting_add(struct rn_waiting_job *job, struct rn_charge *charge, struct rn_queue *queue,
                    int64_t deadline_ns);
/* It waits no more: its charge is the caller's to answer. Returns its job. */
struct rn_waiting_job *rn_waiting_end(struct rn_waiter *waiter);
/* Whose time is up first; NULL: nobody waits. */
struct rn_waiter *rn_waiting_next(struct rn_waiting *waiting);

#endif
