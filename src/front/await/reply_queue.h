/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The replies of a connection some of whose commands are answered at the same time. They
 * leave in the order of the commands: one that is not complete keeps back all behind it.
 */
#ifndef RN_FRONT_AWAIT_REPLY_QUEUE_H
#define RN_FRONT_AWAIT_REPLY_QUEUE_H

#include "net/conn.h"

/* Of one connection, complete or not; then it is read no further. */
#define RN_REPLY_QUEUE_MAX 64

struct rn_front_loop;

struct rn_queued_reply {
    struct rn_delayed_reply *held; /* until it is told; rn_delayed_reply.slot points here */
    struct rn_reply_queue *of;
    struct rn_queued_reply *next;
    struct rn_buf out;
    bool open; /* not complete */
};

/* In the state of the connection. */
struct rn_reply_queue {
    struct rn_conn *conn;
    struct rn_queued_reply *first, **end;
    uint32_t count;
    uint32_t open;  /* how many are not complete */
    uint32_t held;  /* and of these, held */
    uint32_t turns; /* that the conversation has (turn.c) */
    bool alone;     /* the next command begins when all before it have been answered */
    bool again;     /* there may be more to begin of what has arrived */
    bool stopped;   /* rn_reply_queue_pause has last_entry so last */
};

void rn_reply_queue_init(struct rn_reply_queue *replies, struct rn_conn *conn);
/* The connection has ended. What was held for it is given back. */
void rn_reply_queue_drop(struct rn_reply_queue *replies);

/* For `received`: whether nothing may begin now. The connection is held then. */
bool rn_reply_queue_pause(struct rn_reply_queue *replies);
/* Lets it go on if that was so and is no more; not from within `received`. */
void rn_reply_queue_resume(struct rn_reply_queue *replies);

/* Whether there is memory for one more. */
bool rn_reply_queue_have_room(struct rn_reply_queue *replies);
/* One more, which is to be completed. It begins with `out`, which is emptied. NULL: out
 * of memory. */
struct rn_queued_reply *rn_reply_queue_add(struct rn_reply_queue *replies, struct rn_buf *out);
/* It has all that it is to have, and is not to be used any more. */
void rn_reply_queue_complete(struct rn_queued_reply *reply);
/* That is so with `out`, which is emptied; unless it is held: then when it has been told. */
void rn_reply_queue_finish(struct rn_queued_reply *reply, struct rn_buf *out);
/* What was answered at once, behind all that there are. `out` is emptied. */
void rn_reply_queue_append(struct rn_reply_queue *replies, struct rn_buf *out);

/* What may leave goes to the connection; else that is done at the end of the round. */
void rn_reply_queue_flush(struct rn_reply_queue *replies);

/* Those that no connection uses. */
void rn_reply_queue_free_spares(struct rn_front_loop *loop);

#endif
