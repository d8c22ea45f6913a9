/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The decision as JSON, and bodies of refusals. Called for every request: pieces
 * of known length are written in one go, and no number goes through printf.
 */
#include "wire/answer.h"

#include <string.h>

#include "wire/answer_internal.h"
#include "wire/format.h"
#include "wire/json.h"

/* Names and values of four numbers and what is between them, with room to spare. */
#define NUMBERS_MAX 256

#define TYPES "https://iana.org/assignments/http-problem-types"

/* What is said of a refusal, by what refused. */
struct refusal {
    const char *error, *type, *title;
    const char *message; /* NULL: one that tells how long to wait */
};

static const struct refusal by_limits = {"rate_limited", TYPES "#quota-exceeded",
                                         "Too Many Requests", NULL};
static const struct refusal by_deny_list = {"denied", "about:blank", "Forbidden",
                                            "Requests like this one are not allowed."};

static const struct refusal by_ban = {"banned", TYPES "#abnormal-usage-detected",
                                      "Too Many Requests", "Requests like this one are banned."};

static const struct refusal *refusal_of(const struct ration_outcome *outcome)
{
    switch (outcome->kind) {
    case RATION_BY_DENY_LIST:
        return &by_deny_list;
    case RATION_BY_BAN:
        return &by_ban;
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

/* A wait; null if it never ends. */
static char *write_wait(char *to, int64_t ns)
{
    return ns == RATION_NEVER ? RN_FORMAT_LITERAL(to, "null") : rn_format_seconds(to, ns);
}

/* Behind the rule's name: what a decision and each of its limits have. */
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

/* Afterwards there is room for NUMBERS_MAX bytes, or NULL. Before, for `null`
 * and as much. */
static char *write_rule(struct rn_buf *out, char *to, const char *rule,
                        const struct rn_answer_extra *extra)
{
    if (extra->ad_hoc || rule[0] == '\0')
        return RN_FORMAT_LITERAL(to, "null");
    rn_format_done(out, to);
    rn_json_put_string(out, rn_slice_of(rule));
    return rn_buf_reserve(out, NUMBERS_MAX);
}

/* Whether this limit's rule and numbers are those of the decision. */
static bool is_told(const struct ration_outcome *outcome, uint32_t i)
{
    const struct ration_outcome_limit *limit = &outcome->limits[i];
    const struct ration_verdict *ours = &limit->verdict, *decided = &outcome->decision.verdict;

    return outcome->decision.decided_by == (int)i && outcome->kind == RATION_BY_LIMITS &&
           ours->limit == decided->limit && ours->remaining == decided->remaining &&
           ours->reset_after_ns == decided->reset_after_ns &&
           strcmp(limit->rule, outcome->rule) == 0;
}

static char *write_limit(struct rn_buf *out, char *to, const struct ration_outcome_limit *limit,
                         const struct rn_answer_extra *extra)
{
    to = RN_FORMAT_LITERAL(to, "\"rule\":");
    if (!(to = write_rule(out, to, limit->rule, extra)))
        return NULL;
    return write_verdict(to, &limit->verdict, rn_answer_has_numbers(&limit->verdict));
}

/* `told` bytes at `told_at` of the output are what the decision says of its own limit: of
 * most there is only that one, which is copied rather than written again. */
static void put_limit(struct rn_buf *out, const struct ration_outcome *outcome, uint32_t i,
                      const struct rn_answer_extra *extra, size_t told_at, size_t told)
{
    char *to = rn_buf_reserve(out, told + NUMBERS_MAX);

    if (!to)
        return;
    *to++ = i == 0 ? '[' : ',';
    *to++ = '{';
    if (is_told(outcome, i))
        to = rn_format_bytes(to, out->data + told_at, told);
    else if (!(to = write_limit(out, to, &outcome->limits[i], extra)))
        return;
    if (outcome->limits[i].shadow)
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
    size_t told_at, told;

    if (!to)
        return;
    *to++ = before;
    if (d->allowed)
        to = RN_FORMAT_LITERAL(to, "\"allowed\":true,\"rule\":");
    else
        to = RN_FORMAT_LITERAL(to, "\"allowed\":false,\"rule\":");
    told_at = (size_t)(to - out->data) - strlen("\"rule\":");
    if (!(to = write_rule(out, to, outcome->rule, extra)))
        return;
    to = write_verdict(to, &d->verdict, rn_answer_is_counted(outcome));
    told = (size_t)(to - out->data) - told_at;
    to = RN_FORMAT_LITERAL(to, ",\"retry_after\":");
    to = write_wait(to, d->verdict.retry_after_ns);
    to = RN_FORMAT_LITERAL(to, ",\"delay\":");
    to = write_wait(to, outcome->delay_ns);
    to = RN_FORMAT_LITERAL(to, ",\"limits\":");
    if (outcome->listed == 0)
        to = RN_FORMAT_LITERAL(to, "[]");
    rn_format_done(out, to);
    for (uint32_t i = 0; i < outcome->listed; i++)
        put_limit(out, outcome, i, extra, told_at, told);
}

/* What only some decisions have. */
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
    if (outcome->kind == RATION_BY_BAN && !outcome->decision.allowed)
        rn_buf_put_literal(out, ",\"banned\":true");
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

static void put_wait_message(struct rn_buf *out, const struct ration_outcome *outcome)
{
    const struct ration_outcome_limit *decider = rn_answer_decider(outcome);
    uint64_t seconds = rn_answer_seconds(outcome->decision.verdict.retry_after_ns);

    rn_buf_put_literal(out, "\"Too many requests");
    if (decider && decider->algorithm == RATION_CONCURRENCY)
        rn_buf_put_literal(out, " at the same time");
    rn_buf_put_literal(out, ". Try again in ");
    rn_buf_put_u64(out, seconds > 0 ? seconds : 1);
    if (seconds > 1)
        rn_buf_put_literal(out, " seconds.\"");
    else
        rn_buf_put_literal(out, " second.\"");
}

/* The rule's own words, or ours. */
static void put_message(struct rn_buf *out, const struct ration_outcome *outcome)
{
    const struct refusal *refusal = refusal_of(outcome);

    if (outcome->message[0] != '\0')
        put_text(out, outcome->message);
    else if (refusal->message)
        put_text(out, refusal->message);
    else if (outcome->decision.verdict.retry_after_ns == RATION_NEVER)
        put_text(out, "This request asks for more than its limit ever admits.");
    else
        put_wait_message(out, outcome);
}

static void put_window_and_reset(struct rn_buf *out, const struct ration_outcome *outcome,
                                 const struct rn_answer_extra *extra)
{
    const struct ration_outcome_limit *decider = rn_answer_decider(outcome);
    int64_t after_ns = outcome->decision.verdict.reset_after_ns;

    rn_buf_put_literal(out, ",\"window\":");
    if (decider && decider->period_ns > 0)
        rn_json_put_seconds(out, decider->period_ns);
    else
        rn_buf_put_literal(out, "null");
    rn_buf_put_literal(out, ",\"reset\":");
    if (decider && after_ns != RATION_NEVER)
        rn_buf_put_u64(out, rn_answer_epoch(extra, after_ns));
    else
        rn_buf_put_literal(out, "null");
}

/* The limits that refused, under the names that the header fields give them. */
static void put_violated(struct rn_buf *out, const struct ration_outcome *outcome)
{
    struct rn_answer_policy_names names;
    const char *before = ",\"violated-policies\":[";

    rn_answer_policy_names_init(&names, outcome);
    for (uint32_t i = 0; i < outcome->listed; i++) {
        const struct ration_outcome_limit *limit = &outcome->limits[i];

        if (limit->shadow || limit->verdict.allowed)
            continue;
        rn_buf_put_slice(out, rn_slice_of(before));
        rn_json_put_string(out, (struct rn_slice){names.items[i].text, names.items[i].len});
        before = ",";
    }
    if (before[1] == '\0')
        rn_buf_put_char(out, ']');
}

static void put_problem(struct rn_buf *out, const struct ration_outcome *outcome)
{
    const struct refusal *refusal = refusal_of(outcome);

    rn_buf_put_literal(out, "{\"type\":");
    put_text(out, refusal->type);
    rn_buf_put_literal(out, ",\"title\":");
    put_text(out, refusal->title);
    rn_buf_put_literal(out, ",\"status\":");
    rn_buf_put_u64(out, rn_answer_status(outcome));
    rn_buf_put_literal(out, ",\"detail\":");
    put_message(out, outcome);
    put_violated(out, outcome);
}

void rn_answer_put_body(struct rn_buf *out, const struct ration_outcome *outcome,
                        const struct rn_answer_extra *extra, bool problem)
{
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
    put_window_and_reset(out, outcome, extra);
    rn_buf_put_char(out, '}');
}
