/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who may use the admin port, and give units back over the HTTP port. Callers on this machine may,
 * others need a token, whose scope says what for. A local connection is not always from somebody
 * local:
 *
 * - a proxy on this machine passes on requests of others, and says so in a
 *   Forwarded or X-Forwarded-For header;
 * - a web page makes a visitor's browser send requests to 127.0.0.1. The browser
 *   tells where the page is from, in Origin or Sec-Fetch-Site, or, if the page's
 *   own name was made to resolve to 127.0.0.1, in Host.
 *
 * In these cases a token is needed, too. A proxy that adds no such header cannot be told from
 * somebody local: trust_local: false has everybody show a token.
 */
#include "front/admin/admin_internal.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/ip.h"

/* What was sent may be the token itself: it is not told. */
#define ADVICE_BARE                                                                                \
    "this is no token: Authorization has one word only; send Authorization: Bearer TOKEN"
#define ADVICE_SCHEME                                                                              \
    "this is no token: Authorization begins with another word than Bearer; send Authorization: "   \
    "Bearer TOKEN"
#define ADVICE_TOKEN                                                                               \
    "set admin_token in the section server:, or RATION_ADMIN_TOKEN, and send it as "               \
    "Authorization: Bearer TOKEN"

/* Health tells nothing that a connection does not. What is not known to change nothing needs
 * the scope of changes. */
static enum rn_token_scope scope_needed(const struct rn_http_request *request)
{
    struct rn_slice path = request->path;

    if (rn_slice_is(path, "/healthz") || rn_slice_is(path, "/readyz"))
        return RN_SCOPE_NONE;
    if (rn_slice_is(path, "/metrics"))
        return RN_SCOPE_METRICS;
    if (rn_slice_is(request->method, "GET") || rn_slice_is(request->method, "HEAD") ||
        rn_slice_is(path, "/v1/explain") || rn_slice_is(path, "/v1/rules/validate"))
        return RN_SCOPE_READ;
    return RN_SCOPE_ADMIN;
}

static bool has(const struct rn_http_request *request, const char *name)
{
    return rn_http_find(request, name).data != NULL;
}

/* A name of the public DNS has a dot; addresses and names of the local network
 * cannot be made to point here by somebody else. */
static bool is_public_name(struct rn_slice host)
{
    struct rn_ip ip;

    return host.len != 0 && memchr(host.data, '.', host.len) &&
           rn_ip_parse_host(host.data, host.len, &ip, NULL) != 0;
}

/* Origin: http://HOST of the very host that is asked. */
static bool is_same_origin(const struct rn_http_request *request)
{
    struct rn_slice origin = rn_http_find(request, "origin");
    struct rn_slice scheme = RN_SLICE("http://");

    if (!origin.data)
        return true;
    return rn_slice_starts_with(origin, scheme) &&
           rn_slice_equal((struct rn_slice){origin.data + scheme.len, origin.len - scheme.len},
                          request->host);
}

/* Why a local connection is not taken for somebody local; NULL: it is. */
static const char *find_stranger(const struct rn_http_request *request)
{
    struct rn_slice site = rn_http_find(request, "sec-fetch-site");

    if (has(request, "forwarded") || has(request, "x-forwarded-for"))
        return "the request was forwarded for somebody else";
    if (!is_same_origin(request) ||
        (site.data && !rn_slice_is(site, "same-origin") && !rn_slice_is(site, "none")))
        return "the request was made by a page of another site";
    if (is_public_name(request->host))
        return "the request is for another host; use 127.0.0.1 or localhost";
    return NULL;
}

static bool is_bearer(struct rn_slice value, struct rn_slice *token)
{
    static const char scheme[] = "bearer ";
    size_t len = sizeof scheme - 1;

    for (size_t i = 0; i < len; i++)
        if (i >= value.len || (value.data[i] | 0x20) != scheme[i])
            return false;
    while (len < value.len && value.data[len] == ' ')
        len++;
    *token = (struct rn_slice){value.data + len, value.len - len};
    return true;
}

/* {"error":name,"message":text}, with a line of header. */
static void answer_error(struct rn_http_context *c, unsigned status, const char *name,
                         const char *text, const char *header, struct rn_slice value)
{
    struct rn_buf *body = &c->ws->scratch;

    rn_buf_clear(body);
    rn_buf_putf(body, "{\"error\":\"%s\",\"message\":", name);
    rn_json_put_string(body, rn_slice_of(text));
    rn_buf_put_literal(body, "}\n");
    rn_front_count(&c->ws->counts->bad[c->port->protocol], 1);
    rn_http_put_status(c->out, status);
    rn_http_put_header(c->out, header, value);
    rn_http_put_body(c->out, c->keep_alive, c->head, "application/json", rn_buf_slice(body));
}

static bool refuse(struct rn_http_context *c, const char *why, const char *advice)
{
    char text[320];

    snprintf(text, sizeof text, "%s; %s", why, advice);
    rn_log(RN_LOG_WARN, "admin.denied", RN_LOG_AUTHOR(rn_admin_author(c)),
           RN_LOG_TEXT("path", c->request->path), RN_LOG_TEXT("reason", rn_slice_of(why)));
    answer_error(c, 401, "unauthorized", text, "WWW-Authenticate",
                 RN_SLICE("Bearer realm=\"rationd\""));
    return false;
}

static bool refuse_scope(struct rn_http_context *c, enum rn_token_scope needed)
{
    rn_log(RN_LOG_WARN, "admin.denied", RN_LOG_AUTHOR(rn_admin_author(c)),
           RN_LOG_TEXT("path", c->request->path),
           RN_LOG_TEXT("needs", rn_slice_of(rn_token_scope_name(needed))));
    rn_front_http_error(c, 403, "forbidden", "this needs a token of scope %s; %s has scope %s",
                        rn_token_scope_name(needed), c->token->name,
                        rn_token_scope_name(c->token->scope));
    return false;
}

static bool refuse_for_now(struct rn_http_context *c)
{
    answer_error(c, 429, "too_many",
                 "too many wrong tokens from this address; try again in a second", "Retry-After",
                 RN_SLICE("1"));
    return false;
}

/* Finds c->token for a caller that needs one; `why` says for what reason. False after
 * answering. */
static bool demand_token(struct rn_http_context *c, const char *why)
{
    struct rn_slice given = rn_http_find(c->request, "authorization"), text;
    struct rn_http_state *state = rn_conn_state(c->conn);
    enum rn_token_answer answer;

    if (c->front->guard.token_count == 0)
        return refuse(c, why, ADVICE_TOKEN);
    if (!given.data)
        return refuse(c, why, "send a token as Authorization: Bearer TOKEN");
    if (!is_bearer(given, &text))
        return refuse(c, why, memchr(given.data, ' ', given.len) ? ADVICE_SCHEME : ADVICE_BARE);
    answer = rn_token_try(&c->front->guard, rn_conn_peer(c->conn), &state->shown,
                          (struct rn_slice){0}, text, rn_clock_read_ns(CLOCK_MONOTONIC));
    c->token = state->shown.token;
    if (answer == RN_TOKEN_RIGHT)
        return true;
    rn_front_count(&c->ws->counts->wrong_tokens[c->port->protocol], 1);
    return answer == RN_TOKEN_LATER ? refuse_for_now(c)
                                    : refuse(c, why, "this token is not known here");
}

static bool admit(struct rn_http_context *c, enum rn_token_scope needed)
{
    struct rn_slice given = rn_http_find(c->request, "authorization"), text;
    const char *stranger;

    if (needed == RN_SCOPE_NONE)
        return true;
    stranger = !rn_conn_peer(c->conn)->local ? "the request is from another machine"
               : !c->front->trust_local      ? "trust_local is false"
                                             : find_stranger(c->request);
    if (stranger && !demand_token(c, stranger))
        return false;
    if (!stranger && is_bearer(given, &text)) /* it counts where none is needed, too */
        c->token = rn_token_find(&c->front->guard, text);
    return !c->token || c->token->scope >= needed || refuse_scope(c, needed);
}

bool rn_admin_admit(struct rn_http_context *c)
{
    return admit(c, scope_needed(c->request));
}

bool rn_admin_admit_change(struct rn_http_context *c)
{
    return admit(c, RN_SCOPE_ADMIN);
}
