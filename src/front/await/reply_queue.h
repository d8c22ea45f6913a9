/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The replies of a connection some of whose commands are answered at the same time. They
 * leave in the order of the commands: one that is not complete keeps back all behind it.
 */
#ifndef RN_FRONT_AWAIT_REPLY_QUEUE_H
#define RN_FRONT_AWAIT_REPLY_QUEUE_H

#include "net/conn.h"

/* Of one connection, complete or not; then it is read no further. */
#define RN_REPLIES_MAX 64

struct rn_front_loop;

struct rn_reply {
    struct rn_held *held; /* until it is told; rn_held.slot points here */
    struct rn_replies *of;
    struct rn_reply *next;
    struct rn_buf out;
    bool open; /* not complete */
};

/* In the state of the connection. */
struct rn_replies {
    struct rn_conn *conn;
    struct rn_reply *first, **end;
    uint32_t count;
    uint32_t open;  /* how many are not complete */
    uint32_t held;  /* and of these, held */
    uint32_t turns; /* that the conversation has (turn.c) */
    bool alone;     /* the next command begins when all before it have been answered */
    bool again;     /* there may be more to begin of what has arrived */
    bool stopped;   /* rn_replies_stop has said so last */
};

void rn_replies_init(struct rn_replies *replies, struct rn_conn *conn);
/* The connection has ended. What was held for it is given back. */
void rn_replies_drop(struct rn_replies *replies);

/* For `received`: whether nothing may begin now. The connection is held then. */
bool rn_replies_stop(struct rn_replies *replies);
/* Lets it go on if that was so and is no more; not from within `received`. */
void rn_replies_go_on(struct rn_replies *replies);

/* Whether there is memory for one more. */
bool rn_replies_have_room(struct rn_replies *replies);
/* One more, which is to be completed. It begins with `out`, which is emptied. NULL: out
 * of memory. */
struct rn_reply *rn_replies_add(struct rn_replies *replies, struct rn_buf *out);
/* It has all that it is to have, and is not to be used any more. */
void rn_replies_complete(struct rn_reply *reply);
/* That is so with `out`, which is emptied; unless it is held: then when it has been told. */
void rn_replies_end(struct rn_reply *reply, struct rn_buf *out);
/* What was answered at once, behind all that there are. `out` is emptied. */
void rn_replies_put(struct rn_replies *replies, struct rn_buf *out);

/* What may leave goes to the connection; else that is done at the end of the round. */
void rn_replies_flush(struct rn_replies *replies);

/* Those that no connection uses. */
void rn_replies_spare_done(struct rn_front_loop *loop);

#endif
