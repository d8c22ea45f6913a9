/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request that waits in line (ration/wait.h), and is decided again when its turn has come. No
 * thread and no fiber waits, and nothing is charged meanwhile. What is kept of the request is its
 * parameters: rules may be replaced while it waits, and any of them may count.
 *
 * Memory of a request in line: this struct, 584 bytes with the waiter of the limiter, and the texts
 * of its parameters with 4 bytes for each attribute, RN_HELD_TEXT_MAX at most. A request that is
 * larger is refused at once, where another one would wait.
 */
#ifndef RN_FRONT_AWAIT_HELD_REQUEST_H
#define RN_FRONT_AWAIT_HELD_REQUEST_H

#include "front/await/delayed_reply.h"
#include "front/await/entrusted.h"

#define RN_HELD_TEXT_MAX ((size_t)16 << 10)

struct rn_front_loop;
struct rn_front_workspace;
struct rn_held_request;

/* What a protocol does. */
struct rn_held_calls {
    /* Writes the answer to held->out, or delays it: rn_decision_make has returned `code`, with
     * ws->decision or `error`. On a fiber, if there is a shared store. */
    void (*answer)(struct rn_held_request *held, struct rn_front_workspace *ws, int code,
                   const struct ration_error *error);
    /* The request waits no more: sends held->out and lets the connection go on. On the loop's
     * stack. held->gone: there is no answer, as the peer has closed. `held` is freed afterwards. */
    void (*ended)(struct rn_held_request *held);
};

struct rn_held_request {
    struct rn_entrusted in_line; /* first */
    const struct rn_held_calls *calls;
    struct rn_conn *conn;                 /* NULL: it has ended */
    struct rn_queued_reply *reply;        /* RESP: that it completes */
    struct rn_held_request *next, **link; /* of spare ones, or of those of a connection */
    uint64_t id;                          /* RESP: of LINE */
    struct rn_buf out;
    enum rn_verb verb;
    bool deciding; /* its turn has come, */
    bool again;    /* and it must wait on */
    bool gone;
    int64_t since_ns; /* on the limiter's clock */
    int64_t rest_ns;  /* how long it may stay in line, from then on, at most */
    struct rn_decision_format format;

    /* The parameters; see keep() in held_request.c. */
    struct ration_limit limit;
    uint64_t cost;
    int64_t max_wait_ns, for_ns;
    enum rn_wait wait;
    bool by_limit, keep_places, line;
    uint32_t attribute_count;
    size_t key_len;
    char *text;
};

/* As rn_decision_make, on ws->params into ws->decision, but a request that may wait in line joins
 * it: then RATION_EWAITS, and *held is its place, which must be given to rn_held_request_start. */
int rn_held_request_decide(struct rn_conn *conn, struct rn_front_workspace *ws, enum rn_verb verb,
                           struct rn_held_request **held, struct ration_error *error);

/* Keeps what the request needs; held->format is set. The caller sets the protocol's fields and,
 * unless the connection may go on, pauses it. False: out of memory; it has left the line, and
 * *error says so. */
bool rn_held_request_start(struct rn_held_request *held, struct rn_conn *conn,
                           const struct rn_params *params, const struct rn_held_calls *calls,
                           struct ration_error *error);

/* Whether its turn has come, and the answer is on its way. */
bool rn_held_request_has_turn(const struct rn_held_request *held);

/* The connection has ended, or the request is given up: leaves the line, uncharged. NULL is fine.
 */
void rn_held_request_drop(struct rn_held_request *held);

/* Frees those that no request uses. */
void rn_held_request_free_spares(struct rn_front_loop *loop);

#endif
