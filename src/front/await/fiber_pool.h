/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fibers of a loop. With a shared store, a conversation runs on a fiber with its own
 * workspace, and its loop serves others while it waits for the store. Without one, everything
 * runs on the loop's stack and workspace.
 *
 * A pool has a fixed size; callers queue FIFO when it is empty. The pool of the control loop has
 * one fiber. So code that runs while that is free, such as replacing the rules, can rely on
 * no reader of the rules waiting in its own thread.
 */
#ifndef RN_FRONT_AWAIT_FIBER_POOL_H
#define RN_FRONT_AWAIT_FIBER_POOL_H

#include "net/conn.h"

#define RN_FIBERS_OF_WORKER 256
/* A few more than fill a call to the store (redis/strict/batch_queue.h). A conversation takes
 * several fibers at a time only while all that do so have no more than this in sum. More
 * would use more memory, and gain nothing. */
#define RN_FIBERS_SHARED 80

struct rn_front;
struct rn_front_workspace;
struct rn_pool_fiber;
struct rn_queued_reply;
struct rn_reply_queue;

/* Work besides conversations. `ended` is called on the loop's stack, with the connection still
 * there unless the task is detached. */
struct rn_await_task {
    void (*run)(void *arg, struct rn_front_workspace *ws);
    void (*ended)(void *arg);
    void *arg;
    bool detached; /* it outlives the connection: for `closed` of a protocol */
};

struct rn_pool_waiter {
    struct rn_conn *conn;      /* NULL: of a detached task */
    struct rn_await_task task; /* run NULL: the connection goes on */
};

struct rn_fiber_pool {
    struct rn_pool_fiber *spare;
    uint32_t made, taken;
    uint32_t conversations;      /* that have fibers */
    struct rn_pool_waiter *ring; /* of `size` entries, a power of two */
    size_t first, waiting, size;
    bool starting; /* waiters are being started */
};

void rn_await_pool_done(struct rn_fiber_pool *pool);

/* What one read of a connection has brought, while it is answered. */
struct rn_conversation {
    struct rn_conn *conn;
    struct rn_front_workspace *ws;
    struct rn_buf *out;
    struct rn_reply_queue *queue; /* of the connection; NULL: it answers one by one */
    bool behind;                  /* commands before it have not been answered yet */
    bool on_fiber;                /* it may have to wait */
    bool has_waited;              /* it has waited; the rest of the input waits with it */
    bool paused;                  /* out: the connection is paused for another reason */

    /* Where the next command begins, while this one may be overtaken. If it has to wait, another
     * fiber goes on from there, `reply` is set, and `out` goes there. Then this conversation has
     * this one command only. NULL: all that follows waits. */
    const char *rest;
    struct rn_queued_reply *reply;
};
/* Returns how many bytes it has used. */
typedef size_t rn_await_handler(struct rn_conversation *conversation, char *data, size_t len);

/* For `received` of a protocol where there is a shared store: runs `handler` on a fiber. If it
 * left the rest to another fiber, queue->more is set: call it again. */
size_t rn_await_run(struct rn_conn *conn, struct rn_reply_queue *queue, rn_await_handler *handler,
                    char *data, size_t len);

/* Whether the conversation, which has a queue, may leave its rest to one more fiber. */
bool rn_await_may_split(const struct rn_conversation *conversation);

/* Runs the task, now or when a fiber is free, and then calls its `ended`. */
void rn_await_run_task(struct rn_conn *conn, const struct rn_await_task *task);

struct rn_await_turns;
/* The same in the thread of that loop, with no connection: the task must be detached. */
void rn_await_run_in_loop(struct rn_await_turns *turns, const struct rn_await_task *task);

/* Whether the fiber of the control loop is in use. */
bool rn_await_control_is_busy(const struct rn_front *front);

#endif
