/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is held between two requests: reservations, places, and what is charged by
 * outcome. The ticket that the caller keeps says all; the daemon remembers nothing.
 */
#include "front/http/http_internal.h"

#define HOLDING (RN_PARAM_ATTRIBUTES | RN_PARAM_KEY | RN_PARAM_COST | RN_PARAM_FOR)

void rn_front_http_reserve(struct rn_http_context *c)
{
    if (rn_front_http_read_params(c, HOLDING))
        rn_front_http_decide(c, RN_RESERVE);
}

void rn_front_http_acquire(struct rn_http_context *c)
{
    if (rn_front_http_read_params(c, HOLDING))
        rn_front_http_decide(c, RN_ACQUIRE);
}

/* Reads a body that names a lease. */
static bool read_lease(struct rn_http_context *c, unsigned members)
{
    if (!rn_front_http_read_params(c, RN_PARAM_LEASE | members))
        return false;
    if (c->ws->params.lease.data)
        return true;
    rn_front_http_error(c, 400, "bad_request",
                        "\"lease\" is missing: what reserve or acquire has answered");
    return false;
}

static bool read_charge(struct rn_http_context *c)
{
    const struct rn_params *params = &c->ws->params;

    if (!rn_front_http_read_params(c, RN_PARAM_CHARGE))
        return false;
    if (params->charge.data && params->status != 0)
        return true;
    rn_front_http_error(c, 400, "bad_request", "%s",
                        params->charge.data
                            ? "\"status\" is missing: that of the answer, such as 401"
                            : "\"charge\" is missing: what check has answered");
    return false;
}

/* {"committed":true}; EALREADY: false. What has ended is 410 unless `mild`. */
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
        rn_front_http_error(c, 400, "bad_request", "\"lease\" is none of this daemon's");
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

void rn_front_http_refund(struct rn_http_context *c)
{
    struct rn_slice lease;

    if (!read_lease(c, 0))
        return;
    lease = c->ws->params.lease;
    answer_done(c, ration_ticket_refund(c->front->limiter, lease.data, lease.len, RATION_NOW),
                "refunded", false);
}

void rn_front_http_release(struct rn_http_context *c)
{
    struct rn_slice lease;

    if (!read_lease(c, 0))
        return;
    lease = c->ws->params.lease;
    answer_done(c, ration_ticket_release(c->front->limiter, lease.data, lease.len, RATION_NOW),
                "released", true);
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

    if (!read_charge(c))
        return;
    code = ration_ticket_charge(c->front->limiter, params->charge.data, params->charge.len,
                                (unsigned)params->status, RATION_NOW, &count);
    if (code == RATION_EINVAL)
        rn_front_http_error(c, 400, "bad_request", "\"charge\" is none of this daemon's");
    else /* a status that charges nothing is as good as one that has been charged */
        answer_done(c, code == 0 && count == 0 ? RATION_EALREADY : code, "charged", false);
}
