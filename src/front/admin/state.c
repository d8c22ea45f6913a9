/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limits of one client: why a rule applies or not, what is left, and changing what was
 * spent.
 */
#include <inttypes.h>

#include "front/admin/admin_internal.h"
#include "limiter/limiter.h"
#include "limiter/top.h"
#include "rules/match/reason.h"
#include "rules/report/report.h"
#include "wire/explanation.h"

static void refuse_store(struct rn_http_context *c, int code)
{
    if (code == RATION_EINVAL)
        rn_front_http_error(c, 400, "bad_request",
                            "more limits apply to these attributes than can be decided together");
    else
        rn_front_http_error(c, 503, "store", "%s", ration_error_text(code));
}

void rn_admin_explain(struct rn_http_context *c)
{
    struct ration *limiter = c->front->limiter;
    struct ration_outcome *outcome = &c->ws->decision.outcome;
    int64_t now_ns = ration_now(limiter);
    struct ration_request request;
    struct rn_admin_params params;
    struct rn_members m;
    int code;

    if (!rn_admin_read(c, &params, RN_ADMIN_ATTRIBUTES | RN_ADMIN_COST | RN_ADMIN_MATCHING))
        return;
    request = rn_admin_request(c);
    code = ration_decide_peek(limiter, &request, RATION_NOW, outcome);
    if (code == 0) {
        m = rn_admin_begin(c);
        code = rn_explanation_put(
            &m, limiter,
            &(struct rn_explanation){&request, outcome, now_ns, params.matching, NULL});
    }
    if (code != 0)
        refuse_store(c, code);
    else
        rn_admin_end(c, &m, 200);
}

/* --- a rule that does not apply --------------------------------------------------------------- */

struct reason {
    struct rn_buf words;
    struct rn_slice rule;
    bool found, listed;
};

static void word_list(void *arg, const struct rn_explained_request *request)
{
    const struct rn_list_entry *entry = request->entry;
    struct reason *reason = arg;

    reason->listed = entry != NULL;
    if (entry)
        rn_buf_putf(&reason->words, "the %s list applies (%.*s:%" PRIu32 ")",
                    entry->deny ? "deny" : "allow", (int)entry->file.len, entry->file.data,
                    entry->line);
}

static int word_rule(void *arg, const struct rn_explained_rule *seen)
{
    struct reason *reason = arg;

    if (!rn_slice_equal(reason->rule, seen->rule->name))
        return 0;
    if (!reason->listed)
        rn_reason_write(&reason->words, seen->ruleset, seen->rule, seen->values, seen->reason);
    reason->found = true;
    return 1;
}

static void refuse_unmatched(struct rn_http_context *c, struct rn_slice rule)
{
    struct ration_request request = rn_admin_request(c);
    struct reason reason = {.rule = rule};
    struct rn_excerpt name = rn_excerpt(rule);

    int code = rn_explain_run(c->front->limiter, &(struct rn_explain){.request = &request,
                                                                      .now_ns = RATION_NOW,
                                                                      .arg = &reason,
                                                                      .begin = word_list,
                                                                      .see = word_rule});

    if (code != 0)
        refuse_store(c, code);
    else if (!reason.found)
        rn_front_http_error(c, 400, "unmatched",
                            "rule %s is found by descriptors, not by attributes", name.text);
    else if (reason.listed)
        rn_front_http_error(c, 400, "unmatched", "no rule is asked: %.*s", (int)reason.words.len,
                            reason.words.data);
    else
        rn_front_http_error(c, 400, "unmatched", "rule %s does not apply to these attributes: %.*s",
                            name.text, (int)reason.words.len, reason.words.data);
    rn_buf_done(&reason.words);
}

/* --- what is left -------------------------------------------------------------------------- */

struct listing {
    struct rn_members *m;
    struct ration *r;
    struct rn_slice rule; /* data NULL: all */
    bool found;
    int error; /* of the store */
};

static int list_limits(void *arg, const struct rn_explained_rule *seen)
{
    struct listing *l = arg;

    if (!seen->applies || (l->rule.data && !rn_slice_equal(l->rule, seen->rule->name)))
        return 0;
    l->error = rn_explanation_put_limits(l->m, seen);
    l->found = true;
    return l->error;
}

/* The limits of `rule` (data NULL: of all rules that apply) as they are now: a member "limits".
 * False after answering, for instance that the rule does not apply. */
static bool put_limits(struct rn_http_context *c, struct rn_members *m, struct rn_slice rule)
{
    struct ration_request request = rn_admin_request(c);
    struct listing l = {.m = m, .rule = rule};

    rn_members_open(m, "limits", '[');
    int code = rn_explain_run(c->front->limiter, &(struct rn_explain){.request = &request,
                                                                      .now_ns = RATION_NOW,
                                                                      .arg = &l,
                                                                      .see = list_limits});

    l.error = l.error != 0 ? l.error : code;
    rn_members_close(m, ']');
    if (l.error != 0)
        refuse_store(c, l.error);
    else if (rule.data && !l.found)
        refuse_unmatched(c, rule);
    else
        return true;
    return false;
}

/* The member `paused` is there if the client is, under one of the rules. */
static int list_pause(void *arg, const struct rn_explained_rule *seen)
{
    struct listing *l = arg;

    if (!seen->applies || seen->pause_ns == 0 ||
        (l->rule.data && !rn_slice_equal(l->rule, seen->rule->name)))
        return 0;
    if (!l->found)
        rn_members_open(l->m, "paused", '[');
    l->found = true;
    rn_members_open(l->m, NULL, '{');
    rn_members_text(l->m, "rule", seen->rule->name);
    rn_members_seconds(l->m, "rest", seen->pause_ns);
    rn_members_close(l->m, '}');
    return 0;
}

/* What one rule keeps of the client. The member `reputation` is there if a rule keeps something. */
static int list_reputation(void *arg, const struct rn_explained_rule *seen)
{
    struct listing *l = arg;

    if (!seen->applies || (!seen->rule->escalate && !seen->rule->earn) ||
        (l->rule.data && !rn_slice_equal(l->rule, seen->rule->name)))
        return 0;
    if (!l->found)
        rn_members_open(l->m, "reputation", '[');
    l->found = true;
    rn_members_open(l->m, NULL, '{');
    rn_members_text(l->m, "rule", seen->rule->name);
    rn_explanation_put_reputation(l->m, seen);
    rn_members_close(l->m, '}');
    return 0;
}

/* When the rule has refused the client lately. The member `refusals` is there if the client is
 * among the keys that are refused most. */
static int list_refusals(void *arg, const struct rn_explained_rule *seen)
{
    struct listing *l = arg;
    int64_t at_ns[RN_TOP_LAST];

    if (!seen->applies || (l->rule.data && !rn_slice_equal(l->rule, seen->rule->name)) ||
        rn_top_last(l->r->top, seen->hash, at_ns) == 0)
        return 0;
    if (!l->found)
        rn_members_open(l->m, "refusals", '[');
    l->found = true;
    rn_members_open(l->m, NULL, '{');
    rn_members_text(l->m, "rule", seen->rule->name);
    rn_admin_put_last(l->m, l->r, seen->hash);
    rn_members_close(l->m, '}');
    return 0;
}

/* A list of what `see` finds of the rules that apply. False after answering. */
static bool put_list(struct rn_http_context *c, struct rn_members *m, struct rn_slice rule,
                     int (*see)(void *arg, const struct rn_explained_rule *seen))
{
    struct ration_request request = rn_admin_request(c);
    struct listing l = {.m = m, .r = c->front->limiter, .rule = rule};
    int code = rn_explain_run(
        c->front->limiter,
        &(struct rn_explain){.request = &request, .now_ns = RATION_NOW, .arg = &l, .see = see});

    if (l.found)
        rn_members_close(m, ']');
    if (code != 0)
        refuse_store(c, code);
    return code == 0;
}

void rn_admin_get_state(struct rn_http_context *c)
{
    struct rn_admin_params params;
    struct rn_members m;

    if (!rn_admin_read_query(c, &params, RN_ADMIN_ATTRIBUTES | RN_ADMIN_RULE) ||
        (params.rule.data && !rn_admin_find_rule(c, params.rule)))
        return;
    m = rn_admin_begin(c);
    if (put_limits(c, &m, params.rule) && put_list(c, &m, params.rule, list_reputation) &&
        put_list(c, &m, params.rule, list_pause) && put_list(c, &m, params.rule, list_refusals))
        rn_admin_end(c, &m, 200);
}

/* --- changes ------------------------------------------------------------------------------- */

/* For the log. Without a name, a change is for all rules that apply. */
static struct rn_slice rule_text(const struct rn_admin_params *params)
{
    return params->rule.data ? params->rule : RN_SLICE("all");
}

void rn_admin_fail_state(struct rn_http_context *c, int code, struct rn_slice rule)
{
    switch (code) {
    case RATION_ENORULE:
        (void)rn_admin_find_rule(c, rule); /* answers that there is none */
        break;
    case RATION_EUNMATCHED:
        refuse_unmatched(c, rule);
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

/* Without attributes a change would be for clients that have none; that is a mistake. */
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
        rn_admin_fail_state(c, code, params.rule);
        return;
    }
    rn_admin_log(c, "state.reset", RN_LOG_TEXT("rule", rule_text(&params)),
                 RN_LOG_TEXT("client", rn_admin_client(c)), RN_LOG_NUMBER("limits", count));
    m = rn_admin_begin(c);
    rn_members_u64(&m, "reset", count);
    rn_admin_end(c, &m, 200);
}

void rn_admin_adjust(struct rn_http_context *c)
{
    struct ration_request request;
    struct rn_admin_params params;
    struct rn_members m;
    bool add, remaining;
    int code;

    if (!rn_admin_read(c, &params,
                       RN_ADMIN_ATTRIBUTES | RN_ADMIN_RULE | RN_ADMIN_ADD | RN_ADMIN_REMAINING) ||
        !has_client(c, &params))
        return;
    add = params.given & RN_ADMIN_ADD;
    remaining = params.given & RN_ADMIN_REMAINING;
    if (add == remaining) {
        rn_front_http_error(c, 400, "bad_request",
                            "give \"add\" (units to charge, below 0 to give back) or \"remaining\" "
                            "(units to leave)%s",
                            add ? ", not both" : "");
        return;
    }
    request = rn_admin_request(c);
    code = add ? ration_state_adjust(c->front->limiter, &request, params.rule.data, params.rule.len,
                                     params.add, RATION_NOW)
               : ration_state_set_remaining(c->front->limiter, &request, params.rule.data,
                                            params.rule.len, params.remaining, RATION_NOW);
    if (code != 0) {
        rn_admin_fail_state(c, code, params.rule);
        return;
    }
    rn_admin_log(c, "state.adjust", RN_LOG_TEXT("rule", rule_text(&params)),
                 RN_LOG_TEXT("client", rn_admin_client(c)),
                 add ? RN_LOG_NUMBER("add", params.add)
                     : RN_LOG_NUMBER("remaining", params.remaining));
    m = rn_admin_begin(c);
    if (put_limits(c, &m, params.rule))
        rn_admin_end(c, &m, 200);
}
