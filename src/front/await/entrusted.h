/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests in line that another loop decides. Where limits are shared by nodes, the loop of the
 * first worker, the decider, decides all that wait for a strict one, whichever loop has their
 * connections: so those that have their turn together ask the store by one call, in their order.
 *
 *   HOME --entrust--> AWAY --decided--> DECIDED    the inbox of its own loop; answered there
 *                     AWAY --leave----> LEFT       the inbox of the decider, which takes it out of
 *                                                  the line, uncharged, and frees it
 *
 * While it is AWAY, its own loop must not touch what the decider reads; but it may call
 * rn_entrusted_leave at any time.
 */
#ifndef RN_FRONT_AWAIT_ENTRUSTED_H
#define RN_FRONT_AWAIT_ENTRUSTED_H

#include <ration/wait.h>

#include "front/await/turns.h"

struct rn_entrusted;
struct rn_front_workspace;

/* What a kind of requests does. */
struct rn_entrusted_calls {
    /* In the decider, on a fiber: decides again, and keeps the result for `answer`. RATION_EWAITS:
     * it waits on. */
    int (*decide)(struct rn_entrusted *e, struct rn_front_workspace *ws);
    /* On a fiber of either loop: gives back what the result has charged. */
    void (*give_back)(struct rn_entrusted *e, struct rn_front_workspace *ws);
    /* In its own loop, on the loop's stack: it is decided. */
    void (*answer)(struct rn_entrusted *e);
    /* In any thread: frees it, and the result. */
    void (*discard)(struct rn_entrusted *e);
};

enum rn_entrusted_state {
    RN_ENTRUSTED_HOME,
    RN_ENTRUSTED_AWAY,
    RN_ENTRUSTED_DECIDED,
    RN_ENTRUSTED_LEFT
};

struct rn_entrusted {
    struct ration_waiter waiter; /* first */
    const struct rn_entrusted_calls *calls;
    struct rn_await_turns *home; /* of its own loop */
    struct rn_entrusted *next;   /* in an inbox */
    void *result;                /* of `decide` */
    int code;                    /* the same */
    uint8_t state;               /* atomically */
    bool deciding;               /* of the decider: it is being decided, */
    bool abandoned;              /* and has left meanwhile */
};

/* A request has been answered RATION_EWAITS, and does not belong to a decision any more: sees that
 * it has its turn, here or by the decider. It may be gone when this returns. */
void rn_entrusted_wait(struct rn_entrusted *e, struct rn_await_turns *home,
                       const struct rn_entrusted_calls *calls);

/* In its own loop: leaves the line. True: the decider will free it. False: it is HOME, or DECIDED
 * and on its way home. */
bool rn_entrusted_leave(struct rn_entrusted *e);
static inline enum rn_entrusted_state rn_entrusted_state(const struct rn_entrusted *e)
{
    return (enum rn_entrusted_state)__atomic_load_n(&e->state, __ATOMIC_ACQUIRE);
}

/* In its own loop: nobody wants what the result has charged. Gives it back, and frees it. */
void rn_entrusted_return(struct rn_entrusted *e);

/* In the thread of a loop: does what has come to its inbox. */
void rn_entrusted_read(struct rn_await_turns *turns);
/* When all threads have ended: frees what has come too late. */
void rn_entrusted_discard_all(struct rn_await_turns *turns);

#endif
