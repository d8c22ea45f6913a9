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
void rn_front_http_fail(struct rn_exchange *x, int code, unsigned status,
                        const struct ration_error *error)
{
    if (code == RATION_EINVAL) {
        rn_exchange_error(x, 400, "bad_request", "%s", error->text);
        return;
    }
    rn_front_count(&x->desk->counts->failed[RN_FRONT_HTTP], 1);
    rn_exchange_error(x, status, "store", "no decision could be made: %s", error->text);
}

void rn_front_http_decide(struct rn_exchange *x, enum rn_verb verb)
{
    struct rn_params *params = &x->desk->params;
    struct rn_decision *decided = &x->desk->decided;
    struct rn_decision_format how = {0};
    struct ration_error error;

    if (params->credit && !rn_admin_admit_change(x))
        return;
    int code = rn_decision_make(x->front->limiter, params, verb, decided, &error);

    if (code != 0) {
        rn_front_http_fail(x, code, 503, &error);
        return;
    }
    how.problem = !decided->outcome.decision.allowed && rn_front_http_wants_problem(x->request);
    rn_exchange_decision(x, decided,
                         verb == RN_CHECK ? rn_decision_reply_delay_ns(params, decided) : 0, &how);
}

/* --- several at once --------------------------------------------------------------------- */

static void put_item_error(struct rn_buf *out, const struct ration_error *error)
{
    rn_buf_put_literal(out, "{\"error\":");
    rn_json_put_string(out, rn_slice_of(error->text));
    rn_buf_put_char(out, '}');
}

static void decide_item(struct rn_exchange *x, struct rn_buf *out, struct rn_answer_extra *how)
{
    struct rn_decision *decided = &x->desk->decided;
    struct ration_error error;

    if (rn_params_check(&x->desk->params, &error) != 0 ||
        rn_decision_make(x->front->limiter, &x->desk->params, RN_CHECK, decided, &error) != 0) {
        put_item_error(out, &error);
        return;
    }
    how->charge = (struct rn_slice){decided->due[0] ? decided->due : NULL, strlen(decided->due)};
    rn_answer_put_json(out, &decided->outcome, how);
}

/* Nothing is decided unless the whole body can be read: that is why it is read
 * twice. Strings were unescaped in place the first time; `copy` is untouched. */
static bool read_batch(struct rn_exchange *x, struct rn_json *json, struct rn_buf *out,
                       bool *credits)
{
    struct rn_answer_extra how = {
        .wall_ns = ration_wall(x->front->limiter, ration_now(x->front->limiter))};
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
        rn_params_init(&x->desk->params);
        if (rn_params_read(&x->desk->params, json,
                           RN_PARAM_ATTRIBUTES | RN_PARAM_CREDIT | RN_PARAM_PEEK | RN_PARAM_DRAIN |
                               RN_PARAM_KEY) != 0)
            return false;
        *credits |= x->desk->params.credit;
        if (out) {
            if (count > 1)
                rn_buf_put_char(out, ',');
            decide_item(x, out, &how);
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

static void answer_batch(struct rn_exchange *x)
{
    struct rn_buf *body = &x->desk->scratch;
    struct rn_slice text = x->request->body;
    char *copy = malloc(text.len);
    struct rn_json json;

    if (!copy) {
        rn_exchange_error(x, 503, "memory", "out of memory");
        return;
    }
    memcpy(copy, text.data, text.len);
    rn_json_init(&json, copy, text.len);
    rn_json_next(&json); /* it is an object */
    bool credits = false, good = read_batch(x, &json, NULL, &credits);

    free(copy);
    if (!good) {
        rn_exchange_error(x, 400, "bad_request", "%s", json.error.text);
        return;
    }
    if (credits && !rn_admin_admit_change(x))
        return;
    rn_json_init(&json, (char *)text.data, text.len);
    rn_json_next(&json);
    rn_buf_clear(body);
    rn_buf_put_literal(body, "{\"results\":[");
    read_batch(x, &json, body, &credits);
    rn_buf_put_literal(body, "]}\n");
    rn_exchange_json(x, 200, rn_buf_slice(body));
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

static void answer_check(struct rn_exchange *x)
{
    if (is_batch(x->request->body))
        answer_batch(x);
    else if (rn_exchange_query(x, RN_PARAM_ATTRIBUTES | RN_PARAM_CREDIT | RN_PARAM_WAIT |
                                      RN_PARAM_PEEK | RN_PARAM_DRAIN))
        rn_front_http_decide(x, RN_CHECK);
}

static void answer_throttle(struct rn_exchange *x)
{
    if (!rn_exchange_query(x, RN_PARAM_KEY | RN_PARAM_CREDIT | RN_PARAM_WAIT | RN_PARAM_PEEK |
                                  RN_PARAM_DRAIN))
        return;
    if (x->desk->params.by_limit)
        rn_front_http_decide(x, RN_CHECK);
    else
        rn_exchange_error(x, 400, "bad_request",
                          "\"key\" and \"limit\" are missing, such as {\"key\": \"alice\", "
                          "\"limit\": \"100 per minute\"}");
}

static void answer_health(struct rn_exchange *x)
{
    rn_http_put_status(x->out, 200);
    rn_http_put_body(x->out, x->keep_alive, x->head, "text/plain", RN_SLICE("ok\n"));
}

/* As probes of envoyproxy/ratelimit expect it. */
static void answer_healthcheck(struct rn_exchange *x)
{
    bool serves = !rn_server_stopping(x->front->server) && !x->front->starting;

    rn_http_put_status(x->out, serves ? 200 : 500);
    rn_http_put_body(x->out, x->keep_alive, x->head, "text/plain",
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
static bool admit(struct rn_exchange *x)
{
    const struct rn_http_request *request = x->request;

    if (!request->has_origin || !rn_slice_is(request->method, "POST") ||
        rn_slice_starts_with(request->path, RN_SLICE("/v1/auth")))
        return true;
    rn_log(RN_LOG_WARN, "http.page", RN_LOG_TEXT("peer", rn_slice_of(rn_conn_peer(x->conn)->text)),
           RN_LOG_TEXT("path", request->path),
           RN_LOG_TEXT("origin", rn_http_find(request, "origin")));
    rn_exchange_error(x, 403, "forbidden",
                      "a web page sent this: it has an Origin header; ask from a server instead");
    return false;
}

static const struct rn_site site = {.name = RN_FRONT_HTTP,
                                    .routes = routes,
                                    .route_count = sizeof routes / sizeof *routes,
                                    .body_max = BODY_MAX,
                                    .admit = admit};

static size_t talk(struct rn_conversation *talker, char *data, size_t len)
{
    return rn_exchange_talk(talker, data, len, &site);
}

static size_t received(struct rn_conn *conn, char *data, size_t len)
{
    return rn_await_run(conn, NULL, talk, data, len);
}

static void limited(struct rn_conn *conn, enum rn_conn_limit why)
{
    rn_exchange_limited(conn, why, &site);
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
    .closed = rn_exchange_closed,
};
