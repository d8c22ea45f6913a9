/* SPDX-License-Identifier: Apache-2.0 */
#include "front/http/conversation.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "wire/answer.h"

#define JSON_TYPE "application/json"

/* --- answers ---------------------------------------------------------------------------- */

void rn_front_http_json(struct rn_http_context *c, unsigned status, struct rn_slice body)
{
    rn_http_put_status(c->out, status);
    rn_http_put_body(c->out, c->keep_alive, c->head, JSON_TYPE, body);
}

void rn_front_http_error(struct rn_http_context *c, unsigned status, const char *name,
                         const char *format, ...)
{
    struct rn_buf *body = &c->ws->scratch;
    char text[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    rn_buf_clear(body);
    rn_buf_putf(body, "{\"error\":\"%s\",\"message\":", name);
    rn_json_put_string(body, rn_slice_of(text));
    rn_buf_put_literal(body, "}\n");
    rn_front_count(&c->ws->counts->bad[c->port->protocol], 1);
    rn_front_http_json(c, status, rn_buf_slice(body));
}

/* --- decisions ---------------------------------------------------------------------------- */

static unsigned status_of(const struct ration_outcome *out, const struct rn_decision_format *how)
{
    if (out->decision.allowed)
        return 200;
    return how->deny_status ? how->deny_status : out->status;
}

/* In an answer without a body a header has the ticket, so that a proxy can pass it on. */
static void put_charge(struct rn_buf *out, const struct rn_answer_extra *extra)
{
    if (!extra->charge.data)
        return;
    rn_buf_put_literal(out, "X-Ration-Charge: ");
    rn_buf_put_slice(out, extra->charge);
    rn_buf_put_literal(out, "\r\n");
}

static void put_mark(struct rn_buf *out, const struct ration_outcome *outcome,
                     const struct rn_decision_format *how)
{
    if (outcome->decision.allowed || how->deny_status == 0)
        return;
    rn_buf_put_literal(out, "X-Ration-Status: ");
    rn_buf_put_u64(out, outcome->status);
    rn_buf_put_literal(out, "\r\n");
}

static void write_answer(struct rn_front *front, struct rn_front_workspace *ws, struct rn_buf *out,
                         const struct rn_decision *d, int64_t held_ns,
                         const struct rn_decision_format *how)
{
    int64_t now_ns = held_ns > 0 ? RATION_NOW : d->at_ns;
    struct rn_answer_extra extra = {
        .wall_ns = ration_wall(front->limiter, now_ns), .held_ns = held_ns, .ad_hoc = d->by_limit};
    bool allowed = d->outcome.decision.allowed;
    struct rn_buf *body = &ws->scratch;

    if (d->ticket[0])
        extra.lease = rn_slice_of(d->ticket);
    if (d->due[0])
        extra.charge = rn_slice_of(d->due);
    rn_buf_clear(body);
    if (!how->empty || !allowed) {
        rn_answer_put_body(body, &d->outcome, &extra, how->problem);
        rn_buf_put_char(body, '\n');
    }
    rn_http_put_status(out, status_of(&d->outcome, how));
    rn_answer_put_headers(out, &d->outcome, &extra);
    put_mark(out, &d->outcome, how);
    if (how->empty)
        put_charge(out, &extra);
    rn_http_put_body(out, how->keep_alive, how->head,
                     how->problem && !allowed ? "application/problem+json" : "application/json",
                     rn_buf_slice(body));
}

/* A delayed reply, when its time has come. */
static void write_held(struct rn_delayed_reply *held)
{
    struct rn_front *front = rn_conn_context(held->conn);
    struct rn_front_workspace *ws = &rn_front_loop(front, held->conn)->ws;

    if (rn_conn_draining(held->conn) && !rn_conn_has_input(held->conn))
        held->telling.keep_alive = RN_HTTP_CLOSE;
    write_answer(front, ws, rn_conn_out(held->conn), &held->decided, held->hold_ns, &held->telling);
    if (!held->telling.keep_alive)
        rn_conn_close(held->conn);
}

void rn_front_http_put_decision(struct rn_http_context *c, struct rn_decision *decided,
                                int64_t hold_ns, struct rn_decision_format *how)
{
    struct rn_http_state *state = rn_conn_state(c->conn);

    how->keep_alive = c->keep_alive;
    how->head = c->head;
    if (hold_ns > 0 &&
        rn_delayed_reply_start(&state->held, c->conn, decided, hold_ns, how, write_held)) {
        c->keep_alive = RN_HTTP_KEEP; /* closed by write_held if at all */
        rn_front_count(&c->ws->counts->held, 1);
        return;
    }
    write_answer(c->front, c->ws, c->out, decided, 0, how);
}

/* --- bodies ----------------------------------------------------------------------------- */

static bool refuse_json(struct rn_http_context *c, const struct rn_json *json)
{
    rn_front_http_error(c, 400, "bad_request", "%s", json->error.text);
    return false;
}

bool rn_front_http_read_object(struct rn_http_context *c, struct rn_json *json)
{
    struct rn_slice body = c->request->body;

    if (body.len == 0) {
        rn_front_http_error(c, 400, "bad_request", "the body is empty; send a JSON object");
        return false;
    }
    rn_json_init(json, (char *)body.data, body.len); /* the buffer is ours to change */
    struct rn_json_token token;
    enum rn_json_kind kind = rn_json_read(json, &token);

    if (kind != RN_JSON_OBJECT && kind != RN_JSON_BAD)
        rn_json_object_to(json, token.at, "the body must be a JSON object");
    return kind == RN_JSON_OBJECT || refuse_json(c, json);
}

bool rn_front_http_read_params(struct rn_http_context *c, unsigned members)
{
    struct rn_params *params = &c->ws->params;
    struct rn_json_token token;
    struct ration_error error;
    struct rn_json json;

    rn_params_init(params);
    if (!rn_front_http_read_object(c, &json))
        return false;
    if (rn_params_read(params, &json, members) != 0 || rn_json_read(&json, &token) != RN_JSON_END)
        return refuse_json(c, &json);
    if (rn_params_check(params, &error) == 0)
        return true;
    rn_front_http_error(c, 400, "bad_request", "%s", error.text);
    return false;
}

/* --- routes ------------------------------------------------------------------------------ */

static unsigned method_of(struct rn_slice name)
{
    if (rn_slice_is(name, "POST"))
        return RN_POST;
    if (rn_slice_is(name, "GET") || rn_slice_is(name, "HEAD"))
        return RN_GET;
    if (rn_slice_is(name, "PUT"))
        return RN_PUT;
    return rn_slice_is(name, "DELETE") ? RN_DELETE : 0;
}

static bool leads_to(const struct rn_route *route, struct rn_slice path, struct rn_slice *rest)
{
    struct rn_slice prefix = rn_slice_of(route->path);

    *rest = (struct rn_slice){path.data + path.len, 0};
    if (prefix.data[prefix.len - 1] != '/' || prefix.len == 1)
        return rn_slice_equal(path, prefix);
    if (!rn_slice_starts_with(path, prefix))
        return false;
    *rest = (struct rn_slice){path.data + prefix.len - 1, path.len - prefix.len + 1};
    return true;
}

static void refuse_method(struct rn_http_context *c, unsigned allowed)
{
    static const struct {
        unsigned method;
        const char *name;
    } names[] = {{RN_GET, "GET, HEAD"}, {RN_POST, "POST"}, {RN_PUT, "PUT"}, {RN_DELETE, "DELETE"}};
    struct rn_buf *body = &c->ws->scratch;
    char list[64] = "";
    size_t len = 0;

    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (allowed & names[i].method)
            len += (size_t)snprintf(list + len, sizeof list - len, "%s%s", len ? ", " : "",
                                    names[i].name);
    rn_buf_clear(body);
    rn_buf_putf(body, "{\"error\":\"method_not_allowed\",\"message\":\"use %s\"}\n", list);
    rn_front_count(&c->ws->counts->bad[c->port->protocol], 1);
    rn_http_put_status(c->out, 405);
    rn_http_put_header(c->out, "Allow", rn_slice_of(list));
    rn_http_put_body(c->out, c->keep_alive, c->head, JSON_TYPE, rn_buf_slice(body));
}

static void refuse_path(struct rn_http_context *c)
{
    const struct rn_http_port *port = c->port;
    char list[512] = "";
    size_t len = 0;

    for (size_t i = 0; i < port->route_count; i++)
        if (len < sizeof list && (i == 0 || strcmp(port->routes[i].path, port->routes[i - 1].path)))
            len += (size_t)snprintf(list + len, sizeof list - len, " %s", port->routes[i].path);
    rn_front_http_error(c, 404, "not_found", "nothing is here; there are:%s", list);
}

static void route(struct rn_http_context *c)
{
    const struct rn_http_port *port = c->port;
    unsigned method = method_of(c->request->method), allowed = 0;

    for (size_t i = 0; i < port->route_count; i++) {
        const struct rn_route *route = &port->routes[i];

        if (!leads_to(route, c->request->path, &c->rest))
            continue;
        if (route->methods & (method | RN_ANY)) {
            route->answer(c);
            return;
        }
        allowed |= route->methods;
    }
    if (allowed)
        refuse_method(c, allowed);
    else
        refuse_path(c);
}

/* --- the conversation ---------------------------------------------------------------------- */

static void answer_request(struct rn_http_context *c)
{
    const struct rn_http_request *request = c->request;

    c->keep_alive = request->keep_alive;
    if (rn_conn_draining(c->conn) && !c->more && !rn_conn_has_input(c->conn))
        c->keep_alive = RN_HTTP_CLOSE;
    c->head = rn_slice_is(request->method, "HEAD");
    rn_await_set_deadline(c->front, c->conn);
    if (!c->port->admit || c->port->admit(c))
        route(c);
    rn_front_count(&c->ws->counts->requests[c->port->protocol], 1);
    if (!c->keep_alive)
        rn_conn_close(c->conn);
}

static void answer_bad(struct rn_http_context *c, const struct rn_http_error *error)
{
    c->keep_alive = RN_HTTP_CLOSE;
    c->head = false;
    rn_front_http_error(c, error->status, "bad_request", "%s", error->text);
    rn_conn_close(c->conn);
}

/* Answers one request of `len` bytes. Returns how long it was; 0: it is not complete. */
static size_t answer_one(struct rn_http_context *c, char *data, size_t len)
{
    struct rn_http_state *state = rn_conn_state(c->conn);
    struct rn_http_limits limits = {.body_max = c->port->body_max};
    struct rn_http_error error;

    switch (rn_http_parse(&state->parser, &limits, data, len, &c->ws->body, c->request, &error)) {
    case RN_PARSE_DONE:
        c->more = c->request->bytes < len;
        answer_request(c);
        return c->request->bytes;
    case RN_PARSE_MORE:
        if (state->parser.expects)
            rn_http_put_continue(c->out);
        state->parser.expects = false;
        return 0;
    case RN_PARSE_BAD:
        answer_bad(c, &error);
        return 0; /* unread, so that net lets the peer finish, and hear why */
    }
    return 0;
}

size_t rn_front_http_run(struct rn_conversation *talker, char *data, size_t len,
                         const struct rn_http_port *port)
{
    struct rn_conn *conn = talker->conn;
    struct rn_front_counts *counts = talker->ws->counts;
    struct rn_http_state *state = rn_conn_state(conn);
    struct rn_http_context c = {.front = rn_conn_context(conn),
                                .port = port,
                                .ws = talker->ws,
                                .conn = conn,
                                .request = &talker->ws->request,
                                .out = talker->out,
                                .keep_alive = RN_HTTP_KEEP};
    int64_t began_ns = rn_clock_read_ns(CLOCK_MONOTONIC);
    uint64_t before = counts->requests[port->protocol];
    size_t done = 0, bytes = 1;

    while (done < len && bytes != 0 && c.keep_alive && !state->held && !rn_conn_is_full(conn)) {
        bytes = answer_one(&c, data + done, len - done);
        done += bytes;
    }
    talker->holds = state->held != NULL;
    rn_metrics_histogram_add_many(&counts->latency[port->protocol],
                                  rn_clock_read_ns(CLOCK_MONOTONIC) - began_ns,
                                  counts->requests[port->protocol] - before);
    return done;
}

void rn_front_http_limited(struct rn_conn *conn, enum rn_conn_limit why,
                           const struct rn_http_port *port)
{
    struct rn_front *front = rn_conn_context(conn);
    struct rn_http_context c = {.front = front,
                                .port = port,
                                .ws = &rn_front_loop(front, conn)->ws,
                                .conn = conn,
                                .out = rn_conn_out(conn)};

    if (why == RN_CONN_TOO_SLOW)
        rn_front_http_error(&c, 408, "timeout", "the request took too long to arrive");
    else if (why == RN_CONN_TOO_LONG)
        rn_front_http_error(&c, 413, "too_large", "the request is too large");
    else if (why == RN_CONN_SWAMPED)
        rn_front_http_error(&c, 503, "busy",
                            "too many requests are arriving that are not complete; send it again");
}

void rn_front_http_closed(struct rn_conn *conn)
{
    struct rn_http_state *state = rn_conn_state(conn);

    rn_delayed_reply_drop(state->held);
    state->held = NULL;
}
