/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HTTP port: /v1/check, /v1/throttle, /json and the table of routes. Forward-auth is in
 * forward_auth.c; reservations, leases and outcomes are in tickets.c.
 */
#include <stdio.h>
#include <stdlib.h>

#include "front/admin/admin_internal.h"
#include "front/http/static_documents.h"
#include "wire/answer.h"

#define BODY_MAX (1024 * 1024)
#define BATCH_MAX 1000

/* --- batches ----------------------------------------------------------------------------- */

/* Whether the body is {"checks": ...}, by its first name alone. */
static bool is_batch(struct rn_slice body)
{
    while (body.len > 0 && (body.data[0] == '{' || body.data[0] == ' ' || body.data[0] == '\n' ||
                            body.data[0] == '\r' || body.data[0] == '\t'))
        body.data++, body.len--;
    return rn_slice_starts_with(body, RN_SLICE("\"checks\""));
}

static void decide_item(struct rn_http_context *c, struct rn_buf *out,
                        struct rn_answer_extra *extra)
{
    struct rn_decision *decision = &c->ws->decision;
    struct ration_error error;

    if (rn_decision_make(c->front->limiter, &c->ws->params, RN_CHECK, NULL, decision, &error) !=
        0) {
        rn_buf_put_literal(out, "{\"error\":");
        rn_json_put_string(out, rn_slice_of(error.text));
        rn_buf_put_char(out, '}');
        return;
    }
    extra->charge = (struct rn_slice){decision->charge_ticket[0] ? decision->charge_ticket : NULL,
                                      strlen(decision->charge_ticket)};
    rn_answer_put_json(out, &decision->outcome, extra);
}

/* Reads the body, and decides each check if `out` is not NULL. False: see json->error. */
static bool read_batch(struct rn_http_context *c, struct rn_json *json, struct rn_buf *out,
                       bool *credits)
{
    struct rn_answer_extra extra = {
        .wall_ns = ration_wall(c->front->limiter, ration_now(c->front->limiter))};
    struct ration_error error;
    struct rn_json_token token;
    unsigned count = 0;

    rn_json_next(json);         /* { */
    token = rn_json_next(json); /* "checks" */
    if (token.kind != RN_JSON_ARRAY)
        return rn_json_object_to(json, token.at, "\"checks\" must be a list of checks"), false;
    while ((token = rn_json_next(json)).kind == RN_JSON_OBJECT) {
        if (++count > BATCH_MAX)
            return rn_json_object_to(json, token.at, "more than %d checks", BATCH_MAX), false;
        rn_params_init(&c->ws->params);
        if (rn_params_read(&c->ws->params, json,
                           RN_PARAM_ATTRIBUTES | RN_PARAM_CREDIT | RN_PARAM_PEEK | RN_PARAM_DRAIN |
                               RN_PARAM_KEYED) != 0)
            return false;
        if (rn_params_check(&c->ws->params, &error) != 0)
            return rn_json_object_to(json, token.at, "%s", error.text), false;
        *credits |= c->ws->params.credit;
        if (out && count > 1)
            rn_buf_put_char(out, ',');
        if (out)
            decide_item(c, out, &extra);
    }
    if (token.kind != RN_JSON_END && token.kind != RN_JSON_BAD)
        rn_json_object_to(json, token.at, "a check must be an object");
    if (token.kind != RN_JSON_END || (token = rn_json_next(json)).kind == RN_JSON_BAD)
        return false;
    if (token.kind != RN_JSON_END)
        return rn_json_object_to(json, token.at, "nothing may stand beside \"checks\""), false;
    return rn_json_next(json).kind == RN_JSON_END;
}

/* Reads the body twice, so that nothing is decided unless all of it can be read. The first
 * time unescapes strings in a copy. */
static void answer_batch(struct rn_http_context *c)
{
    struct rn_buf *body = &c->ws->scratch;
    struct rn_slice text = c->request->body;
    char *copy = malloc(text.len);
    bool credits = false, good;
    struct rn_json json;

    if (!copy) {
        rn_front_http_error(c, 503, "memory", "out of memory");
        return;
    }
    memcpy(copy, text.data, text.len);
    rn_json_init(&json, copy, text.len);
    good = read_batch(c, &json, NULL, &credits);
    free(copy);
    if (!good) {
        rn_front_http_error(c, 400, "bad_request", "%s", json.error.text);
        return;
    }
    if (credits && !rn_admin_admit_change(c))
        return;
    rn_json_init(&json, (char *)text.data, text.len);
    rn_buf_clear(body);
    rn_buf_put_literal(body, "{\"results\":[");
    read_batch(c, &json, body, &credits);
    rn_buf_put_literal(body, "]}\n");
    rn_front_http_json(c, 200, rn_buf_slice(body));
}

/* --- routes ----------------------------------------------------------------------------------- */

static void answer_check(struct rn_http_context *c)
{
    if (is_batch(c->request->body))
        answer_batch(c);
    else if (rn_front_http_read_params(c, RN_PARAM_ATTRIBUTES | RN_PARAM_CREDIT | RN_PARAM_WAIT |
                                              RN_PARAM_PEEK | RN_PARAM_DRAIN))
        rn_front_http_decide(c, RN_CHECK, (struct rn_decision_format){0});
}

static void answer_throttle(struct rn_http_context *c)
{
    if (!rn_front_http_read_params(c, RN_PARAM_KEYED | RN_PARAM_CREDIT | RN_PARAM_WAIT |
                                          RN_PARAM_PEEK | RN_PARAM_DRAIN))
        return;
    if (c->ws->params.by_limit)
        rn_front_http_decide(c, RN_CHECK, (struct rn_decision_format){0});
    else
        rn_front_http_error(c, 400, "bad_request",
                            "\"key\" and \"limit\" are missing, such as {\"key\": \"alice\", "
                            "\"limit\": \"100 per minute\"}");
}

/* POST /json: Envoy's rate limit service without gRPC. A place in a queue is taken at once;
 * no reply is delayed. */
static void answer_descriptors(struct rn_http_context *c)
{
    struct rn_rls_reader *reader = &c->ws->rls;
    struct ration_descriptors_outcome *outcome = &c->ws->rls_outcome;
    struct rn_slice body = c->request->body;
    struct rn_buf *out = &c->ws->scratch;
    struct ration_error error;
    bool credits = false;
    int code = rn_rls_read_json(reader, (char *)body.data, body.len, &error);

    if (code != 0) {
        rn_front_http_error(c, 400, "bad_request", "%s", error.text);
        return;
    }
    for (size_t i = 0; i < reader->request.count; i++)
        credits |= reader->request.asks[i].refund;
    if (credits && !rn_admin_admit_change(c))
        return;
    rn_front_set_rls(c->front, reader);
    code = ration_decide_descriptors(c->front->limiter, &reader->request, RATION_NOW, outcome);
    if (code != 0) {
        snprintf(error.text, sizeof error.text, "%s",
                 code == RATION_EINVAL ? "more descriptors than can be decided"
                                       : ration_error_text(code));
        rn_front_http_fail(c, code, 500, &error);
        return;
    }
    rn_buf_clear(out);
    rn_rls_write_json(out, reader, outcome, &c->front->rls);
    rn_buf_put_char(out, '\n');
    rn_front_http_json(c, outcome->allowed ? 200 : 429, rn_buf_slice(out));
}

static void answer_health(struct rn_http_context *c)
{
    rn_front_http_text(c, 200, RN_SLICE("ok\n"));
}

/* As probes of envoyproxy/ratelimit expect it. */
static void answer_healthcheck(struct rn_http_context *c)
{
    bool serves = !rn_server_stopping(c->front->server) && !c->front->starting;

    rn_front_http_text(c, serves ? 200 : 500, serves ? RN_SLICE("OK") : RN_SLICE("not serving"));
}

static void answer_openapi(struct rn_http_context *c)
{
    rn_static_documents_answer(c, RN_STATIC_DOCUMENT_OPENAPI_HTTP);
}

static const struct rn_route routes[] = {
    {RN_POST, "/v1/check", answer_check},
    {RN_ANY, "/v1/auth", rn_front_http_auth},
    {RN_ANY, "/v1/auth/", rn_front_http_auth},
    {RN_POST, "/v1/throttle", answer_throttle},
    {RN_POST, "/v1/reserve", rn_front_http_reserve},
    {RN_POST, "/v1/commit", rn_front_http_commit},
    {RN_POST, "/v1/refund", rn_front_http_refund},
    {RN_POST, "/v1/acquire", rn_front_http_acquire},
    {RN_POST, "/v1/renew", rn_front_http_renew},
    {RN_POST, "/v1/release", rn_front_http_release},
    {RN_POST, "/v1/charge", rn_front_http_charge},
    {RN_GET, "/v1/charge", rn_front_http_charge_by_headers},
    {RN_POST, "/v1/pause", rn_front_http_pause},
    {RN_GET, "/v1/pause", rn_front_http_get_pause},
    {RN_DELETE, "/v1/pause", rn_front_http_lift_pause},
    {RN_POST, "/json", answer_descriptors},
    {RN_POST, "/v1/outcome", rn_front_http_outcome},
    {RN_GET, "/limits", rn_front_http_public_limits},
    {RN_GET, "/healthz", answer_health},
    {RN_GET, "/healthcheck", answer_healthcheck},
    {RN_GET, "/openapi.json", answer_openapi},
};

/* Browsers send Origin with the POST of a page; other clients do not. Without this check, any web
 * page could spend the limits of others through a browser that can reach this port.
 * Forward-auth is different: its headers are those of the request to decide. */
static bool admit(struct rn_http_context *c)
{
    const struct rn_http_request *request = c->request;

    if (!request->has_origin || !rn_slice_is(request->method, "POST") ||
        rn_slice_starts_with(request->path, RN_SLICE("/v1/auth")))
        return true;
    rn_log(RN_LOG_WARN, "http.browser_refused",
           RN_LOG_TEXT("peer", rn_slice_of(rn_conn_peer(c->conn)->text)),
           RN_LOG_TEXT("path", request->path),
           RN_LOG_TEXT("origin", rn_http_find(request, "origin")));
    rn_front_http_error(c, 403, "forbidden",
                        "a web page sent this: it has an Origin header; ask from a server instead");
    return false;
}

static void opened(struct rn_conn *conn)
{
    static const struct rn_http_port port = {.protocol = RN_FRONT_HTTP,
                                             .routes = routes,
                                             .route_count = sizeof routes / sizeof *routes,
                                             .body_max = BODY_MAX,
                                             .admit = admit};

    ((struct rn_http_state *)rn_conn_state(conn))->port = &port;
}

const struct rn_protocol rn_http_protocol = {
    .name = "http",
    .alpn = "http/1.1",
    .state_bytes = sizeof(struct rn_http_state),
    .idle_ns = INT64_C(75000000000),
    .message_ns = INT64_C(5000000000),
    .message_max = RN_HTTP_BYTES_MAX(BODY_MAX),
    .opened = opened,
    .received = rn_front_http_received,
    .closing = rn_front_http_closing,
    .closed = rn_front_http_closed,
};
