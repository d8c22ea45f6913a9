/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Access to the admin port, and to credits over the HTTP port. Callers on this machine have it;
 * others need a token, whose scope limits what they may do. A local connection is not always
 * from a local caller:
 *
 * - a proxy on this machine passes on requests of others, and says so in a
 *   Forwarded or X-Forwarded-For header;
 * - a web page makes a visitor's browser send requests to 127.0.0.1. The browser
 *   says where the page is from, in Origin or Sec-Fetch-Site, or, if the page's
 *   own name was made to resolve to 127.0.0.1, in Host.
 *
 * These need a token, too. A proxy that adds no such header looks like a local caller: set
 * trust_local to false, and every caller needs a token.
 *
 * What a page sends besides GET and HEAD needs the header X-Ration, which no form can send,
 * whatever its token.
 */
#include "front/admin/admin_internal.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/ip.h"

/* The header may have the token itself, so messages do not repeat it. */
#define ADVICE_BARE                                                                                \
    "this is not a token: Authorization has one word only; send Authorization: Bearer TOKEN"
#define ADVICE_SCHEME                                                                              \
    "this is not a token: Authorization begins with another word than Bearer; send "               \
    "Authorization: "                                                                              \
    "Bearer TOKEN"
#define ADVICE_TOKEN                                                                               \
    "set admin_token in the section server:, or RATION_ADMIN_TOKEN, and send it as "               \
    "Authorization: Bearer TOKEN"

/* Health says no more than that the port is open; the description of the port and the files of the
 * dashboard are the same for every rationd of a version. Requests that are not known to be harmless
 * need the scope of changes. */
static enum rn_token_scope scope_needed(const struct rn_http_request *request)
{
    struct rn_slice path = request->path;

    if (rn_slice_is(path, "/healthz") || rn_slice_is(path, "/readyz") ||
        rn_slice_is(path, "/openapi.json") || rn_slice_is(path, "/") ||
        rn_slice_starts_with(path, RN_SLICE("/web/")))
        return RN_SCOPE_NONE;
    if (rn_slice_is(path, "/metrics") || rn_slice_is(path, "/v1/whoami"))
        return RN_SCOPE_METRICS;
    if (rn_slice_is(request->method, "GET") || rn_slice_is(request->method, "HEAD") ||
        rn_slice_is(path, "/v1/explain") || rn_slice_is(path, "/v1/rules/validate"))
        return RN_SCOPE_READ;
    return RN_SCOPE_ADMIN;
}

/* A name of the public DNS has a dot. Others cannot make addresses and names of the local network
 * point here. */
static bool is_public_name(struct rn_slice host)
{
    struct rn_ip ip;

    return host.len != 0 && memchr(host.data, '.', host.len) &&
           rn_ip_parse_host(host.data, host.len, &ip, NULL) != 0;
}

/* Origin: http://HOST, over TLS https://HOST, of the very host that is asked. */
static bool is_same_origin(const struct rn_http_context *c)
{
    struct rn_slice origin = rn_http_find(c->request, "origin");
    struct rn_slice scheme = rn_conn_is_tls(c->conn) ? RN_SLICE("https://") : RN_SLICE("http://");

    if (!origin.data)
        return true;
    return rn_slice_starts_with(origin, scheme) &&
           rn_slice_equal((struct rn_slice){origin.data + scheme.len, origin.len - scheme.len},
                          c->request->host);
}

/* Why a local connection is not from a local caller; NULL: it is. */
static const char *find_stranger(const struct rn_http_context *c)
{
    const struct rn_http_request *request = c->request;
    struct rn_slice site = rn_http_find(request, "sec-fetch-site");

    if (rn_http_find(request, "forwarded").data || rn_http_find(request, "x-forwarded-for").data)
        return "the request was forwarded for somebody else";
    if (!is_same_origin(c) ||
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

static bool refuse(struct rn_http_context *c, const char *why, const char *advice)
{
    char text[320];

    snprintf(text, sizeof text, "%s; %s", why, advice);
    rn_log(RN_LOG_WARN, "admin.denied", RN_LOG_AUTHOR(rn_admin_author(c)),
           RN_LOG_TEXT("path", c->request->path), RN_LOG_TEXT("reason", rn_slice_of(why)));
    rn_front_http_error_with(c, 401, "unauthorized", text, "WWW-Authenticate",
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

/* Finds c->token for a caller that needs one, for the reason `why`. False after answering. */
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
    if (answer == RN_TOKEN_WRONG)
        return refuse(c, why, "this token is not known here");
    rn_front_http_error_with(c, 429, "too_many",
                             "too many wrong tokens from this address; try again in a second",
                             "Retry-After", RN_SLICE("1"));
    return false;
}

static bool admit(struct rn_http_context *c, enum rn_token_scope needed)
{
    struct rn_slice given = rn_http_find(c->request, "authorization"), text;
    const char *stranger;

    if (needed == RN_SCOPE_NONE)
        return true;
    stranger = !rn_conn_peer(c->conn)->local ? "the request is from another machine"
               : !c->front->trust_local      ? "trust_local is false"
                                             : find_stranger(c);
    if (stranger && !demand_token(c, stranger))
        return false;
    if (!stranger && is_bearer(given, &text)) /* it counts even where none is needed */
        c->token = rn_token_find(&c->front->guard, text);
    return !c->token || c->token->scope >= needed || refuse_scope(c, needed);
}

/* Whether a browser sent this for a page that could not set a header of its own. */
static bool is_from_form(const struct rn_http_request *request)
{
    if (rn_slice_is(request->method, "GET") || rn_slice_is(request->method, "HEAD"))
        return false;
    return (request->has_origin || rn_http_find(request, "sec-fetch-site").data) &&
           !rn_slice_is(rn_http_find(request, "x-ration"), "1");
}

bool rn_admin_admit(struct rn_http_context *c)
{
    if (!admit(c, scope_needed(c->request)))
        return false;
    if (!is_from_form(c->request))
        return true;
    rn_log(RN_LOG_WARN, "admin.denied", RN_LOG_AUTHOR(rn_admin_author(c)),
           RN_LOG_TEXT("path", c->request->path),
           RN_LOG_TEXT("reason", RN_SLICE("a web page sent it without X-Ration: 1")));
    rn_front_http_error(c, 403, "forbidden",
                        "a web page sent this: its requests other than GET and HEAD need the "
                        "header X-Ration: 1, which forms cannot send");
    return false;
}

bool rn_admin_admit_change(struct rn_http_context *c)
{
    return admit(c, RN_SCOPE_ADMIN);
}

/* --- who asks ------------------------------------------------------------------------------- */

void rn_admin_whoami(struct rn_http_context *c)
{
    struct rn_members m = rn_admin_begin(c);

    if (c->token)
        rn_members_text(&m, "token", rn_slice_of(c->token->name));
    else
        rn_members_null(&m, "token");
    rn_members_text(&m, "scope",
                    rn_slice_of(rn_token_scope_name(c->token ? c->token->scope : RN_SCOPE_ADMIN)));
    if (c->front->fleet.name)
        rn_members_text(&m, "node", rn_slice_of(c->front->fleet.name));
    else
        rn_members_null(&m, "node");
    rn_members_text(&m, "version", rn_slice_of(ration_version()));
    rn_admin_end(c, &m, 200);
}
