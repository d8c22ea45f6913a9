/* SPDX-License-Identifier: Apache-2.0 */
#include "front/http/conversation.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/clock.h"
#include "front/admin/live.h"

/* --- answers ---------------------------------------------------------------------------- */

void rn_front_http_text(struct rn_http_context *c, unsigned status, struct rn_slice body)
{
    rn_http_put_status(c->out, status);
    rn_http_put_body(c->out, c->keep_alive, c->head, "text/plain", body);
}

void rn_front_http_json(struct rn_http_context *c, unsigned status, struct rn_slice body)
{
    rn_http_put_status(c->out, status);
    rn_http_put_body(c->out, c->keep_alive, c->head, "application/json", body);
}

void rn_front_http_error_with(struct rn_http_context *c, unsigned status, const char *name,
                              const char *text, const char *header, struct rn_slice value)
{
    struct rn_buf *body = &c->ws->scratch;

    rn_buf_clear(body);
    rn_buf_putf(body, "{\"error\":\"%s\",\"message\":", name);
    rn_json_put_string(body, rn_slice_of(text));
    rn_buf_put_literal(body, "}\n");
    rn_front_count(&c->ws->counts->bad[c->port->protocol], 1);
    rn_http_put_status(c->out, status);
    if (header)
        rn_http_put_header(c->out, header, value);
    rn_http_put_body(c->out, c->keep_alive, c->head, "application/json", rn_buf_slice(body));
}

void rn_front_http_error(struct rn_http_context *c, unsigned status, const char *name,
                         const char *format, ...)
{
    char text[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    rn_front_http_error_with(c, status, name, text, NULL, (struct rn_slice){0});
}

/* --- bodies ----------------------------------------------------------------------------- */

bool rn_front_http_read_object(struct rn_http_context *c, struct rn_json *json)
{
    struct rn_slice body = c->request->body;
    struct rn_json_token token;

    if (body.len == 0) {
        rn_front_http_error(c, 400, "bad_request", "the body is empty; send a JSON object");
        return false;
    }
    rn_json_init(json, (char *)body.data, body.len); /* the buffer is ours to change */
    if (rn_json_read(json, &token) == RN_JSON_OBJECT)
        return true;
    if (token.kind != RN_JSON_BAD)
        rn_json_object_to(json, token.at, "the body must be a JSON object");
    rn_front_http_error(c, 400, "bad_request", "%s", json->error.text);
    return false;
}

bool rn_front_http_read_params(struct rn_http_context *c, unsigned allowed)
{
    struct rn_params *params = &c->ws->params;
    struct rn_json_token token;
    struct ration_error error;
    struct rn_json json;

    rn_params_init(params);
    if (!rn_front_http_read_object(c, &json))
        return false;
    if (rn_params_read(params, &json, allowed) != 0 || rn_json_read(&json, &token) != RN_JSON_END)
        rn_front_http_error(c, 400, "bad_request", "%s", json.error.text);
    else if (rn_params_check(params, &error) != 0)
        rn_front_http_error(c, 400, "bad_request", "%s", error.text);
    else
        return true;
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

/* 405 if other methods are allowed on this path, else 404. */
static void refuse_route(struct rn_http_context *c, unsigned allowed)
{
    static const struct {
        unsigned method;
        const char *name;
    } names[] = {{RN_GET, "GET, HEAD"}, {RN_POST, "POST"}, {RN_PUT, "PUT"}, {RN_DELETE, "DELETE"}};
    const struct rn_http_port *port = c->port;
    char list[900] = "", text[sizeof list + 4];
    size_t len = 0;

    if (!allowed) {
        for (size_t i = 0; i < port->route_count && len < sizeof list; i++)
            if (i == 0 || strcmp(port->routes[i].path, port->routes[i - 1].path) != 0)
                len += (size_t)snprintf(list + len, sizeof list - len, " %s", port->routes[i].path);
        rn_front_http_error(c, 404, "not_found", "no such path; there are:%s", list);
        return;
    }
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (allowed & names[i].method)
            len += (size_t)snprintf(list + len, sizeof list - len, "%s%s", len ? ", " : "",
                                    names[i].name);
    snprintf(text, sizeof text, "use %s", list);
    rn_front_http_error_with(c, 405, "method_not_allowed", text, "Allow", rn_slice_of(list));
}

static void route(struct rn_http_context *c)
{
    const struct rn_route *route = c->port->routes, *end = route + c->port->route_count;
    unsigned method = method_of(c->request->method), allowed = 0;

    for (; route < end; route++) {
        if (!leads_to(route, c->request->path, &c->rest))
            continue;
        if (route->methods & (method | RN_ANY)) {
            route->answer(c);
            return;
        }
        allowed |= route->methods;
    }
    refuse_route(c, allowed);
}

/* --- the conversation ---------------------------------------------------------------------- */

/* Proxies such as Envoy take 5xx as our failure and may let the request pass. So a request of
 * theirs must not bring one about: forward-auth, or a target without a path, as of CONNECT. `data`
 * has the bytes of the bad request. */
static unsigned status_of_bad(const struct rn_http_error *error, const char *data, size_t len)
{
    const char *space = memchr(data, ' ', len);
    struct rn_slice target = {space, space ? len - (size_t)(space - data) : 0};
    bool elsewhere = rn_slice_starts_with(target, RN_SLICE(" /")) &&
                     !rn_slice_starts_with(target, RN_SLICE(" /v1/auth"));

    return error->status >= 500 && !elsewhere ? 400 : error->status;
}

/* Answers one request of the `len` bytes. Returns its length; 0: it is not complete. */
static size_t answer_next(struct rn_http_context *c, char *data, size_t len)
{
    struct rn_http_state *state = rn_conn_state(c->conn);
    struct rn_http_limits limits = {.body_max = c->port->body_max};
    struct rn_http_request *request = c->request;
    struct rn_http_error error;

    switch (rn_http_parse(&state->parser, &limits, data, len, &c->ws->body, request, &error)) {
    case RN_PARSE_MORE:
        if (state->parser.expects)
            rn_http_put_continue(c->out);
        state->parser.expects = false;
        return 0;
    case RN_PARSE_BAD:
        c->keep_alive = RN_HTTP_CLOSE;
        c->head = false;
        rn_front_http_error(c, status_of_bad(&error, data, len), "bad_request", "%s", error.text);
        rn_conn_close(c->conn);
        return 0; /* unread, so that net lets the peer finish and read why */
    case RN_PARSE_DONE:
        break;
    }
    c->keep_alive = request->keep_alive;
    if (rn_conn_draining(c->conn) && request->bytes == len && !rn_conn_has_input(c->conn))
        c->keep_alive = RN_HTTP_CLOSE;
    c->token = NULL;
    c->head = rn_slice_is(request->method, "HEAD");
    rn_front_set_deadline(c->front, c->conn);
    if (c->port->admit(c))
        route(c);
    rn_front_count(&c->ws->counts->requests[c->port->protocol], 1);
    if (!c->keep_alive)
        rn_conn_close(c->conn);
    return request->bytes;
}

/* Requests behind one that waits wait with it. */
static bool is_held(const struct rn_http_state *state)
{
    return state->delayed || state->held || state->stream;
}

static size_t run(struct rn_conversation *conversation, char *data, size_t len)
{
    struct rn_conn *conn = conversation->conn;
    struct rn_front_counts *counts = conversation->ws->counts;
    struct rn_http_state *state = rn_conn_state(conn);
    struct rn_http_context c = {.front = rn_conn_context(conn),
                                .port = state->port,
                                .ws = conversation->ws,
                                .conn = conn,
                                .request = &conversation->ws->request,
                                .out = conversation->out,
                                .keep_alive = RN_HTTP_KEEP};
    int64_t began_ns = rn_clock_read_ns(CLOCK_MONOTONIC);
    uint64_t before = counts->requests[c.port->protocol];
    size_t done = 0, bytes = 1;

    while (done < len && bytes != 0 && c.keep_alive && !is_held(state) && !rn_conn_is_full(conn)) {
        bytes = answer_next(&c, data + done, len - done);
        done += bytes;
    }
    conversation->paused = is_held(state);
    rn_metrics_histogram_add_many(&counts->latency[c.port->protocol],
                                  rn_clock_read_ns(CLOCK_MONOTONIC) - began_ns,
                                  counts->requests[c.port->protocol] - before);
    return done;
}

size_t rn_front_http_received(struct rn_conn *conn, char *data, size_t len)
{
    const struct rn_front *front = rn_conn_context(conn);

    if (front->patience_ns > 0)
        return rn_await_run(conn, NULL, run, data, len);
    return run(&(struct rn_conversation){.conn = conn,
                                         .ws = &rn_front_loop(front, conn)->ws,
                                         .out = rn_conn_out(conn)},
               data, len);
}

void rn_front_http_closing(struct rn_conn *conn, enum rn_conn_close_reason why)
{
    struct rn_front *front = rn_conn_context(conn);
    const struct rn_http_state *state = rn_conn_state(conn);
    struct rn_http_context c = {.front = front,
                                .port = state->port,
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

    rn_delayed_reply_drop(state->delayed);
    rn_held_request_drop(state->held);
    rn_live_drop(state->stream);
    state->delayed = NULL;
    state->held = NULL;
    state->stream = NULL;
}
