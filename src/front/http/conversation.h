/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP, for the HTTP port and the admin port: a request, its route and its answer.
 */
#ifndef RN_FRONT_HTTP_CONVERSATION_H
#define RN_FRONT_HTTP_CONVERSATION_H

#include "front/await/held_request.h"
#include "front/decision.h"
#include "front/front.h"

/* A request that is being answered. */
struct rn_http_context {
    struct rn_front *front;
    const struct rn_http_port *port;
    struct rn_front_workspace *ws;
    struct rn_conn *conn;
    struct rn_http_request *request;
    struct rn_buf *out;
    struct rn_slice rest;         /* of the path, after the route's */
    const struct rn_token *token; /* that came with the request; NULL: none was needed */
    enum rn_http_connection keep_alive;
    bool head;
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
    const char *path; /* one that ends in / matches all paths that begin with it */
    void (*answer)(struct rn_http_context *c);
};

struct rn_http_port {
    enum rn_front_protocol protocol; /* for counters */
    const struct rn_route *routes;
    size_t route_count;
    size_t body_max;
    /* Whether this caller may use the port; false after answering. */
    bool (*admit)(struct rn_http_context *c);
};

/* The state of a connection that speaks HTTP. */
struct rn_http_state {
    const struct rn_http_port *port;
    struct rn_http_parser parser;
    struct rn_delayed_reply *delayed;
    struct rn_held_request *held;  /* in line */
    struct rn_live_stream *stream; /* an answer that goes on */
    struct rn_token_shown shown;
};

/* For rn_protocol. `opened` of a port must set the state's port. */
size_t rn_front_http_received(struct rn_conn *conn, char *data, size_t len);
void rn_front_http_closing(struct rn_conn *conn, enum rn_conn_close_reason why);
void rn_front_http_closed(struct rn_conn *conn);

/* --- answers ------------------------------------------------------------------------------ */

void rn_front_http_text(struct rn_http_context *c, unsigned status, struct rn_slice body);
void rn_front_http_json(struct rn_http_context *c, unsigned status, struct rn_slice body);
/* {"error":name,"message":...} */
void rn_front_http_error(struct rn_http_context *c, unsigned status, const char *name,
                         const char *format, ...) __attribute__((format(printf, 4, 5)));
/* The same with a header, unless that is NULL. */
void rn_front_http_error_with(struct rn_http_context *c, unsigned status, const char *name,
                              const char *text, const char *header, struct rn_slice value);

/* Begins to read the body as a JSON object. False after answering 400. */
bool rn_front_http_read_object(struct rn_http_context *c, struct rn_json *json);
/* Reads all of it into ws->params. */
bool rn_front_http_read_params(struct rn_http_context *c, unsigned allowed);

/* --- the HTTP port ------------------------------------------------------------------------- */

/* decide.c: decides on ws->params and answers, now or later. The connection's part of `format`
 * is set here. */
void rn_front_http_decide(struct rn_http_context *c, enum rn_verb verb,
                          struct rn_decision_format format);
/* Answers that there is no decision: with 400 if the request is wrong, else with `status`. */
void rn_front_http_fail(struct rn_http_context *c, int code, unsigned status,
                        const struct ration_error *error);

/* forward_auth.c */
void rn_front_http_auth(struct rn_http_context *c);

/* pause.c */
void rn_front_http_pause(struct rn_http_context *c);
void rn_front_http_get_pause(struct rn_http_context *c);
void rn_front_http_lift_pause(struct rn_http_context *c);

/* limits.c: for every caller, and if the operator has asked for it. */
void rn_front_http_limits(struct rn_http_context *c);
void rn_front_http_public_limits(struct rn_http_context *c);

/* tickets.c */
void rn_front_http_reserve(struct rn_http_context *c);
void rn_front_http_commit(struct rn_http_context *c);
void rn_front_http_refund(struct rn_http_context *c);
void rn_front_http_acquire(struct rn_http_context *c);
void rn_front_http_renew(struct rn_http_context *c);
void rn_front_http_release(struct rn_http_context *c);
void rn_front_http_charge(struct rn_http_context *c);
void rn_front_http_charge_by_headers(struct rn_http_context *c);
void rn_front_http_outcome(struct rn_http_context *c);

#endif
