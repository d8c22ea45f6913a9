/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Changing what a client has spent.
 */
#include "front/admin/admin_internal.h"
#include "rules/report/report.h"

/* Without the rule's name, all rules that apply. */
static struct rn_slice rule_text(const struct rn_change *change)
{
    return change->rule.data ? change->rule : RN_SLICE("all");
}

static void fail(struct rn_exchange *x, int code, const struct rn_change *change)
{
    switch (code) {
    case RATION_ENORULE:
        rn_admin_refuse_rule(x, change->rule);
        break;
    case RATION_EUNMATCHED:
        rn_admin_refuse_unmatched(x, change->rule);
        break;
    case RATION_EPLACES:
        rn_exchange_error(x, 400, "bad_request",
                          "places of a concurrency limit are released or reset, not adjusted");
        break;
    case RATION_EINVAL:
        rn_exchange_error(x, 400, "bad_request",
                          "more limits apply to these attributes than can be changed together");
        break;
    default:
        rn_exchange_error(x, 503, "store", "%s", ration_error_text(code));
    }
}

/* Nobody is meant by accident. */
static bool has_client(struct rn_exchange *x, const struct rn_change *change)
{
    if (change->given & RN_CHANGE_ATTRIBUTES)
        return true;
    rn_exchange_error(x, 400, "bad_request",
                      "\"attributes\" are missing: the client's, as in its requests, such as "
                      "{\"ip\": \"192.0.2.7\", \"path\": \"/login\"}");
    return false;
}

void rn_admin_reset(struct rn_exchange *x)
{
    struct ration_request request;
    struct rn_change change;
    struct rn_members m;
    uint32_t count = 0;
    int code;

    if (!rn_admin_read(x, &change, RN_CHANGE_ATTRIBUTES | RN_CHANGE_RULE) ||
        !has_client(x, &change))
        return;
    request = rn_admin_request(x);
    code = ration_state_reset(x->front->limiter, &request, change.rule.data, change.rule.len,
                              RATION_NOW, &count);
    if (code != 0) {
        fail(x, code, &change);
        return;
    }
    rn_admin_log(x, "state.reset", RN_LOG_TEXT("rule", rule_text(&change)),
                 RN_LOG_TEXT("client", rn_admin_client(x)), RN_LOG_NUMBER("limits", count));
    m = rn_admin_begin(x);
    rn_members_u64(&m, "reset", count);
    rn_admin_end(x, &m, 200);
}

/* One of "add" and "remaining". */
static bool is_complete(struct rn_exchange *x, const struct rn_change *change)
{
    unsigned both = RN_CHANGE_ADD | RN_CHANGE_REMAINING;

    if ((change->given & both) != 0 && (change->given & both) != both)
        return true;
    rn_exchange_error(x, 400, "bad_request",
                      "give \"add\" (units to charge, below 0 to give back) or \"remaining\" "
                      "(units to leave)%s",
                      change->given & both ? ", not both" : "");
    return false;
}

void rn_admin_adjust(struct rn_exchange *x)
{
    struct ration_request request;
    struct rn_change change;
    struct rn_members m;
    bool add;
    int code;

    if (!rn_admin_read(x, &change,
                       RN_CHANGE_ATTRIBUTES | RN_CHANGE_RULE | RN_CHANGE_ADD |
                           RN_CHANGE_REMAINING) ||
        !has_client(x, &change) || !is_complete(x, &change))
        return;
    add = change.given & RN_CHANGE_ADD;
    request = rn_admin_request(x);
    code = add ? ration_state_adjust(x->front->limiter, &request, change.rule.data, change.rule.len,
                                     change.add, RATION_NOW)
               : ration_state_set_remaining(x->front->limiter, &request, change.rule.data,
                                            change.rule.len, change.remaining, RATION_NOW);
    if (code != 0) {
        fail(x, code, &change);
        return;
    }
    rn_admin_log(x, "state.adjust", RN_LOG_TEXT("rule", rule_text(&change)),
                 RN_LOG_TEXT("client", rn_admin_client(x)),
                 add ? RN_LOG_NUMBER("add", change.add)
                     : RN_LOG_NUMBER("remaining", change.remaining));
    m = rn_admin_begin(x);
    if (rn_admin_put_limits(x, &m, change.rule))
        rn_admin_end(x, &m, 200);
}
