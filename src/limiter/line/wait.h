/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that wait in line (ration_wait): each borrows a seat, which sleeps until its turn.
 */
#ifndef RN_LIMITER_LINE_WAIT_H
#define RN_LIMITER_LINE_WAIT_H

#include <pthread.h>

struct rn_wait_seat;

/* Seats that no thread sits on. At most as many are made as threads have waited at once. */
struct rn_wait_seats {
    pthread_mutex_t lock;
    struct rn_wait_seat *unused;
};

void rn_wait_seats_init(struct rn_wait_seats *seats);
/* No thread waits any more. */
void rn_wait_seats_done(struct rn_wait_seats *seats);

#endif
