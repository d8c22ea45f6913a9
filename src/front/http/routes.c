/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The HTTP port: /v1/check and the other questions. Forward-auth is in auth.c,
 * what was acquired or reserved in lease.c.
 */
#include "front/http/http_internal.h"

#include <stdlib.h>

#include "front/admin/admin_internal.h"
#include "wire/answer.h"

#define BODY_MAX (1024 * 1024)
#define BATCH_MAX 1000

/* The media types that a caller accepts are not ranked: it either knows about
 * problems or not. */
bool rn_front_http_wants_problem(const struct rn_http_request *request)
{
    static const char type[] = "application/problem+json";
    struct rn_slice accept = rn_http_find(request, "accept");

    return accept.data && memmem(accept.data, accept.len, type, sizeof type - 1);
}

/* A decision that could not be made: the caller's mistake, or the store's. */
void rn_front_http_fail(struct rn_http_context *c, int code, unsigned status,
                        const struct ration_error *error)
{
    if (code == RATION_EINVAL) {
        rn_front_http_error(c, 400, "bad_request", "%s", error->text);
        return;
    }
    rn_front_count(&c->ws->counts->failed[RN_FRONT_HTTP], 1);
    rn_front_http_error(c, status, "store", "no decision could be made: %s", error->text);
}

void rn_front_http_decide(struct rn_http_context *c, enum rn_verb verb)
{
    struct rn_params *params = &c->ws->params;
    struct rn_decision *decided = &c->ws->decided;
    struct rn_decision_format how = {0};
    struct ration_error error;

    if (params->credit && !rn_admin_admit_change(c))
        return;
    int code = rn_decision_make(c->front->limiter, params, verb, decided, &error);

    if (code != 0) {
        rn_front_http_fail(c, code, 503, &error);
        return;
    }
    how.problem = !decided->outcome.decision.allowed && rn_front_http_wants_problem(c->request);
    rn_front_http_put_decision(
        c, decided, verb == RN_CHECK ? rn_decision_reply_delay_ns(params, decided) : 0, &how);
}

/* --- several at once --------------------------------------------------------------------- */

static void put_item_error(struct rn_buf *out, const struct ration_error *error)
{
    rn_buf_put_literal(out, "{\"error\":");
    rn_json_put_string(out, rn_slice_of(error->text));
    rn_buf_put_char(out, '}');
}

static void decide_item(struct rn_http_context *c, struct rn_buf *out, struct rn_answer_extra *how)
{
    struct rn_decision *decided = &c->ws->decided;
    struct ration_error error;

    if (rn_params_check(&c->ws->params, &error) != 0 ||
        rn_decision_make(c->front->limiter, &c->ws->params, RN_CHECK, decided, &error) != 0) {
        put_item_error(out, &error);
        return;
    }
    how->charge = (struct rn_slice){decided->due[0] ? decided->due : NULL, strlen(decided->due)};
    rn_answer_put_json(out, &decided->outcome, how);
}

/* Nothing is decided unless the whole body can be read: that is why it is read
 * twice. Strings were unescaped in place the first time; `copy` is untouched. */
static bool read_batch(struct rn_http_context *c, struct rn_json *json, struct rn_buf *out,
                       bool *credits)
{
    struct rn_answer_extra how = {
        .wall_ns = ration_wall(c->front->limiter, ration_now(c->front->limiter))};
    struct rn_json_token token = rn_json_next(json); /* "checks" */
    unsigned count = 0;

    if (token.kind != RN_JSON_ARRAY) {
        rn_json_object_to(json, token.at, "\"checks\" must be a list of checks");
        return false;
    }
    while ((token = rn_json_next(json)).kind == RN_JSON_OBJECT) {
        if (++count > BATCH_MAX) {
            rn_json_object_to(json, token.at, "more than %d checks", BATCH_MAX);
            return false;
        }
        rn_params_init(&c->ws->params);
        if (rn_params_read(&c->ws->params, json,
                           RN_PARAM_ATTRIBUTES | RN_PARAM_CREDIT | RN_PARAM_PEEK | RN_PARAM_DRAIN |
                               RN_PARAM_KEY) != 0)
            return false;
        *credits |= c->ws->params.credit;
        if (out) {
            if (count > 1)
                rn_buf_put_char(out, ',');
            decide_item(c, out, &how);
        }
    }
    if (token.kind != RN_JSON_END && token.kind != RN_JSON_BAD)
        rn_json_object_to(json, token.at, "a check must be an object");
    if (token.kind != RN_JSON_END || (token = rn_json_next(json)).kind == RN_JSON_BAD)
        return false;
    if (token.kind != RN_JSON_END) {
        rn_json_object_to(json, token.at, "nothing may stand beside \"checks\"");
        return false;
    }
    return rn_json_next(json).kind == RN_JSON_END;
}

static void answer_batch(struct rn_http_context *c)
{
    struct rn_buf *body = &c->ws->scratch;
    struct rn_slice text = c->request->body;
    char *copy = malloc(text.len);
    struct rn_json json;

    if (!copy) {
        rn_front_http_error(c, 503, "memory", "out of memory");
        return;
    }
    memcpy(copy, text.data, text.len);
    rn_json_init(&json, copy, text.len);
    rn_json_next(&json); /* it is an object */
    bool credits = false, good = read_batch(c, &json, NULL, &credits);

    free(copy);
    if (!good) {
        rn_front_http_error(c, 400, "bad_request", "%s", json.error.text);
        return;
    }
    if (credits && !rn_admin_admit_change(c))
        return;
    rn_json_init(&json, (char *)text.data, text.len);
    rn_json_next(&json);
    rn_buf_clear(body);
    rn_buf_put_literal(body, "{\"results\":[");
    read_batch(c, &json, body, &credits);
    rn_buf_put_literal(body, "]}\n");
    rn_front_http_json(c, 200, rn_buf_slice(body));
}

/* Whether the body is {"checks": ...}, by its first name alone. */
static bool is_batch(struct rn_slice body)
{
    for (; body.len > 0; body.data++, body.len--) {
        char c = body.data[0];

        if (c != '{' && c != ' ' && c != '\n' && c != '\r' && c != '\t')
            break;
    }
    return rn_slice_starts_with(body, RN_SLICE("\"checks\""));
}

/* --- routes ----------------------------------------------------------------------------------- */

static void answer_check(struct rn_http_context *c)
{
    if (is_batch(c->request->body))
        answer_batch(c);
    else if (rn_front_http_read_params(c, RN_PARAM_ATTRIBUTES | RN_PARAM_CREDIT | RN_PARAM_WAIT |
                                              RN_PARAM_PEEK | RN_PARAM_DRAIN))
        rn_front_http_decide(c, RN_CHECK);
}

static void answer_throttle(struct rn_http_context *c)
{
    if (!rn_front_http_read_params(c, RN_PARAM_KEY | RN_PARAM_CREDIT | RN_PARAM_WAIT |
                                          RN_PARAM_PEEK | RN_PARAM_DRAIN))
        return;
    if (c->ws->params.by_limit)
        rn_front_http_decide(c, RN_CHECK);
    else
        rn_front_http_error(c, 400, "bad_request",
                            "\"key\" and \"limit\" are missing, such as {\"key\": \"alice\", "
                            "\"limit\": \"100 per minute\"}");
}

static void answer_health(struct rn_http_context *c)
{
    rn_http_put_status(c->out, 200);
    rn_http_put_body(c->out, c->keep_alive, c->head, "text/plain", RN_SLICE("ok\n"));
}

/* As probes of envoyproxy/ratelimit expect it. */
static void answer_healthcheck(struct rn_http_context *c)
{
    bool serves = !rn_server_stopping(c->front->server) && !c->front->starting;

    rn_http_put_status(c->out, serves ? 200 : 500);
    rn_http_put_body(c->out, c->keep_alive, c->head, "text/plain",
                     serves ? RN_SLICE("OK") : RN_SLICE("not serving"));
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
    {RN_POST, "/json", rn_front_http_rls},
    {RN_GET, "/healthz", answer_health},
    {RN_GET, "/healthcheck", answer_healthcheck},
};

/* Browsers say in Origin that a page sends the POST, and no other client does. Without this, any
 * page could spend the limits of others through the browser of somebody who reaches this port.
 * Forward-auth is different: there, the headers are those of the request that is decided. */
static bool admit(struct rn_http_context *c)
{
    const struct rn_http_request *request = c->request;

    if (!request->has_origin || !rn_slice_is(request->method, "POST") ||
        rn_slice_starts_with(request->path, RN_SLICE("/v1/auth")))
        return true;
    rn_log(RN_LOG_WARN, "http.page", RN_LOG_TEXT("peer", rn_slice_of(rn_conn_peer(c->conn)->text)),
           RN_LOG_TEXT("path", request->path),
           RN_LOG_TEXT("origin", rn_http_find(request, "origin")));
    rn_front_http_error(c, 403, "forbidden",
                        "a web page sent this: it has an Origin header; ask from a server instead");
    return false;
}

static const struct rn_http_port port = {.protocol = RN_FRONT_HTTP,
                                         .routes = routes,
                                         .route_count = sizeof routes / sizeof *routes,
                                         .body_max = BODY_MAX,
                                         .admit = admit};

static size_t talk(struct rn_conversation *talker, char *data, size_t len)
{
    return rn_front_http_run(talker, data, len, &port);
}

static size_t received(struct rn_conn *conn, char *data, size_t len)
{
    return rn_await_run(conn, NULL, talk, data, len);
}

static void limited(struct rn_conn *conn, enum rn_conn_limit why)
{
    rn_front_http_limited(conn, why, &port);
}

const struct rn_protocol rn_http_protocol = {
    .name = "http",
    .alpn = "http/1.1",
    .state_bytes = sizeof(struct rn_http_state),
    .idle_ns = INT64_C(75000000000),
    .message_ns = INT64_C(5000000000),
    .message_max = RN_HTTP_BYTES_MAX(BODY_MAX),
    .received = received,
    .limited = limited,
    .closed = rn_front_http_closed,
};
