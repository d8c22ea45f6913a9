/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reservations, places and charges by outcome: what lasts from one request to another. The
 * ticket that the caller keeps has all of it; the daemon remembers nothing.
 */
#include "front/http/conversation.h"

#define RESERVING (RN_PARAM_ATTRIBUTES | RN_PARAM_KEYED | RN_PARAM_COST | RN_PARAM_FOR)

void rn_front_http_reserve(struct rn_http_context *c)
{
    if (rn_front_http_read_params(c, RESERVING))
        rn_front_http_decide(c, RN_RESERVE);
}

void rn_front_http_acquire(struct rn_http_context *c)
{
    if (rn_front_http_read_params(c, RESERVING))
        rn_front_http_decide(c, RN_ACQUIRE);
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

void rn_front_http_charge(struct rn_http_context *c)
{
    const struct rn_params *params = &c->ws->params;
    uint32_t count = 0;
    int code;

    if (!rn_front_http_read_params(c, RN_PARAM_CHARGE | RN_PARAM_STATUS))
        return;
    if (!params->charge.data || params->status == 0) {
        rn_front_http_error(c, 400, "bad_request", "%s",
                            params->charge.data
                                ? "\"status\" is missing: that of the answer, such as 401"
                                : "\"charge\" is missing: what check has answered");
        return;
    }
    code = ration_ticket_charge(c->front->limiter, params->charge.data, params->charge.len,
                                (unsigned)params->status, RATION_NOW, &count);
    if (code == RATION_EINVAL)
        rn_front_http_error(c, 400, "bad_request",
                            "\"charge\" is unknown or damaged: this rationd did not sign it");
    else /* a status that charges nothing counts as charged already */
        answer_done(c, code == 0 && count == 0 ? RATION_EALREADY : code, "charged", false);
}
