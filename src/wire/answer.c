/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a decision as JSON, and the bodies of refusals. Runs for every request: it reserves
 * room once for several pieces, and no number goes through printf.
 */
#include "wire/answer.h"

#include <string.h>

#include "wire/answer_internal.h"
#include "wire/format.h"
#include "wire/json.h"

/* Room for the names and values of four numbers and the punctuation between them. */
#define NUMBERS_MAX 256

#define TYPES "https://iana.org/assignments/http-problem-types"

/* The texts of a refusal; they depend on what refused. */
struct refusal {
    const char *error, *type, *title;
    const char *message; /* NULL: written with the time to wait */
};

static const struct refusal by_limits = {"rate_limited", TYPES "#quota-exceeded",
                                         "Too Many Requests", NULL};
static const struct refusal by_deny_list = {"denied", "about:blank", "Forbidden",
                                            "Requests like this one are not allowed."};

static const struct refusal by_ban = {"banned", TYPES "#abnormal-usage-detected",
                                      "Too Many Requests", "Requests like this one are banned."};
/* The title that IANA's registry has for this type. */
static const struct refusal by_escalation = {"banned", TYPES "#abnormal-usage-detected",
                                             "Abnormal Usage Detected", NULL};

static const struct refusal by_pause = {"paused", TYPES "#temporary-reduced-capacity",
                                        "Temporary Reduced Capacity", NULL};

static const struct refusal *refusal_of(const struct ration_outcome *outcome)
{
    switch (outcome->kind) {
    case RATION_BY_DENY_LIST:
        return &by_deny_list;
    case RATION_BY_BAN:
        return &by_ban;
    case RATION_BY_ESCALATION:
        return &by_escalation;
    case RATION_BY_PAUSE:
        return &by_pause;
    case RATION_BY_LIMITS:
    case RATION_BY_NO_RULE:
    case RATION_BY_ALLOW_LIST:
        break;
    }
    return &by_limits;
}

unsigned rn_answer_status(const struct ration_outcome *outcome)
{
    return outcome->decision.allowed ? 200 : outcome->status;
}

const char *rn_answer_error(const struct ration_outcome *outcome)
{
    return refusal_of(outcome)->error;
}

/* --- the decision ------------------------------------------------------------------------ */

/* null: the wait never ends. */
static char *write_wait(char *to, int64_t ns)
{
    return ns == RATION_NEVER ? RN_FORMAT_LITERAL(to, "null") : rn_format_seconds(to, ns);
}

/* The numbers that a decision and each of its limits have, after the rule's name. */
static char *write_verdict(char *to, const struct ration_verdict *v, bool has_numbers)
{
    if (has_numbers) {
        to = RN_FORMAT_LITERAL(to, ",\"limit\":");
        to = rn_format_u64(to, v->limit);
        to = RN_FORMAT_LITERAL(to, ",\"remaining\":");
        to = rn_format_u64(to, v->remaining);
    } else {
        to = RN_FORMAT_LITERAL(to, ",\"limit\":null,\"remaining\":null");
    }
    to = RN_FORMAT_LITERAL(to, ",\"reset_after\":");
    return write_wait(to, v->reset_after_ns);
}

/* The caller has reserved room for `null` and NUMBERS_MAX bytes. Returns where to go on, with room
 * for NUMBERS_MAX bytes; NULL: out of memory. */
static char *write_rule(struct rn_buf *out, char *to, const char *rule,
                        const struct rn_answer_extra *extra)
{
    if (extra->ad_hoc || rule[0] == '\0')
        return RN_FORMAT_LITERAL(to, "null");
    rn_format_done(out, to);
    rn_json_put_string(out, rn_slice_of(rule));
    return rn_buf_reserve(out, NUMBERS_MAX);
}

/* Writes limit `i`. Most decisions have one limit, whose rule and numbers the decision has just
 * written: `shared` bytes at `shared_at` of the output. Those are copied, not formatted again. */
static void put_limit(struct rn_buf *out, const struct ration_outcome *outcome, uint32_t i,
                      const struct rn_answer_extra *extra, size_t shared_at, size_t shared)
{
    const struct ration_outcome_limit *limit = &outcome->limits[i];
    const struct ration_verdict *v = &limit->verdict, *decided = &outcome->decision.verdict;
    char *to = rn_buf_reserve(out, shared + NUMBERS_MAX);

    if (!to)
        return;
    *to++ = i == 0 ? '[' : ',';
    *to++ = '{';
    if (outcome->decision.decided_by == (int)i && outcome->kind == RATION_BY_LIMITS &&
        v->limit == decided->limit && v->remaining == decided->remaining &&
        v->reset_after_ns == decided->reset_after_ns && strcmp(limit->rule, outcome->rule) == 0) {
        to = rn_format_bytes(to, out->data + shared_at, shared);
    } else {
        to = RN_FORMAT_LITERAL(to, "\"rule\":");
        if (!(to = write_rule(out, to, limit->rule, extra)))
            return;
        to = write_verdict(to, v, rn_answer_has_numbers(v));
    }
    if (limit->shadow)
        to = RN_FORMAT_LITERAL(to, ",\"shadow\":true");
    *to++ = '}';
    if (i + 1 == outcome->listed)
        *to++ = ']';
    rn_format_done(out, to);
}

static void put_decision(struct rn_buf *out, const struct ration_outcome *outcome,
                         const struct rn_answer_extra *extra, char before)
{
    const struct ration_decision *d = &outcome->decision;
    char *to = rn_buf_reserve(out, NUMBERS_MAX);
    size_t shared_at, shared;

    if (!to)
        return;
    *to++ = before;
    if (d->allowed)
        to = RN_FORMAT_LITERAL(to, "\"allowed\":true,\"rule\":");
    else
        to = RN_FORMAT_LITERAL(to, "\"allowed\":false,\"rule\":");
    shared_at = (size_t)(to - out->data) - strlen("\"rule\":");
    if (!(to = write_rule(out, to, outcome->rule, extra)))
        return;
    to = write_verdict(to, &d->verdict, rn_answer_is_counted(outcome));
    shared = (size_t)(to - out->data) - shared_at;
    to = RN_FORMAT_LITERAL(to, ",\"retry_after\":");
    to = write_wait(to, d->verdict.retry_after_ns);
    to = RN_FORMAT_LITERAL(to, ",\"delay\":");
    to = write_wait(to, outcome->delay_ns);
    to = RN_FORMAT_LITERAL(to, ",\"limits\":");
    if (outcome->listed == 0)
        to = RN_FORMAT_LITERAL(to, "[]");
    rn_format_done(out, to);
    for (uint32_t i = 0; i < outcome->listed; i++)
        put_limit(out, outcome, i, extra, shared_at, shared);
}

/* The members that only some decisions have. */
static void put_marks(struct rn_buf *out, const struct ration_outcome *outcome,
                      const struct rn_answer_extra *extra)
{
    if (outcome->soft)
        rn_buf_put_literal(out, ",\"soft\":true");
    if (outcome->shadow_refused)
        rn_buf_put_literal(out, ",\"shadow\":true");
    if (outcome->shadow_delay_ns > 0) {
        rn_buf_put_literal(out, ",\"shadow_delay\":");
        rn_json_put_seconds(out, outcome->shadow_delay_ns);
    }
    if (rn_answer_is_banned(outcome) && !outcome->decision.allowed)
        rn_buf_put_literal(out, ",\"banned\":true");
    if (outcome->kind == RATION_BY_PAUSE && !outcome->decision.allowed)
        rn_buf_put_literal(out, ",\"paused\":true");
    if (outcome->level != 0 && !outcome->decision.allowed) {
        rn_buf_put_literal(out, ",\"level\":");
        rn_buf_put_u64(out, outcome->level);
    }
    if (outcome->kind == RATION_BY_NO_RULE && outcome->message[0]) {
        rn_buf_put_literal(out, ",\"note\":");
        rn_json_put_string(out, rn_slice_of(outcome->message));
    }
    if (extra->lease.data) {
        rn_buf_put_literal(out, ",\"lease\":");
        rn_json_put_string(out, extra->lease);
    }
    if (extra->charge.data) {
        rn_buf_put_literal(out, ",\"charge\":");
        rn_json_put_string(out, extra->charge);
    }
    if (outcome->waited_ns > 0) {
        rn_buf_put_literal(out, ",\"waited\":");
        rn_json_put_seconds(out, outcome->waited_ns);
    }
    if (extra->held_ns > 0) {
        rn_buf_put_literal(out, ",\"held\":");
        rn_json_put_seconds(out, extra->held_ns);
    }
}

void rn_answer_put_json(struct rn_buf *out, const struct ration_outcome *outcome,
                        const struct rn_answer_extra *extra)
{
    put_decision(out, outcome, extra, '{');
    put_marks(out, outcome, extra);
    rn_buf_put_char(out, '}');
}

/* --- refusals ------------------------------------------------------------------------------ */

static void put_text(struct rn_buf *out, const char *text)
{
    rn_json_put_string(out, rn_slice_of(text));
}

/* The standard message, if the client may come again. */
static void put_try_again(struct rn_buf *out, struct rn_slice what, uint64_t seconds)
{
    char *to = rn_buf_reserve(out, 128);

    if (!to)
        return;
    *to++ = '"';
    to = rn_format_bytes(to, what.data, what.len);
    to = RN_FORMAT_LITERAL(to, " Try again in ");
    to = rn_format_u64(to, seconds > 0 ? seconds : 1);
    to = seconds > 1 ? RN_FORMAT_LITERAL(to, " seconds.\"") : RN_FORMAT_LITERAL(to, " second.\"");
    rn_format_done(out, to);
}

/* The rule's message, or a standard one. */
static void put_message(struct rn_buf *out, const struct ration_outcome *outcome)
{
    const struct refusal *refusal = refusal_of(outcome);
    const struct ration_outcome_limit *decider = rn_answer_decider(outcome);
    int64_t after_ns = outcome->decision.verdict.retry_after_ns;

    if (outcome->message[0] != '\0') {
        put_text(out, outcome->message);
    } else if (refusal->message) {
        put_text(out, refusal->message);
    } else if (after_ns == RATION_NEVER) {
        put_text(out, "This request asks for more than its limit ever admits.");
    } else {
        put_try_again(out,
                      outcome->kind == RATION_BY_ESCALATION
                          ? RN_SLICE("Banned for a while after too many refused requests.")
                      : outcome->kind == RATION_BY_PAUSE
                          ? RN_SLICE("Requests of this key are paused.")
                      : decider && decider->algorithm == RATION_CONCURRENCY
                          ? RN_SLICE("Too many requests at the same time.")
                          : RN_SLICE("Too many requests."),
                      rn_answer_seconds(after_ns));
    }
}

/* The members of RFC 9457. The limits that refused have the names that the header fields give. */
static void put_problem(struct rn_buf *out, const struct ration_outcome *outcome)
{
    const struct refusal *refusal = refusal_of(outcome);
    const char *before = ",\"violated-policies\":[";
    struct rn_answer_policy_names names;

    rn_buf_put_literal(out, "{\"type\":");
    put_text(out, refusal->type);
    rn_buf_put_literal(out, ",\"title\":");
    put_text(out, refusal->title);
    rn_buf_put_literal(out, ",\"status\":");
    rn_buf_put_u64(out, rn_answer_status(outcome));
    rn_buf_put_literal(out, ",\"detail\":");
    put_message(out, outcome);
    rn_answer_policy_names_init(&names, outcome);
    for (uint32_t i = 0; i < outcome->listed; i++) {
        if (outcome->limits[i].shadow || outcome->limits[i].verdict.allowed)
            continue;
        rn_buf_put_slice(out, rn_slice_of(before));
        rn_json_put_string(out, (struct rn_slice){names.items[i].text, names.items[i].len});
        before = ",";
    }
    if (before[1] == '\0')
        rn_buf_put_char(out, ']');
}

void rn_answer_put_body(struct rn_buf *out, const struct ration_outcome *outcome,
                        const struct rn_answer_extra *extra, bool problem)
{
    const struct ration_outcome_limit *decider = rn_answer_decider(outcome);
    int64_t reset_after_ns = outcome->decision.verdict.reset_after_ns;

    if (outcome->decision.allowed) {
        rn_answer_put_json(out, outcome, extra);
        return;
    }
    if (problem)
        put_problem(out, outcome);
    put_decision(out, outcome, extra, problem ? ',' : '{');
    put_marks(out, outcome, extra);
    rn_buf_put_literal(out, ",\"error\":");
    put_text(out, rn_answer_error(outcome));
    if (!problem) {
        rn_buf_put_literal(out, ",\"message\":");
        put_message(out, outcome);
    }
    rn_buf_put_literal(out, ",\"window\":");
    if (decider && decider->period_ns > 0)
        rn_json_put_seconds(out, decider->period_ns);
    else
        rn_buf_put_literal(out, "null");
    rn_buf_put_literal(out, ",\"reset\":");
    char *to = rn_buf_reserve(out, RN_FORMAT_U64_MAX);

    if (to && decider && reset_after_ns != RATION_NEVER)
        rn_format_done(out, rn_format_u64(to, rn_answer_epoch(extra, reset_after_ns)));
    else
        rn_buf_put_literal(out, "null");
    rn_buf_put_char(out, '}');
}
