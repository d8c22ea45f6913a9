/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The replies of a connection whose commands may be decided at the same time. They leave in
 * the order of the commands: an incomplete one keeps back all that follow.
 */
#ifndef RN_FRONT_AWAIT_REPLY_QUEUE_H
#define RN_FRONT_AWAIT_REPLY_QUEUE_H

#include "net/conn.h"

/* Replies of one connection, complete or not; with more it is not read. */
#define RN_REPLY_QUEUE_MAX 64

struct rn_front_loop;

struct rn_queued_reply {
    struct rn_delayed_reply *delayed; /* until it is written; its `slot` points here */
    struct rn_held_request *held;     /* until its turn has come */
    struct rn_reply_queue *queue;
    struct rn_queued_reply *next;
    struct rn_buf out;
    bool incomplete;
};

/* In the state of the connection. */
struct rn_reply_queue {
    struct rn_conn *conn;
    struct rn_queued_reply *first, **end;
    uint32_t count;
    uint32_t incomplete; /* how many of them are */
    uint32_t delayed;    /* and how many of these wait for a timer or in line */
    uint32_t fibers;     /* that the conversation has (fiber_pool.c) */
    bool barrier;        /* the next command begins when all before it have been answered */
    bool more;           /* input may have commands that can begin */
    bool paused;         /* by rn_reply_queue_pause */
};

void rn_reply_queue_init(struct rn_reply_queue *queue, struct rn_conn *conn);
/* The connection has ended. Gives back the charges of delayed replies, and leaves lines. */
void rn_reply_queue_drop(struct rn_reply_queue *queue);

/* For `received`: pauses the connection if no command may begin now, and returns whether. */
bool rn_reply_queue_pause(struct rn_reply_queue *queue);
/* Resumes the connection if it was paused and need not be any more; not within `received`. */
void rn_reply_queue_resume(struct rn_reply_queue *queue);

/* Whether there is memory for one more. */
bool rn_reply_queue_have_room(struct rn_reply_queue *queue);
/* Adds an incomplete reply, which begins with `out`, and empties `out`. NULL: out of memory. */
struct rn_queued_reply *rn_reply_queue_add(struct rn_reply_queue *queue, struct rn_buf *out);
/* The reply has all its bytes. The caller must not use it any more. */
void rn_reply_queue_complete(struct rn_queued_reply *reply);
/* Moves `out` into the reply and completes it; if the reply is delayed, its timer or turn does. */
void rn_reply_queue_finish(struct rn_queued_reply *reply, struct rn_buf *out);
/* Moves `out` to the end of the queue, as a complete reply. */
void rn_reply_queue_append(struct rn_reply_queue *queue, struct rn_buf *out);

/* Moves the replies that may leave to the connection. That also happens at the end of each
 * round of the loop. */
void rn_reply_queue_flush(struct rn_reply_queue *queue);

/* Frees those that no connection uses. */
void rn_reply_queue_free_spares(struct rn_front_loop *loop);

#endif
