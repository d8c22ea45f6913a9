/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to the gRPC port: a connection, the calls on it, and their answers.
 *
 *   connection.c  the connection: HTTP/2 in and out
 *   deadlines.c   slow calls; the age and the end of a connection
 *   headers.c     the headers of a call
 *   calls.c       the memory of calls
 *   frames.c      messages and statuses as frames
 *   methods.c     what the methods do; knows no frames
 */
#ifndef RN_FRONT_GRPC_INTERNAL_H
#define RN_FRONT_GRPC_INTERNAL_H

#include <nghttp2/nghttp2.h>

#include "front/await/entrusted.h"
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

/* What to give back if the call of a delayed reply is cancelled. */
struct rn_grpc_delayed {
    struct ration *limiter;
    struct ration_descriptors_outcome outcome;
};

/* One stream. Its memory comes from the spare calls of the loop and goes back there. */
struct rn_grpc_call {
    struct rn_timer timer; /* of a delayed reply */
    struct rn_grpc_call *next, **link;
    struct rn_grpc_conn *on;
    int32_t id;
    const struct rn_grpc_method *method; /* NULL: none has this path */
    size_t head_bytes;
    bool post, typed;   /* POST; a content type of gRPC */
    bool bad_timeout;   /* the grpc-timeout cannot be read */
    bool complete;      /* the request has ended */
    bool answered;      /* or refused */
    bool watching;      /* more messages may follow */
    bool in_line;       /* waits for its turn */
    bool deciding;      /* on a fiber, or waits for one */
    bool cancelled;     /* and its stream has ended meanwhile */
    int64_t begun_ns;   /* of the loop's time, as is */
    int64_t timeout_ns; /* after that; 0: none */
    int64_t asked_ns;   /* when it was complete, if it may have to wait, or had its turn */
    int64_t most_ns;   /* how long it may wait, from when it was first decided; 0: it was not yet */
    struct rn_buf in;  /* what has come of the message, with its prefix */
    struct rn_buf out; /* messages with their prefixes, */
    size_t sent;       /* and how much of it has been packed into frames */
    struct rn_grpc_delayed *delayed;
    struct rn_entrusted seat; /* in line */
};

enum rn_grpc_phase {
    RN_GRPC_OPEN,
    RN_GRPC_LEAVING, /* the peer has been asked not to begin calls */
    RN_GRPC_GONE,    /* calls that it begins are ignored */
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
    size_t reported; /* and how many were reported to net */
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

/* connection.c: moves frames that wait to the connection. Answers outside of `received` must
 * call it. */
void rn_grpc_flush(struct rn_grpc_conn *c);
/* Counts the calls that were answered since `began_ns`. */
void rn_grpc_count_answered(struct rn_grpc_conn *c, int64_t began_ns);

/* deadlines.c: a connection begins; */
void rn_grpc_start_timer(struct rn_grpc_conn *c);
/* there are calls with deadlines; */
void rn_grpc_set_slow(struct rn_grpc_conn *c);
/* a deadline may have changed. */
void rn_grpc_set_timer(struct rn_grpc_conn *c);
/* Begins the next phase. */
void rn_grpc_leave(struct rn_grpc_conn *c);

/* headers.c: reads one header of a call. False: there are too many. */
bool rn_grpc_read_header(struct rn_grpc_call *call, struct rn_slice name, struct rn_slice value);

/* calls.c: NULL: out of memory. */
struct rn_grpc_call *rn_grpc_call_new(struct rn_grpc_conn *c, int32_t id);
/* Gives back the charges of a delayed reply, and leaves the line. A call that is being decided is
 * freed after that. */
void rn_grpc_call_free(struct rn_grpc_call *call);
/* Frees a call whose connection has ended. */
void rn_grpc_call_discard(struct rn_grpc_call *call);
/* Frees the spare calls. */
void rn_grpc_free_spares(struct rn_front_loop *loop);

/* frames.c. Nothing is sent before rn_grpc_flush. */

/* Begin and end a message in call->out. */
size_t rn_grpc_message_begin(struct rn_grpc_call *call);
void rn_grpc_message_end(struct rn_grpc_call *call, size_t at);
/* Sends the messages in call->out; then OK, unless it is watching. */
void rn_grpc_answer(struct rn_grpc_call *call);
/* A watching call has more messages, or is not watching any more. */
void rn_grpc_answer_more(struct rn_grpc_call *call);
/* Answers with a status only. Escapes what is not plain in the text. */
void rn_grpc_fail(struct rn_grpc_call *call, enum rn_grpc_status status, const char *text);
/* Answers with an HTTP status only: the request was not gRPC. */
void rn_grpc_refuse(struct rn_grpc_call *call, const char *http_status);

/* methods.c; NULL: there is none of this path. */
const struct rn_grpc_method *rn_grpc_method(struct rn_slice path);
/* Ends a watching call: the server stops. */
void rn_grpc_end_watch(struct rn_grpc_call *call);

#endif
