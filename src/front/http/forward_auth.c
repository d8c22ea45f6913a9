/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Forward-auth: a proxy asks about a request it has received, and passes on the
 * refusal. What it asks about comes in headers, which each proxy names its own
 * way:
 *
 *              Caddy, Traefik        nginx (as documented)   Envoy ext_authz
 *   method     X-Forwarded-Method    X-Original-Method       the method
 *   path       X-Forwarded-Uri       X-Original-URI          what follows /v1/auth
 *   host       X-Forwarded-Host      Host                    Host
 */
#include "base/number.h"
#include "front/http/http_internal.h"

static struct rn_slice first_of(const struct rn_http_request *request, const char *a, const char *b,
                                struct rn_slice otherwise)
{
    struct rn_slice value = rn_http_find(request, a);

    if (!value.data && b)
        value = rn_http_find(request, b);
    return value.data ? value : otherwise;
}

static void add(struct rn_params *params, char *name, struct rn_slice value)
{
    if (value.data && value.len != 0)
        (void)rn_params_add(params, name, strlen(name), value); /* there is room: they come first */
}

/* The proxy itself, to begin with: rules tell which proxies are believed. One
 * that comes through a unix socket is on this machine. */
static struct rn_slice peer_address(const struct rn_http_context *c, char text[RN_IP_TEXT])
{
    const struct rn_peer *peer = rn_conn_peer(c->conn);

    if (peer->ip.bits == 0)
        return RN_SLICE("127.0.0.1");
    return (struct rn_slice){text, rn_ip_write(&peer->ip, text)};
}

/* Every header as header.NAME. More than there is room for are left out: the ones
 * that came first count, as everywhere. */
static void add_headers(struct rn_http_context *c)
{
    char *at = c->ws->names;

    for (uint32_t i = 0; i < c->request->header_count; i++) {
        const struct rn_http_header *h = &c->request->headers[i];
        size_t len = 7 + h->name.len;

        memcpy(at, "header.", 7);
        memcpy(at + 7, h->name.data, h->name.len);
        if (rn_params_add(&c->ws->params, at, len, h->value) != 0)
            return;
        at += len;
    }
}

static void describe_request(struct rn_http_context *c, char address[RN_IP_TEXT])
{
    const struct rn_http_request *request = c->request;
    struct rn_params *params = &c->ws->params;
    static char ip[] = "ip", method[] = "method", path[] = "path", host[] = "host",
                scheme[] = "scheme";

    add(params, ip, peer_address(c, address));
    add(params, method,
        first_of(request, "x-forwarded-method", "x-original-method", request->method));
    add(params, path, first_of(request, "x-forwarded-uri", "x-original-uri", c->rest));
    add(params, host, first_of(request, "x-forwarded-host", NULL, request->host));
    add(params, scheme, rn_http_find(request, "x-forwarded-proto"));
    add_headers(c);
}

/* --- ?deny=403&cost=2&wait=hold ------------------------------------------------------------ */

static bool read_number(struct rn_slice text, uint64_t *n)
{
    size_t pos = 0;

    return rn_number_parse(text.data, text.len, &pos, n, NULL) == 0 && pos == text.len;
}

static const char *read_parameter(struct rn_params *params, struct rn_decision_format *how,
                                  struct rn_slice name, struct rn_slice value)
{
    uint64_t n;

    if (rn_slice_is(name, "deny")) {
        if (!read_number(value, &n) || n < 400 || n > 599)
            return "deny must be a status from 400 to 599";
        how->deny_status = (uint16_t)n;
    } else if (rn_slice_is(name, "cost")) {
        if (!read_number(value, &params->cost))
            return "cost must be a whole number";
        params->cost_given = true;
    } else if (rn_slice_is(name, "wait")) {
        if (!rn_slice_is(value, "hold") && !rn_slice_is(value, "return"))
            return "wait must be hold or return";
        params->wait = rn_slice_is(value, "hold") ? RN_WAIT_HOLD : RN_WAIT_RETURN;
    } else {
        return "unknown parameter; there are deny, cost and wait";
    }
    return NULL;
}

/* Whether the query is part of what is asked about, and nothing that is asked of
 * us: behind a path it always is. Caddy puts our path in the place of the client's
 * and leaves the client's query, unless it is given another one; what it says in
 * X-Forwarded-Uri then ends in the same query. */
static bool is_clients_query(const struct rn_http_context *c)
{
    struct rn_slice query = c->request->query;
    struct rn_slice uri = rn_http_find(c->request, "x-forwarded-uri");
    const char *mark = uri.data ? memchr(uri.data, '?', uri.len) : NULL;

    if (c->rest.len != 0)
        return true;
    if (!mark)
        return false;
    return rn_slice_equal(query,
                          (struct rn_slice){mark + 1, uri.len - (size_t)(mark + 1 - uri.data)});
}

static const char *read_query(struct rn_http_context *c, struct rn_decision_format *how)
{
    struct rn_slice rest = c->request->query, name, value;
    const char *fault = NULL;
    bool bad = false;
    char *out;

    if (rest.len == 0 || is_clients_query(c))
        return NULL;
    out = rn_buf_reserve(&c->ws->scratch, rest.len);
    if (!out)
        return "out of memory";
    while (!fault && rn_http_query_next(&rest, &out, &name, &value, &bad))
        fault = bad ? "an escape is not %XX" : read_parameter(&c->ws->params, how, name, value);
    return fault;
}

void rn_front_http_auth(struct rn_http_context *c)
{
    struct rn_params *params = &c->ws->params;
    struct rn_decision *decided = &c->ws->decided;
    struct rn_decision_format how = {.problem = rn_front_http_wants_problem(c->request),
                                     .empty = true};
    char address[RN_IP_TEXT];
    struct ration_error error;
    const char *fault;
    int code;

    rn_params_init(params);
    rn_buf_clear(&c->ws->scratch);
    if ((fault = read_query(c, &how))) {
        rn_front_http_error(c, 400, "bad_request", "%s", fault);
        return;
    }
    describe_request(c, address);
    code = rn_decision_make(c->front->limiter, params, RN_CHECK, decided, &error);
    if (c->rest.len != 0 && (code != 0 || decided->outcome.status >= 500))
        how.deny_status = 403; /* Envoy takes 5xx as our failure and may let the request pass */
    if (code != 0)
        rn_front_http_fail(c, code, how.deny_status ? how.deny_status : 503, &error);
    else
        rn_front_http_put_decision(c, decided, rn_decision_reply_delay_ns(params, decided), &how);
}
