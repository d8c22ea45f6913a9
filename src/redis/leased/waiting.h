/* SPDX-License-Identifier: Apache-2.0 */
/* FIFOs of charges awaiting a renewal of their lease, each with a deadline. Fixed memory. */
#ifndef RN_REDIS_WAITING_H
#define RN_REDIS_WAITING_H

#include "redis/backend.h"

#define RN_WAITING_MAX 4096 /* charges; a power of two */

/* The charges that await one renewal. Zeroed before first use. */
struct rn_waiting_queue {
    struct rn_waiting_charge *first, **end;
    uint64_t units; /* that they want */
};

struct rn_waiting_charge {
    struct rn_backend_job *job; /* NULL: answered */
    struct rn_charge *charge;
    struct rn_waiting_queue *queue;
    struct rn_waiting_charge *next, **link; /* in the queue */
    int64_t deadline_ns;                    /* of the loop's clock */
};

/* Zeroed before first use. */
struct rn_waiting {
    struct rn_waiting_charge waiters[RN_WAITING_MAX]; /* a ring, in order of arrival */
    size_t first, count;
};

/* One more charge of the job waits, at the end of the queue. False: too many. */
bool rn_waiting_add(struct rn_waiting *waiting, struct rn_backend_job *job,
                    struct rn_charge *charge, struct rn_waiting_queue *queue, int64_t deadline_ns);
/* Takes a charge out: the caller must answer it. Returns its job. */
struct rn_backend_job *rn_waiting_end(struct rn_waiting *waiting, struct rn_waiting_charge *waiter);
/* The waiter with the earliest deadline; NULL: none waits. */
struct rn_waiting_charge *rn_waiting_next(struct rn_waiting *waiting);

#endif
