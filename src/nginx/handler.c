/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One decision for each request of a client. The phase runs again after an internal
 * redirect (an error page, try_files) and for subrequests: they share the context, and so
 * the decision, of the first run.
 */
#include "limiter/decide/fallback.h"
#include "nginx/module.h"

/* A refused request is not delayed, whatever a queue has said. */
static enum rn_ngx_status status_of(const struct ration_outcome *outcome, bool of_places)
{
    enum rn_ngx_status status = RN_NGX_STATUS_NONE;

    for (uint32_t i = 0; i < outcome->listed; i++) {
        const struct ration_outcome_limit *l = &outcome->limits[i];
        int64_t delay_ns = l->shadow ? outcome->shadow_delay_ns : outcome->delay_ns;
        enum rn_ngx_status said = RN_NGX_STATUS_PASSED;

        if ((l->algorithm == RATION_CONCURRENCY) != of_places)
            continue;
        if (!l->verdict.allowed)
            said = l->shadow ? RN_NGX_STATUS_REJECTED_DRY_RUN : RN_NGX_STATUS_REJECTED;
        else if (delay_ns > 0 && l->verdict.delay_ns > 0)
            said = l->shadow ? RN_NGX_STATUS_DELAYED_DRY_RUN : RN_NGX_STATUS_DELAYED;
        else if (outcome->waited_ns > 0 && !l->shadow)
            said = RN_NGX_STATUS_DELAYED;
        if (said > status)
            status = said;
    }
    return status;
}

/* Takes over what later phases and variables need of the decision. */
static void keep_decision(struct rn_ngx_context *context, const struct ration_outcome *outcome)
{
    if (!outcome->decision.allowed)
        context->verdict = RN_NGX_REFUSED;
    else if (outcome->delay_ns > 0 || outcome->waited_ns > 0)
        context->verdict = RN_NGX_DELAYED;
    else if (outcome->shadow_refused)
        context->verdict = RN_NGX_SHADOWED;
    else
        context->verdict = outcome->shadow_delay_ns > 0 ? RN_NGX_SHADOW_DELAYED : RN_NGX_ALLOWED;
    context->rate_status = status_of(outcome, false);
    context->concurrency_status = status_of(outcome, true);
    context->counted = outcome->kind == RATION_BY_LIMITS && outcome->decision.decided_by >= 0;
    context->ban_level = outcome->level;
    context->remaining = outcome->decision.verdict.remaining;
    context->delay_ns = outcome->decision.allowed ? outcome->delay_ns : 0;
    context->waited_ns = outcome->waited_ns;
    memcpy(context->rule, outcome->rule, sizeof context->rule);
}

/* The rule in shadow mode that would have refused, or have delayed longest; the one that
 * decided if none is listed. */
static const char *shadow_rule(const struct ration_outcome *outcome)
{
    const struct ration_outcome_limit *found = NULL;

    for (uint32_t i = 0; i < outcome->listed; i++) {
        const struct ration_outcome_limit *l = &outcome->limits[i];

        if (l->shadow && !l->verdict.allowed)
            return l->rule;
        if (l->shadow && l->verdict.delay_ns > (found ? found->verdict.delay_ns : 0))
            found = l;
    }
    return found ? found->rule : outcome->rule;
}

/* Names of rules come from the administrator. Nothing here comes from the client. */
static void log_verdict(const struct rn_ngx_context *context, const struct ration_outcome *outcome)
{
    ngx_uint_t level = rn_ngx_location_of(context->request)->log_level;
    ngx_log_t *log = context->request->connection->log;

    /* A deny list has no rule. */
    const char *by = context->rule[0] != '\0' ? context->rule : "a list or a ban";
    int64_t retry_ns = outcome->decision.verdict.retry_after_ns;
    ngx_msec_t waited_ms = rn_ngx_milliseconds(context->waited_ns);

    if (waited_ms != 0) {
        ngx_log_error(level + (level < NGX_LOG_DEBUG), log, 0,
                      "ration: waited %M ms in line of \"%s\"", waited_ms, by);
    }
    switch (context->verdict) {
    case RN_NGX_REFUSED:
        if (outcome->level != 0) {
            ngx_log_error(level, log, 0, "ration: banned by \"%s\", level %ui, for %M ms", by,
                          (ngx_uint_t)outcome->level, rn_ngx_milliseconds(retry_ns));
        } else if (retry_ns == RATION_NEVER) {
            ngx_log_error(level, log, 0, "ration: refused by \"%s\"", by);
        } else {
            ngx_log_error(level, log, 0, "ration: refused by \"%s\", retry after %M ms", by,
                          rn_ngx_milliseconds(retry_ns));
        }
        break;
    case RN_NGX_SHADOWED:
        ngx_log_error(level, log, 0, "ration: \"%s\" would refuse, in shadow mode",
                      shadow_rule(outcome));
        break;
    case RN_NGX_SHADOW_DELAYED:
        level += level < NGX_LOG_DEBUG;
        ngx_log_error(level, log, 0, "ration: \"%s\" would delay for %M ms, in shadow mode",
                      shadow_rule(outcome), rn_ngx_milliseconds(outcome->shadow_delay_ns));
        break;
    case RN_NGX_DELAYED:
        if (context->delay_ns == 0)
            break;
        level += level < NGX_LOG_DEBUG;
        ngx_log_error(level, log, 0, "ration: delayed by \"%s\" for %M ms", context->rule,
                      rn_ngx_milliseconds(context->delay_ns));
        break;
    case RN_NGX_ALLOWED:
    case RN_NGX_FAILED:
        break;
    }
}

/* Fills the worker's outcome; 0, RATION_EWAITS, or an error code after logging it. */
static int decide(struct rn_ngx_context *context)
{
    struct rn_ngx_worker *worker = context->worker;
    struct ration_request request;
    int code = RATION_ENOMEM;

    if (context->question == RN_NGX_ANSWERED)
        return 0;
    if (rn_ngx_attributes_read(context->request, worker, false, &request) == NGX_OK) {
        if (worker->waiting)
            rn_ngx_line_allow(context, &request);
        code = context->question == RN_NGX_UNANSWERED
                   ? rn_fallback_decide(worker->limiter, &request, RATION_NOW, &worker->outcome)
                   : ration_decide(worker->limiter, &request, RATION_NOW, &worker->outcome);
    }
    if (code == 0 && context->rationd_line)
        worker->outcome.waited_ns += context->rationd_line->waited_ns;
    if (code != 0 && code != RATION_EWAITS) {
        ngx_log_error(NGX_LOG_ERR, context->request->connection->log, 0,
                      "ration: no decision could be made: %s",
                      code == RATION_EINVAL ? "more limits apply than can be decided together"
                                            : ration_error_text(code));
    }
    return code;
}

/* Every verdict but "allowed, no headers". */
static RN_ASIDE ngx_int_t carry_out(struct rn_ngx_context *context, struct ration_outcome *outcome)
{
    /* Refusals and decisions of rationd carry no time. */
    int64_t now_ns = outcome->at_ns != 0 ? outcome->at_ns : ration_now(context->worker->limiter);

    if (rn_ngx_headers_note(context, outcome, now_ns) != NGX_OK)
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    log_verdict(context, outcome);
    if (context->verdict == RN_NGX_REFUSED)
        return rn_ngx_refuse(context, outcome, now_ns);
    return context->delay_ns > 0 ? rn_ngx_delay_begin(context, now_ns) : NGX_DECLINED;
}

/* Decides and carries it out. An error is not a refusal: the client did nothing wrong. */
RN_HOT static ngx_int_t rule_on(struct rn_ngx_context *context)
{
    const struct rn_ngx_location *location = rn_ngx_location_of(context->request);
    struct ration_outcome *outcome = &context->worker->outcome;
    int code = decide(context);

    if (code == RATION_EWAITS)
        return rn_ngx_line_wait(context);
    context->ruled = true;
    if (context->waiter)
        rn_ngx_line_end(context);
    if (code != 0)
        return NGX_HTTP_SERVICE_UNAVAILABLE;
    /* Directives of the location come before settings of the rule. */
    if (location->headers != RN_NGX_HEADERS_OF_RULE)
        outcome->headers = (enum ration_header_family)location->headers;
    if (location->status != 0 && outcome->kind == RATION_BY_LIMITS)
        outcome->status = (uint16_t)location->status;
    keep_decision(context, outcome);
    if ((outcome->place_count != 0 && rn_ngx_places_hold(context, outcome) != NGX_OK) ||
        ((outcome->due_count | context->worker->observes) != 0 &&
         rn_ngx_charge_later_note(context, outcome) != NGX_OK))
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    if (context->verdict == RN_NGX_ALLOWED && outcome->headers == RATION_HEADERS_NONE)
        return NGX_DECLINED;
    return carry_out(context, outcome);
}

/* The handler's first run for a request. */
static ngx_int_t begin(ngx_http_request_t *r, struct rn_ngx_worker *worker)
{
    const struct rn_ngx_location *location = rn_ngx_location_of(r);
    struct rn_ngx_context *context;
    ngx_int_t code = NGX_DECLINED;

    if (location->mode == RN_NGX_OFF)
        return NGX_DECLINED;
    context = rn_ngx_context_new(r, worker);
    if (!context)
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    context->verdict = RN_NGX_FAILED; /* until there is one */
    if (location->server)
        code = rn_ngx_ask(context);
    if (code == NGX_DECLINED)
        return rule_on(context);
    context->ruled = code != NGX_AGAIN;
    return code;
}

RN_HOT ngx_int_t rn_ngx_handler(ngx_http_request_t *r)
{
    struct rn_ngx_worker *worker = rn_ngx_main_of(r)->worker;
    struct rn_ngx_context *context;

    if (r != r->main || !worker)
        return NGX_DECLINED;
    context = rn_ngx_context_find(r);
    if (!context)
        return begin(r, worker);
    if (context->question == RN_NGX_ASKED || context->question == RN_NGX_IN_LINE)
        return rn_ngx_pause(context);
    if (!context->ruled)
        return rule_on(context);
    return context->waiting ? rn_ngx_delay_check(context) : NGX_DECLINED;
}
