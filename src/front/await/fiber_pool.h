/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns: where there is a shared store, a conversation runs on a fiber with a desk of its
 * own, and its loop serves others while it waits for the store. Without one, everything
 * runs on the loop's own stack and desk.
 *
 * A loop has so many turns and no more; whoever finds none waits for one in line. The
 * control loop has one: whatever it does when nobody waits, such as replacing the rules,
 * can rely on that no reader of theirs sleeps in its own thread.
 */
#ifndef RN_FRONT_AWAIT_FIBER_POOL_H
#define RN_FRONT_AWAIT_FIBER_POOL_H

#include "net/conn.h"

#define RN_FIBERS_OF_WORKER 256
/* A few more than fill a call to the store (redis/strict/batch_queue.h). Each conversation takes
 * several turns at a time only while all that do so have no more than that: with more, each goes
 * through memory of its own and is answered by itself, and nothing is gained. */
#define RN_FIBERS_SHARED 80

struct rn_front_workspace;
struct rn_front;
struct rn_reply_queue;
struct rn_queued_reply;
struct rn_pool_fiber;

/* Who waits for a turn. */
struct rn_fiber_waiter {
    void (*begin)(void *arg);
    void *arg;
};

struct rn_fiber_pool {
    struct rn_pool_fiber *spare;
    uint32_t made, taken;
    uint32_t speakers;            /* conversations that have some */
    struct rn_fiber_waiter *line; /* a ring of `room` places, a power of two */
    size_t first, waiting, room;
    bool calling; /* somebody of the line, now */
};

void rn_await_pool_done(struct rn_fiber_pool *turns);

/* What a conversation works with. */
struct rn_conversation {
    struct rn_conn *conn;
    struct rn_front_workspace *ws;
    struct rn_buf *out;
    struct rn_reply_queue *replies; /* of the connection; NULL: it answers one after the other */
    bool behind;                    /* others before it have not been answered yet */
    bool waits;                     /* it may have to wait */
    bool waited;                    /* and has, with all that follows */
    bool holds;                     /* out: the connection is held for a reason of its own */

    /* While a command may be overtaken: what follows it. Should it have to wait, the rest of
     * the conversation goes on from there, in another turn, and `reply` is set, which is where
     * `out` goes. Nothing but that command is this one's business any more. NULL: all that
     * follows waits. */
    const char *rest;
    struct rn_queued_reply *reply;
};
typedef size_t rn_await_handler(struct rn_conversation *talker, char *data, size_t len);

/* For `received` of a protocol: has `talk` called, which returns how many bytes are done
 * with. Where it left the rest to another turn, replies->again is set: call it again. */
size_t rn_await_run(struct rn_conn *conn, struct rn_reply_queue *replies, rn_await_handler *talk,
                    char *data, size_t len);

/* Whether the conversation, with `replies`, may leave its rest to one more turn. */
bool rn_await_may_split(const struct rn_conversation *talker);

/* Has `work` called, now or when it is its turn, and then `ended`: on the loop's own stack,
 * with the connection still there. */
struct rn_await_task {
    void (*work)(void *arg, struct rn_front_workspace *ws);
    void (*ended)(void *arg);
    void *arg;
};
void rn_await_run_task(struct rn_conn *conn, const struct rn_await_task *work);
/* The same for what outlives the connection: from within its `closed`. */
void rn_await_run_detached(const struct rn_conn *conn, const struct rn_await_task *work);

/* A decision begins: from now on it may wait for as long as decisions may. */
void rn_await_set_deadline(const struct rn_front *front, const struct rn_conn *conn);

/* Somebody waits for a store in the control loop. */
bool rn_await_control_is_busy(const struct rn_front *front);

#endif
