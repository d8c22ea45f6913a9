/* SPDX-License-Identifier: Apache-2.0 */
#include "front/decision.h"

#include <string.h>

#include "base/error.h"
#include "limiter/limiter.h"
#include "limiter/rulebook/explain.h"
#include "limiter/tickets/ticket.h"

/* --- a limit that comes with the request
 * ------------------------------------------------------------ */

void rn_decision_from_charge(struct ration_outcome *out, const struct ration_charge *c,
                             const struct ration_limit *limit)
{
    bool unlimited = limit->algorithm == RATION_UNLIMITED;

    memset(out, 0, offsetof(struct ration_outcome, limits));
    out->decision = (struct ration_decision){
        .allowed = c->verdict.allowed, .decided_by = unlimited ? -1 : 0, .verdict = c->verdict};
    out->kind = RATION_BY_LIMITS;
    out->delay_ns = c->verdict.delay_ns;
    out->status = 429;
    out->headers = RATION_HEADERS_BOTH;
    out->limit_count = out->listed = !unlimited;
    out->limits[0] = (struct ration_outcome_limit){.verdict = c->verdict,
                                                   .algorithm = limit->algorithm,
                                                   .amount = limit->amount,
                                                   .period_ns = limit->period_ns};
    out->lease = 0;
    out->place_count = out->due_count = 0;
    if (rn_unlikely(c->paused)) { /* no limit was asked */
        out->kind = RATION_BY_PAUSE;
        out->decision.decided_by = -1;
        out->limit_count = out->listed = 0;
    }
}

/* A queue that is too long for this caller would refuse it. */
static int peek(struct ration *r, struct ration_charge *c, int64_t now_ns)
{
    struct ration_verdict *v = &c->verdict;
    int code = ration_peek(r, c, now_ns);

    if (code != 0 || c->max_wait_ns <= 0 || !v->allowed || v->delay_ns <= c->max_wait_ns)
        return code;
    v->allowed = false;
    v->retry_after_ns = v->delay_ns - c->max_wait_ns;
    v->delay_ns = 0;
    return 0;
}

static int64_t longest_wait_ns(const struct rn_params *params)
{
    return params->max_wait_ns == 0 && params->wait == RN_WAIT_HOLD ? RN_REPLY_DELAY_MAX_NS
                                                                    : params->max_wait_ns;
}

static int decide_by_limit(struct ration *r, const struct rn_params *params, enum rn_verb verb,
                           struct ration_waiter *waiter, struct rn_decision *d,
                           struct ration_error *error)
{
    bool places = params->limit.algorithm == RATION_CONCURRENCY;
    int64_t for_ns = params->for_ns;
    int code = 0;

    if (places != (verb == RN_ACQUIRE))
        return rn_error_set(
            error, RATION_EINVAL, 0, "%s",
            places ? "a limit of places (\"20 concurrent\") is acquired and released, not charged; "
                     "use acquire"
                   : "only places can be acquired; write a limit such as \"20 concurrent\"");
    d->limit = params->limit;
    d->charge = (struct ration_charge){.ad_hoc = &d->limit,
                                       .key = params->key.data,
                                       .key_len = params->key.len,
                                       .cost = params->cost,
                                       .drain = params->drain,
                                       .max_wait_ns = longest_wait_ns(params),
                                       .waiter = waiter};
    switch (verb) {
    case RN_RESERVE:
        code = ration_reserve_ticket(r, &d->charge, for_ns ? for_ns : RN_RESERVE_FOR_NS, d->at_ns,
                                     d->lease_ticket);
        break;
    case RN_ACQUIRE:
        code = ration_acquire_ticket(r, &d->charge, for_ns, d->at_ns, d->lease_ticket);
        break;
    case RN_CHECK:
        code = params->credit ? ration_credit(r, &d->charge, d->at_ns)
               : params->peek ? peek(r, &d->charge, d->at_ns)
                              : ration_take(r, &d->charge, d->at_ns);
        break;
    }
    if (code == 0)
        rn_decision_from_charge(&d->outcome, &d->charge, &d->limit);
    else if (code != RATION_EWAITS)
        (void)rn_limiter_judge(r, &params->limit, error);
    return code;
}

/* --- rules ---------------------------------------------------------------------------------- */

/* Gives units back to all limits that apply. The answer is that of a peek, without refusal. */
static int credit(struct ration *r, const struct rn_params *params, struct rn_decision *d)
{
    struct ration_request request = {.attributes = params->attributes,
                                     .count = params->attribute_count};
    struct ration_decision *decision = &d->outcome.decision;
    int64_t units = (int64_t)(params->cost < INT64_MAX ? params->cost : INT64_MAX);
    int code = ration_state_adjust(r, &request, NULL, 0, -units, d->at_ns);

    if (code == 0)
        code = ration_decide_peek(r, &request, d->at_ns, &d->outcome);
    if (code != 0)
        return code;
    decision->allowed = decision->verdict.allowed = true;
    decision->verdict.retry_after_ns = decision->verdict.delay_ns = d->outcome.delay_ns = 0;
    d->outcome.due_count = 0;
    return 0;
}

static int ask_rules(struct ration *r, const struct rn_params *params, enum rn_verb verb,
                     struct ration_waiter *waiter, struct rn_decision *d)
{
    struct ration_request request = {.attributes = params->attributes,
                                     .count = params->attribute_count,
                                     .cost = params->cost,
                                     .max_wait_ns = longest_wait_ns(params),
                                     .drain = params->drain,
                                     .shadow = params->shadow,
                                     .waiter = waiter};
    int64_t for_ns = params->for_ns;

    switch (verb) {
    case RN_RESERVE:
        return ration_decide_reserve(r, &request, for_ns ? for_ns : RN_RESERVE_FOR_NS, d->at_ns,
                                     &d->outcome, d->lease_ticket);
    case RN_ACQUIRE:
        return ration_acquire_request(r, &request, for_ns, d->at_ns, &d->outcome, d->lease_ticket);
    case RN_CHECK:
        break;
    }
    if (params->credit)
        return credit(r, params, d);
    if (params->peek || params->cost == 0)
        return ration_decide_peek(r, &request, d->at_ns, &d->outcome);
    return ration_decide(r, &request, d->at_ns, &d->outcome);
}

static int explain_error(int code, struct ration_error *error)
{
    switch (code) {
    case RATION_EINVAL:
        return rn_error_set(error, code, 0,
                            "more limits apply to this request than can be decided together");
    case RATION_ESEVERAL:
        return rn_error_set(error, RATION_EINVAL, 0,
                            "several limits apply to this request; drain works under a single "
                            "one, so leave it out or ask /v1/throttle or RATION.TAKE");
    case RATION_EPLACES:
        return rn_error_set(error, RATION_EINVAL, 0,
                            "a limit of places (\"20 concurrent\") applies to this request; "
                            "places are released, and can be neither drained nor given back");
    default:
        return code;
    }
}

static int decide_by_rules(struct ration *r, const struct rn_params *params, enum rn_verb verb,
                           struct ration_waiter *waiter, struct rn_decision *d,
                           struct ration_error *error)
{
    int code = ask_rules(r, params, verb, waiter, d);

    if (code != 0)
        return explain_error(code, error);
    if (d->outcome.kind == RATION_BY_NO_RULE)
        rn_explain_unused_attribute(r, params->attributes, params->attribute_count,
                                    d->outcome.message);
    /* With FULL the caller waits itself, unless the reply is delayed here (never for places): it
     * gets a ticket with which it can leave the queue. So does one that was in line: its client may
     * leave before it is told. */
    if (params->full && (d->outcome.delay_ns > 0 || d->outcome.waited_ns > 0) &&
        (verb == RN_ACQUIRE || rn_decision_reply_delay_ns(params, d) == 0))
        rn_ticket_issue_delay(r, &d->outcome, d->queue_ticket);
    if (d->outcome.due_count == 0)
        return 0;
    return ration_outcome_ticket(r, &d->outcome, RN_CHARGE_TICKET_NS, d->charge_ticket);
}

/* --- both ----------------------------------------------------------------------------------- */

/* Refuses parameters that do not go together. */
static int check_verb(const struct rn_params *params, enum rn_verb verb, struct ration_error *error)
{
    bool alone = !params->peek && params->wait == RN_WAIT_AS_RULE && params->max_wait_ns == 0 &&
                 verb == RN_CHECK;

    if (verb != RN_CHECK && params->cost == 0) /* elsewhere 0 only looks; here it would mean 1 */
        return rn_error_set(error, RATION_EINVAL, 0,
                            "\"cost\" must be 1 or more to reserve units or to acquire places");
    if (params->credit && (params->drain || !alone))
        return rn_error_set(error, RATION_EINVAL, 0,
                            "a negative cost gives units back; peek, drain, wait and lease do not "
                            "go with that");
    if (params->drain && !alone)
        return rn_error_set(error, RATION_EINVAL, 0,
                            "drain takes what is left; peek, wait and lease do not go with that");
    return 0;
}

int rn_decision_make(struct ration *r, const struct rn_params *params, enum rn_verb verb,
                     struct ration_waiter *waiter, struct rn_decision *d,
                     struct ration_error *error)
{
    int code = 0;

    d->at_ns = ration_now(r);
    d->lease_ticket[0] = d->charge_ticket[0] = d->queue_ticket[0] = '\0';
    d->by_limit = params->by_limit;
    error->text[0] = '\0';
    if (verb != RN_CHECK || params->credit || params->drain)
        code = check_verb(params, verb, error);
    if (code != 0)
        return code;
    code = params->by_limit ? decide_by_limit(r, params, verb, waiter, d, error)
                            : decide_by_rules(r, params, verb, waiter, d, error);
    if (code != 0 && error->text[0] == '\0')
        rn_error_set(error, code, 0, "%s", ration_error_text(code));
    return code;
}

int64_t rn_decision_reply_delay_ns(const struct rn_params *params, const struct rn_decision *d)
{
    const struct ration_outcome *out = &d->outcome;
    bool hold = params->wait == RN_WAIT_HOLD || (params->wait == RN_WAIT_AS_RULE && out->hold);

    if (!hold || params->line || params->peek || !out->decision.allowed || out->delay_ns <= 0)
        return 0;
    return out->delay_ns <= RN_REPLY_DELAY_MAX_NS ? out->delay_ns : 0;
}

void rn_decision_give_back(struct ration *r, struct rn_decision *d)
{
    if (d->by_limit && d->limit.algorithm == RATION_CONCURRENCY) {
        (void)ration_ticket_release(r, d->lease_ticket, strlen(d->lease_ticket), RATION_NOW);
    } else if (d->by_limit) {
        d->charge.ad_hoc = &d->limit;
        d->charge.key = NULL; /* it has a hash */
        (void)ration_give_back(r, &d->charge, RATION_NOW);
    } else {
        (void)ration_outcome_give_back(r, &d->outcome, RATION_NOW);
    }
}

/* --- packed ----------------------------------------------------------------------------------- */

/* A part of a decision: bytes, or a text, of which only what is used counts. */
struct part {
    char *at;
    bool text;
    size_t len; /* of bytes */
};

#define PARTS 10

/* The lengths of lists are in the first part. */
static struct part part_of(const struct rn_decision *decision, unsigned i)
{
    struct rn_decision *d = (struct rn_decision *)decision;
    struct ration_outcome *o = &d->outcome;
    const struct part parts[PARTS] = {
        {(char *)o, false, offsetof(struct ration_outcome, message)},
        {o->message, true, 0},
        {(char *)o->limits, false, o->listed * sizeof *o->limits},
        {(char *)o->places, false, o->place_count * sizeof *o->places},
        {(char *)o->receipts, false, o->receipt_count * sizeof *o->receipts},
        {(char *)o->dues, false, o->due_count * sizeof *o->dues},
        {(char *)&d->at_ns, false,
         offsetof(struct rn_decision, lease_ticket) - offsetof(struct rn_decision, at_ns)},
        {d->lease_ticket, true, 0},
        {d->charge_ticket, true, 0},
        {d->queue_ticket, true, 0}};

    return parts[i];
}

size_t rn_decision_packed_bytes(const struct rn_decision *d)
{
    size_t bytes = 0;

    for (unsigned i = 0; i < PARTS; i++) {
        struct part part = part_of(d, i);

        bytes += part.text ? strlen(part.at) + 1 : part.len;
    }
    return bytes;
}

void rn_decision_pack(const struct rn_decision *d, char *to)
{
    for (unsigned i = 0; i < PARTS; i++) {
        struct part part = part_of(d, i);
        size_t len = part.text ? strlen(part.at) + 1 : part.len;

        memcpy(to, part.at, len);
        to += len;
    }
}

void rn_decision_unpack(struct rn_decision *d, const char *packed)
{
    for (unsigned i = 0; i < PARTS; i++) {
        struct part part = part_of(d, i);
        size_t len = part.text ? strlen(packed) + 1 : part.len;

        memcpy(part.at, packed, len);
        packed += len;
    }
}
