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
#include "front/http/conversation.h"

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

/* The address is that of the proxy, at first: rules say which proxies to trust. A peer on a unix
 * socket is on this machine. Headers become header.NAME; those that have no room are left out,
 * so the first ones count, as everywhere. */
static void describe_request(struct rn_http_context *c, char address[RN_IP_TEXT])
{
    const struct rn_http_request *request = c->request;
    const struct rn_peer *peer = rn_conn_peer(c->conn);
    struct rn_params *params = &c->ws->params;
    static char ip[] = "ip", method[] = "method", path[] = "path", host[] = "host",
                scheme[] = "scheme";
    char *at = c->ws->names;

    add(params, ip,
        peer->ip.bits == 0 ? RN_SLICE("127.0.0.1")
                           : (struct rn_slice){address, rn_ip_write(&peer->ip, address)});
    add(params, method,
        first_of(request, "x-forwarded-method", "x-original-method", request->method));
    add(params, path, first_of(request, "x-forwarded-uri", "x-original-uri", c->rest));
    add(params, host, first_of(request, "x-forwarded-host", NULL, request->host));
    add(params, scheme, rn_http_find(request, "x-forwarded-proto"));
    for (uint32_t i = 0; i < request->header_count; i++) {
        const struct rn_http_header *h = &request->headers[i];
        size_t len = 7 + h->name.len;

        memcpy(at, "header.", 7);
        memcpy(at + 7, h->name.data, h->name.len);
        if (rn_params_add(params, at, len, h->value) != 0)
            return;
        at += len;
    }
}

/* --- ?deny=403&cost=2&wait=hold ------------------------------------------------------------ */

static bool read_number(struct rn_slice text, uint64_t *n)
{
    size_t pos = 0;

    return rn_number_parse(text.data, text.len, &pos, n, NULL) == 0 && pos == text.len;
}

static const char *read_parameter(struct rn_params *params, struct rn_decision_format *format,
                                  struct rn_slice name, struct rn_slice value)
{
    uint64_t n;

    if (rn_slice_is(name, "deny")) {
        if (!read_number(value, &n) || n < 400 || n > 599)
            return "deny must be a status from 400 to 599";
        format->deny_status = (uint16_t)n;
    } else if (rn_slice_is(name, "cost")) {
        if (!read_number(value, &params->cost))
            return "cost must be a whole number";
        params->cost_given = true;
    } else if (rn_slice_is(name, "wait")) {
        if (!rn_params_parse_wait(params, value))
            return "wait must be return (not at all), hold (60 s), or the longest wait in seconds, "
                   "above 0 and up to 60";
    } else {
        return "unknown parameter; there are deny, cost and wait";
    }
    return NULL;
}

/* Whether the query string belongs to the client's request and has no parameters for us. After
 * a path it always does. Caddy replaces the client's path by ours and leaves the client's query
 * string, unless it is configured with another one; X-Forwarded-Uri then ends in the same one. */
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

static const char *read_query(struct rn_http_context *c, struct rn_decision_format *format)
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
        fault = bad ? "an escape is not %XX" : read_parameter(&c->ws->params, format, name, value);
    return fault;
}

void rn_front_http_auth(struct rn_http_context *c)
{
    /* Envoy takes 5xx as our failure and may let the request pass. */
    struct rn_decision_format format = {.empty = true, .no_5xx = c->rest.len != 0};
    char address[RN_IP_TEXT];
    const char *fault;

    rn_params_init(&c->ws->params);
    rn_buf_clear(&c->ws->scratch);
    if ((fault = read_query(c, &format))) {
        rn_front_http_error(c, 400, "bad_request", "%s", fault);
        return;
    }
    describe_request(c, address);
    rn_front_http_decide(c, RN_CHECK, format);
}
