/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The requests of a loop that wait in line (ration/wait.h): calls `turn` of each when its turn has
 * come. A timer of the loop waits, no thread.
 */
#ifndef RN_FRONT_AWAIT_TURNS_H
#define RN_FRONT_AWAIT_TURNS_H

#include <ration/wait.h>

#include "net/server.h"

struct rn_entrusted;
struct rn_front;

struct rn_await_turns {
    struct rn_timer timer;
    const struct rn_front *front;
    struct rn_loop *loop;           /* atomic: other threads wake it; NULL: it has ended */
    struct ration_waiting *waiting; /* for waiters of this loop; NULL: nobody waits here */
    struct rn_entrusted *inbox;     /* atomic: entrusted.h */
    uint32_t away;                  /* of this loop's requests, that others decide */
    bool ending;                    /* the server stops, and its waiters are to be answered soon */
};

/* In the thread of a worker, before it accepts and when its connections have ended. The loop that
 * decides for others goes on until they have ended, too. Without memory nobody waits there. */
void rn_await_turns_start(struct rn_await_turns *turns, const struct rn_front *front,
                          struct rn_loop *loop);
void rn_await_turns_stop(struct rn_await_turns *turns);
/* When no connection is left. */
void rn_await_turns_free(struct rn_await_turns *turns);

/* Any thread: the loop reads its inbox soon. */
void rn_await_turns_wake(struct rn_await_turns *turns);

/* A decision has answered RATION_EWAITS. Does nothing if the loop has ended. */
void rn_await_turns_arm(struct rn_await_turns *turns);

#endif
