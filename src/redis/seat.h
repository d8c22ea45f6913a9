/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Charges in the order in which they came, as lists of seats. A seat outlives its job: who
 * looks at the charge asks first whether it is still awaited.
 */
#ifndef RN_REDIS_SEAT_H
#define RN_REDIS_SEAT_H

#include "redis/backend.h"

/* One rn_backend_begin. */
struct rn_job {
    struct rn_charge *batch;
    size_t n, left; /* how many are not answered yet */
    uint64_t life;  /* another one each time the job is used */
    rn_backend_done *done;
    void *arg;
    int64_t deadline_ns;
    struct rn_job *next, **link; /* among those under way: by deadline */
};

struct rn_seat {
    struct rn_job *job;
    uint64_t life;
    size_t index;  /* in the job's batch */
    uint64_t late; /* what the charge is known by once its job has ended: rn_late_charge.id; 0:
                      nothing */
    struct rn_seat *next;
};

struct rn_seats {
    struct rn_seat *first, **end; /* end NULL: as if it were &first */
};

static inline bool rn_seat_is_awaited(const struct rn_seat *seat)
{
    return seat->job->life == seat->life;
}

static inline struct rn_charge *rn_seat_charge(const struct rn_seat *seat)
{
    return &seat->job->batch[seat->index];
}

static inline void rn_seats_append(struct rn_seats *seats, struct rn_seat *seat)
{
    seat->next = NULL;
    *(seats->first ? seats->end : &seats->first) = seat;
    seats->end = &seat->next;
}

/* NULL: there is none. */
static inline struct rn_seat *rn_seats_take(struct rn_seats *seats)
{
    struct rn_seat *seat = seats->first;

    if (seat)
        seats->first = seat->next;
    return seat;
}

/* Moves `seats` before those that wait. */
static inline void rn_seats_put_back(struct rn_seats *waiting, struct rn_seats *seats)
{
    if (!seats->first)
        return;
    *seats->end = waiting->first;
    waiting->end = waiting->first ? waiting->end : seats->end;
    waiting->first = seats->first;
    seats->first = NULL;
}

#endif
