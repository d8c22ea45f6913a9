/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changing what a client has spent.
 */
#include "front/admin/admin_internal.h"
#include "rules/report/report.h"

/* Without the rule's name, all rules that apply. */
static struct rn_slice rule_text(const struct rn_admin_params *params)
{
    return params->rule.data ? params->rule : RN_SLICE("all");
}

static void fail(struct rn_http_context *c, int code, const struct rn_admin_params *params)
{
    switch (code) {
    case RATION_ENORULE:
        rn_admin_refuse_rule(c, params->rule);
        break;
    case RATION_EUNMATCHED:
        rn_admin_refuse_unmatched(c, params->rule);
        break;
    case RATION_EPLACES:
        rn_front_http_error(c, 400, "bad_request",
                            "places of a concurrency limit are released or reset, not adjusted");
        break;
    case RATION_EINVAL:
        rn_front_http_error(c, 400, "bad_request",
                            "more limits apply to these attributes than can be changed together");
        break;
    default:
        rn_front_http_error(c, 503, "store", "%s", ration_error_text(code));
    }
}

/* Nobody is meant by accident. */
static bool has_client(struct rn_http_context *c, const struct rn_admin_params *params)
{
    if (params->given & RN_ADMIN_ATTRIBUTES)
        return true;
    rn_front_http_error(c, 400, "bad_request",
                        "\"attributes\" are missing: the client's, as in its requests, such as "
                        "{\"ip\": \"192.0.2.7\", \"path\": \"/login\"}");
    return false;
}

void rn_admin_reset(struct rn_http_context *c)
{
    struct ration_request request;
    struct rn_admin_params params;
    struct rn_members m;
    uint32_t count = 0;
    int code;

    if (!rn_admin_read(c, &params, RN_ADMIN_ATTRIBUTES | RN_ADMIN_RULE) || !has_client(c, &params))
        return;
    request = rn_admin_request(c);
    code = ration_state_reset(c->front->limiter, &request, params.rule.data, params.rule.len,
                              RATION_NOW, &count);
    if (code != 0) {
        fail(c, code, &params);
        return;
    }
    rn_admin_log(c, "state.reset", RN_LOG_TEXT("rule", rule_text(&params)),
                 RN_LOG_TEXT("client", rn_admin_client(c)), RN_LOG_NUMBER("limits", count));
    m = rn_admin_begin(c);
    rn_members_u64(&m, "reset", count);
    rn_admin_end(c, &m, 200);
}

/* One of "add" and "remaining". */
static bool is_complete(struct rn_http_context *c, const struct rn_admin_params *params)
{
    unsigned both = RN_ADMIN_ADD | RN_ADMIN_REMAINING;

    if ((params->given & both) != 0 && (params->given & both) != both)
        return true;
    rn_front_http_error(c, 400, "bad_request",
                        "give \"add\" (units to charge, below 0 to give back) or \"remaining\" "
                        "(units to leave)%s",
                        params->given & both ? ", not both" : "");
    return false;
}

void rn_admin_adjust(struct rn_http_context *c)
{
    struct ration_request request;
    struct rn_admin_params params;
    struct rn_members m;
    bool add;
    int code;

    if (!rn_admin_read(c, &params,
                       RN_ADMIN_ATTRIBUTES | RN_ADMIN_RULE | RN_ADMIN_ADD | RN_ADMIN_REMAINING) ||
        !has_client(c, &params) || !is_complete(c, &params))
        return;
    add = params.given & RN_ADMIN_ADD;
    request = rn_admin_request(c);
    code = add ? ration_state_adjust(c->front->limiter, &request, params.rule.data, params.rule.len,
                                     params.add, RATION_NOW)
               : ration_state_set_remaining(c->front->limiter, &request, params.rule.data,
                                            params.rule.len, params.remaining, RATION_NOW);
    if (code != 0) {
        fail(c, code, &params);
        return;
    }
    rn_admin_log(c, "state.adjust", RN_LOG_TEXT("rule", rule_text(&params)),
                 RN_LOG_TEXT("client", rn_admin_client(c)),
                 add ? RN_LOG_NUMBER("add", params.add)
                     : RN_LOG_NUMBER("remaining", params.remaining));
    m = rn_admin_begin(c);
    if (rn_admin_put_limits(c, &m, params.rule))
        rn_admin_end(c, &m, 200);
}
