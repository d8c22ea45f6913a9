/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reservations, places and charges by outcome: what lasts from one request to another. The
 * ticket that the caller keeps has all of it; the daemon remembers nothing.
 */
#include <ration/signals.h>

#include "base/number.h"
#include "front/http/conversation.h"
#include "rules/report/report.h"

#define RESERVING                                                                                  \
    (RN_PARAM_ATTRIBUTES | RN_PARAM_KEYED | RN_PARAM_COST | RN_PARAM_FOR | RN_PARAM_WAIT)

void rn_front_http_reserve(struct rn_http_context *c)
{
    if (rn_front_http_read_params(c, RESERVING))
        rn_front_http_decide(c, RN_RESERVE, (struct rn_decision_format){0});
}

void rn_front_http_acquire(struct rn_http_context *c)
{
    if (rn_front_http_read_params(c, RESERVING))
        rn_front_http_decide(c, RN_ACQUIRE, (struct rn_decision_format){0});
}

/* Reads a body that must have a lease. */
static bool read_lease(struct rn_http_context *c, unsigned allowed)
{
    if (!rn_front_http_read_params(c, RN_PARAM_LEASE | allowed))
        return false;
    if (c->ws->params.lease.data)
        return true;
    rn_front_http_error(c, 400, "bad_request",
                        "\"lease\" is missing: what reserve or acquire has answered");
    return false;
}

/* {"committed":true}; EALREADY: false. A ticket that has expired is a 410 unless `mild`. */
static void answer_done(struct rn_http_context *c, int code, const char *what, bool mild)
{
    struct rn_buf *body = &c->ws->scratch;

    if (code == RATION_EGONE && !mild) {
        rn_front_http_error(c, 410, "gone",
                            "it has ended: its time is over, or its limit is no more");
    } else if (code == 0 || code == RATION_EALREADY || code == RATION_EGONE) {
        rn_buf_clear(body);
        rn_buf_putf(body, "{\"%s\":%s}\n", what, code == 0 ? "true" : "false");
        rn_front_http_json(c, 200, rn_buf_slice(body));
    } else if (code == RATION_EINVAL) {
        rn_front_http_error(c, 400, "bad_request",
                            "\"lease\" is unknown or damaged: this rationd did not sign it");
    } else {
        rn_front_http_error(c, 503, "store", "%s", ration_error_text(code));
    }
}

void rn_front_http_commit(struct rn_http_context *c)
{
    struct rn_params *params = &c->ws->params;

    if (read_lease(c, RN_PARAM_COST))
        answer_done(c,
                    ration_ticket_commit(c->front->limiter, params->lease.data, params->lease.len,
                                         !params->cost_given, params->cost, RATION_NOW),
                    "committed", false);
}

static void settle(struct rn_http_context *c,
                   int (*end)(struct ration *r, const char *ticket, size_t len, int64_t now_ns),
                   const char *what, bool mild)
{
    const struct rn_slice *lease = &c->ws->params.lease;

    if (read_lease(c, 0))
        answer_done(c, end(c->front->limiter, lease->data, lease->len, RATION_NOW), what, mild);
}

void rn_front_http_refund(struct rn_http_context *c)
{
    settle(c, ration_ticket_refund, "refunded", false);
}

void rn_front_http_release(struct rn_http_context *c)
{
    settle(c, ration_ticket_release, "released", true);
}

void rn_front_http_renew(struct rn_http_context *c)
{
    struct rn_params *params = &c->ws->params;
    struct rn_buf *body = &c->ws->scratch;
    int64_t expires_ns;
    int code;

    if (!read_lease(c, RN_PARAM_FOR))
        return;
    code = ration_ticket_renew(c->front->limiter, params->lease.data, params->lease.len,
                               params->for_ns, RATION_NOW, &expires_ns);
    if (code != 0) {
        answer_done(c, code, "renewed", false);
        return;
    }
    rn_buf_clear(body);
    rn_buf_put_literal(body, "{\"renewed\":true,\"expires_after\":");
    rn_json_put_seconds(body, expires_ns);
    rn_buf_put_literal(body, "}\n");
    rn_front_http_json(c, 200, rn_buf_slice(body));
}

/* The members of /v1/outcome. */
struct outcome {
    struct rn_slice rule; /* data NULL: not given */
    uint64_t status;      /* 0: not given */
    int64_t duration_ns;  /* negative: not given */
};

static int read_status(void *into, struct rn_json *json, const struct rn_json_token *token)
{
    struct outcome *outcome = into;

    if (rn_json_u64(token, &outcome->status) && outcome->status >= RN_STATUS_MIN &&
        outcome->status <= RN_STATUS_MAX)
        return 0;
    return rn_json_object_to(json, token->at,
                             "\"status\" must be that of the answer, from %d to %d", RN_STATUS_MIN,
                             RN_STATUS_MAX);
}

static int read_duration(void *into, struct rn_json *json, const struct rn_json_token *token)
{
    struct outcome *outcome = into;

    if (token->kind == RN_JSON_NUMBER && rn_json_seconds(token, &outcome->duration_ns) &&
        outcome->duration_ns >= 0)
        return 0;
    return rn_json_object_to(json, token->at, "\"duration\" must be seconds, such as 0.25");
}

void rn_front_http_outcome(struct rn_http_context *c)
{
    static const struct rn_param_member members[] = {
        {"rule", 1, RN_VALUE_TEXT, offsetof(struct outcome, rule), NULL},
        {"status", 2, RN_VALUE_OTHER, 0, read_status},
        {"duration", 4, RN_VALUE_OTHER, 0, read_duration}};
    struct outcome outcome = {.duration_ns = -1}, *params = &outcome;
    unsigned given;
    struct rn_json json;

    if (!rn_front_http_read_object(c, &json))
        return;
    if (rn_params_read_members(members, 3, params, &json, 7, &given) != 0 ||
        rn_json_next(&json).kind != RN_JSON_END)
        rn_front_http_error(c, 400, "bad_request", "%s", json.error.text);
    else if (!params->rule.data)
        rn_front_http_error(c, 400, "bad_request",
                            "\"rule\" is missing: the limit that the request fell under");
    else if (params->status == 0 && params->duration_ns < 0)
        rn_front_http_error(c, 400, "bad_request",
                            "\"status\" and \"duration\" are missing; give at least one of them");
    else if (ration_signal_outcome(c->front->limiter, params->rule.data, params->rule.len,
                                   (unsigned)params->status, params->duration_ns, RATION_NOW) != 0)
        rn_front_http_error(c, 404, "no_rule", "there is no rule %s",
                            rn_excerpt(params->rule).text);
    else
        answer_done(c, 0, "noted", false);
}

static void charge_outcome(struct rn_http_context *c, struct rn_slice ticket, unsigned status)
{
    uint32_t count = 0;
    int code = ration_ticket_charge(c->front->limiter, ticket.data, ticket.len, status, RATION_NOW,
                                    &count);

    if (code == RATION_EINVAL)
        rn_front_http_error(c, 400, "bad_request",
                            "the charge is unknown or damaged: this rationd did not sign it");
    else /* a status that charges nothing counts as charged already */
        answer_done(c, code == 0 && count == 0 ? RATION_EALREADY : code, "charged", false);
}

void rn_front_http_charge(struct rn_http_context *c)
{
    const struct rn_params *params = &c->ws->params;

    if (!rn_front_http_read_params(c, RN_PARAM_CHARGE | RN_PARAM_STATUS))
        return;
    if (params->charge.data && params->status != 0)
        charge_outcome(c, params->charge, (unsigned)params->status);
    else
        rn_front_http_error(c, 400, "bad_request", "%s",
                            params->charge.data
                                ? "\"status\" is missing: that of the answer, such as 401"
                                : "\"charge\" is missing: what check has answered");
}

/* For proxies that can set headers but write no body. They report every request: one without a
 * charge charges nothing. */
void rn_front_http_charge_by_headers(struct rn_http_context *c)
{
    struct rn_slice ticket = rn_http_find(c->request, "x-ration-charge");
    struct rn_slice text = rn_http_find(c->request, "x-ration-status");
    uint64_t status = 0;
    size_t pos = 0;

    if (text.len == 0 || rn_number_parse(text.data, text.len, &pos, &status, NULL) != 0 ||
        pos != text.len || status < RN_STATUS_MIN || status > RN_STATUS_MAX)
        rn_front_http_error(c, 400, "bad_request",
                            "the header X-Ration-Status must be that of the answer, from %d to %d",
                            RN_STATUS_MIN, RN_STATUS_MAX);
    else if (ticket.len == 0)
        answer_done(c, RATION_EALREADY, "charged", false);
    else
        charge_outcome(c, ticket, (unsigned)status);
}
