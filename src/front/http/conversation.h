/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One HTTP request and its answer. What follows a port's routes (HTTP, admin)
 * is the same conversation: parse, find the route, answer, keep alive.
 */
#ifndef RN_FRONT_HTTP_CONVERSATION_H
#define RN_FRONT_HTTP_CONVERSATION_H

#include "front/await/delayed_reply.h"
#include "front/decision.h"
#include "front/front.h"

struct rn_http_context {
    struct rn_front *front;
    const struct rn_http_port *port;
    struct rn_front_workspace *ws;
    struct rn_conn *conn;
    struct rn_http_request *request;
    struct rn_buf *out;
    struct rn_slice rest;         /* of the path, behind the route's */
    const struct rn_token *token; /* that came with the request; NULL: none was needed */
    enum rn_http_connection keep_alive;
    bool head;
    bool more; /* has been received than this request */
};

enum rn_method {
    RN_GET = 1, /* and HEAD */
    RN_POST = 2,
    RN_PUT = 4,
    RN_DELETE = 8,
    RN_ANY = 16,
};

struct rn_route {
    unsigned methods;
    const char
        *path; /* one that ends in / matches all that begins with it; `rest` is what follows */
    void (*answer)(struct rn_http_context *c);
};

/* What a port offers. */
struct rn_http_port {
    enum rn_front_protocol protocol; /* whose counters count */
    const struct rn_route *routes;
    size_t route_count;
    size_t body_max;
    /* Whether this caller may have an answer at all; else it has answered. NULL: everyone may. */
    bool (*admit)(struct rn_http_context *c);
};

/* The state of a connection that speaks HTTP. */
struct rn_http_state {
    struct rn_http_parser parser;
    struct rn_delayed_reply *held;
    struct rn_token_shown shown;
};

/* For rn_await_run; and for rn_protocol: limited, closed. */
size_t rn_front_http_run(struct rn_conversation *talker, char *data, size_t len,
                         const struct rn_http_port *port);
void rn_front_http_limited(struct rn_conn *conn, enum rn_conn_limit why,
                           const struct rn_http_port *port);
void rn_front_http_closed(struct rn_conn *conn);

/* --- answers ------------------------------------------------------------------------------ */

void rn_front_http_json(struct rn_http_context *c, unsigned status, struct rn_slice body);
/* {"error":name,"message":...} */
void rn_front_http_error(struct rn_http_context *c, unsigned status, const char *name,
                         const char *format, ...) __attribute__((format(printf, 4, 5)));

/* The body as one JSON object, whose members are up to the caller. False after
 * answering 400. */
bool rn_front_http_read_object(struct rn_http_context *c, struct rn_json *json);
/* The same, read into ws->params, nothing behind it. */
bool rn_front_http_read_params(struct rn_http_context *c, unsigned members);

/* Answers a decision now, or when `hold_ns` have passed. The connection's part of
 * `how` is filled in here. */
void rn_front_http_put_decision(struct rn_http_context *c, struct rn_decision *decided,
                                int64_t hold_ns, struct rn_decision_format *how);

#endif
