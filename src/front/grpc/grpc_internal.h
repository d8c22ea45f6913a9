/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to the gRPC port's files: a connection, the calls on it, and how they
 * are answered.
 *
 *   grpc.c        the connection: HTTP/2 in and out
 *   grpc_time.c   what takes too long; its age and its end
 *   grpc_head.c   the headers of a call
 *   grpc_calls.c  the memory of calls
 *   grpc_answer.c messages and statuses as frames
 *   grpc_rls.c    what the methods do; knows no frames
 */
#ifndef RN_FRONT_GRPC_INTERNAL_H
#define RN_FRONT_GRPC_INTERNAL_H

#include <nghttp2/nghttp2.h>

#include "front/front.h"

#define RN_GRPC_PREFIX 5 /* bytes before a message: flag and length */

/* The protocol's numbers. */
enum rn_grpc_status {
    RN_GRPC_OK = 0,
    RN_GRPC_INVALID_ARGUMENT = 3,
    RN_GRPC_DEADLINE_EXCEEDED = 4,
    RN_GRPC_NOT_FOUND = 5,
    RN_GRPC_RESOURCE_EXHAUSTED = 8,
    RN_GRPC_UNIMPLEMENTED = 12,
    RN_GRPC_INTERNAL = 13,
    RN_GRPC_UNAVAILABLE = 14,
};

struct rn_grpc_call;

struct rn_grpc_method {
    const char *path;
    void (*answer)(struct rn_grpc_call *call, struct rn_slice message);
};

/* What to give back, should a held reply be cancelled. */
struct rn_grpc_delayed {
    struct ration *limiter;
    struct ration_descriptors_outcome outcome;
};

/* One stream. Comes from its loop's spare ones and goes back there. */
struct rn_grpc_call {
    struct rn_timer timer; /* of a reply that is held */
    struct rn_grpc_call *next, **link;
    struct rn_grpc_conn *on;
    int32_t id;
    const struct rn_grpc_method *method; /* NULL: none has this path */
    size_t head_bytes;
    bool post, typed;   /* POST; a content type of gRPC */
    bool bad_timeout;   /* a grpc-timeout that is none */
    bool complete;      /* the request has ended */
    bool answered;      /* or refused */
    bool watching;      /* more messages may follow */
    bool deciding;      /* on a turn, or waits for one */
    bool cancelled;     /* and its stream has ended meanwhile */
    int64_t begun_ns;   /* of the loop's time, as is */
    int64_t timeout_ns; /* after that; 0: none */
    int64_t asked_ns;   /* when it was complete, if it may have to wait */
    struct rn_buf in;   /* what has come of the message, with its prefix */
    struct rn_buf out;  /* messages with their prefixes, */
    size_t sent;        /* and how much of it has been packed into frames */
    struct rn_grpc_delayed *held;
};

enum rn_grpc_phase {
    RN_GRPC_OPEN,
    RN_GRPC_LEAVING, /* the peer has been asked not to begin calls */
    RN_GRPC_GONE,    /* calls that it begins are not looked at any more */
};

struct rn_grpc_conn {
    struct rn_timer timer;
    struct rn_conn *conn;
    struct rn_front *front;
    struct rn_front_loop *loop;
    nghttp2_session *session;
    struct rn_grpc_call *calls;
    uint32_t call_count;
    size_t buffered; /* bytes of incomplete messages, */
    size_t reported; /* and as many as net was reported of */
    bool greeted;    /* the peer speaks HTTP/2 */
    bool receiving;  /* what is answered goes out when all that came has been read */
    enum rn_grpc_phase phase;
    int64_t leave_ns; /* when the next phase begins; INT64_MAX: never */
    int64_t slow_ns;  /* when to look for calls that take too long; 0: not */
    uint64_t answered;
};

static inline int64_t rn_grpc_now(const struct rn_grpc_conn *c)
{
    return rn_wheel_now(rn_conn_wheel(c->conn));
}

/* The message of a call that is complete. */
static inline struct rn_slice rn_grpc_message(const struct rn_grpc_call *call)
{
    return (struct rn_slice){call->in.data + RN_GRPC_PREFIX, call->in.len - RN_GRPC_PREFIX};
}

/* grpc.c: what is to be sent goes to the connection; for who answers outside of
 * `received`. */
void rn_grpc_flush(struct rn_grpc_conn *c);
/* Counts what was answered since `began_ns`. */
void rn_grpc_count_answered(struct rn_grpc_conn *c, int64_t began_ns);

/* grpc_time.c: when a connection begins; */
void rn_grpc_start_timer(struct rn_grpc_conn *c);
/* there are calls to look after; */
void rn_grpc_set_slow(struct rn_grpc_conn *c);
/* something may have changed. */
void rn_grpc_set_timer(struct rn_grpc_conn *c);
/* The next step of leaving. */
void rn_grpc_leave(struct rn_grpc_conn *c);

/* grpc_head.c: one header of a call. False: there are too many. */
bool rn_grpc_read_header(struct rn_grpc_call *call, struct rn_slice name, struct rn_slice value);

/* grpc_calls.c: NULL: out of memory. */
struct rn_grpc_call *rn_grpc_call_new(struct rn_grpc_conn *c, int32_t id);
/* Gives back what a held reply was charged. One that is being decided goes when it has
 * been. */
void rn_grpc_call_free(struct rn_grpc_call *call);
/* Those that no call uses. */
void rn_grpc_free_spares(struct rn_front_loop *loop);

/* grpc_answer.c. Nothing is sent before rn_grpc_flush. */

/* Room for one message in call->out: write it between these. */
size_t rn_grpc_message_begin(struct rn_grpc_call *call);
void rn_grpc_message_end(struct rn_grpc_call *call, size_t at);
/* Sends the messages in call->out; then OK, unless it is watching. */
void rn_grpc_answer(struct rn_grpc_call *call);
/* A watching call has more messages, or is not watching any more. */
void rn_grpc_answer_more(struct rn_grpc_call *call);
/* A status alone. The text is plain; what is not is escaped. */
void rn_grpc_fail(struct rn_grpc_call *call, enum rn_grpc_status status, const char *text);
/* An HTTP status alone: it was not gRPC. */
void rn_grpc_refuse(struct rn_grpc_call *call, const char *http_status);

/* grpc_rls.c */
const struct rn_grpc_method *rn_grpc_method(struct rn_slice path);
/* Tells a watching call that the server stops. */
void rn_grpc_end_watch(struct rn_grpc_call *call);

#endif
