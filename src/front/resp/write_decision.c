/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A decision as a map with the names that the JSON has. wire/parsed_decision.c reads it.
 */
#include "front/resp/resp_internal.h"
#include "wire/parsed_decision.h"
#include "wire/resp_format.h"

/* Ten values with names of up to 12 bytes, and the name of a rule. */
#define PART_MAX (10 * (RN_RESP_FORMAT_MAX + 20) + RATION_NAME_SIZE)

static char *write_amount(char *to, int version, uint64_t amount)
{
    if (amount > INT64_MAX)
        return rn_resp_format_null(to, version); /* unlimited */
    return rn_resp_format_head(to, ':', amount);
}

static char *write_time(char *to, int version, int64_t ns)
{
    return ns == RATION_NEVER ? rn_resp_format_null(to, version)
                              : rn_resp_format_seconds(to, version, ns);
}

/* What both a decision and each of its limits have. */
static char *write_numbers(char *to, int version, const char *rule, const struct ration_verdict *v,
                           bool has_numbers)
{
    to = RN_RESP_FORMAT_NAME(to, 4, "rule");
    to = rule[0] ? rn_resp_format_bulk(to, rn_slice_of(rule)) : rn_resp_format_null(to, version);
    to = RN_RESP_FORMAT_NAME(to, 5, "limit");
    to = write_amount(to, version, has_numbers ? v->limit : UINT64_MAX);
    to = RN_RESP_FORMAT_NAME(to, 9, "remaining");
    to = write_amount(to, version, has_numbers ? v->remaining : UINT64_MAX);
    to = RN_RESP_FORMAT_NAME(to, 11, "reset_after");
    return write_time(to, version, v->reset_after_ns);
}

static void put_limit(struct rn_buf *out, const struct rn_decision_format *format,
                      const struct ration_outcome_limit *l)
{
    int version = format->version;
    char *to;

    rn_resp_put_map(out, version,
                    4u + l->shadow + (format->full ? 3u + (l->verdict.delay_ns > 0) : 0));
    if (!(to = rn_buf_reserve(out, PART_MAX)))
        return;
    to = write_numbers(to, version, l->rule, &l->verdict, true);
    if (l->shadow)
        to = rn_resp_format_bool(RN_RESP_FORMAT_NAME(to, 6, "shadow"), version, true);
    if (format->full) {
        to =
            rn_resp_format_bool(RN_RESP_FORMAT_NAME(to, 7, "allowed"), version, l->verdict.allowed);
        to = write_amount(RN_RESP_FORMAT_NAME(to, 6, "amount"), version, l->amount);
        to = write_time(RN_RESP_FORMAT_NAME(to, 6, "period"), version, l->period_ns);
        if (l->verdict.delay_ns > 0)
            to = write_time(RN_RESP_FORMAT_NAME(to, 5, "delay"), version, l->verdict.delay_ns);
    }
    rn_format_done(out, to);
}

/* --- what only some decisions have
 * -------------------------------------------------------------------- */

static void put_name(struct rn_buf *out, const char *name)
{
    rn_resp_put_bulk(out, rn_slice_of(name));
}

static void put_text(struct rn_buf *out, const char *name, const char *text)
{
    put_name(out, name);
    rn_resp_put_bulk(out, rn_slice_of(text));
}

static void put_true(struct rn_buf *out, int version, const char *name)
{
    char *to;

    put_name(out, name);
    if ((to = rn_buf_reserve(out, RN_RESP_FORMAT_MAX)))
        rn_format_done(out, rn_resp_format_bool(to, version, true));
}

static void put_time(struct rn_buf *out, int version, const char *name, int64_t ns)
{
    char *to;

    put_name(out, name);
    if ((to = rn_buf_reserve(out, RN_RESP_FORMAT_MAX)))
        rn_format_done(out, write_time(to, version, ns));
}

/* FULL: what a gateway needs to answer a client as this server would. */
static void put_full(struct rn_buf *out, int version, const struct rn_decision *decision)
{
    const struct ration_outcome *o = &decision->outcome;
    int64_t lease_ns = RATION_LEASE_MAX_NS; /* the shortest */

    put_text(out, "by", rn_parsed_decision_kinds[o->kind]);
    put_name(out, "decided_by");
    rn_resp_put_integer(out, o->decision.decided_by);
    put_name(out, "status");
    rn_resp_put_integer(out, o->status);
    put_text(out, "headers", rn_parsed_decision_families[o->headers]);
    if (o->retryafter)
        put_true(out, version, "retryafter");
    put_text(out, "message", o->message);
    for (uint32_t i = 0; i < o->place_count; i++)
        if (o->places[i].lease_ns < lease_ns)
            lease_ns = o->places[i].lease_ns;
    if (decision->lease_ticket[0])
        put_time(out, version, "lease_for", lease_ns);
    if (decision->queue_ticket[0])
        put_text(out, "turn", decision->queue_ticket);
}

/* --- the decision
 * ------------------------------------------------------------------------------------ */

/* What every decision has. */
static void put_decision(struct rn_buf *out, const struct rn_decision_format *format,
                         const struct ration_outcome *o)
{
    const struct ration_verdict *v = &o->decision.verdict;
    int version = format->version;
    char *to = rn_buf_reserve(out, PART_MAX);

    if (!to)
        return;
    to = rn_resp_format_bool(RN_RESP_FORMAT_NAME(to, 7, "allowed"), version, o->decision.allowed);
    to = write_numbers(to, version, o->rule, v, o->kind == RATION_BY_LIMITS);
    to = write_time(RN_RESP_FORMAT_NAME(to, 11, "retry_after"), version, v->retry_after_ns);
    to = write_time(RN_RESP_FORMAT_NAME(to, 5, "delay"), version, o->delay_ns);
    to = RN_RESP_FORMAT_NAME(to, 6, "limits");
    rn_format_done(out, rn_resp_format_head(to, '*', o->listed));
    for (uint32_t i = 0; i < o->listed; i++)
        put_limit(out, format, &o->limits[i]);
}

void rn_front_resp_put_decision(struct rn_buf *out, const struct rn_decision_format *format,
                                const struct rn_decision *decision, int64_t held_ns)
{
    int version = format->version;
    const struct ration_outcome *o = &decision->outcome;
    bool lease = decision->lease_ticket[0] != '\0', charge = decision->charge_ticket[0] != '\0';
    bool escalated = o->kind == RATION_BY_ESCALATION && !o->decision.allowed;
    bool banned = o->kind == RATION_BY_BAN || escalated, turn = decision->queue_ticket[0] != '\0';
    bool paused = o->kind == RATION_BY_PAUSE && !o->decision.allowed;
    bool note = o->kind == RATION_BY_NO_RULE && o->message[0] != '\0', waited = o->waited_ns > 0;

    rn_resp_put_map(out, version,
                    8u + o->soft + o->shadow_refused + (o->shadow_delay_ns > 0) + banned +
                        escalated + paused + note + lease + charge + waited + (held_ns > 0) +
                        (format->full ? 5u + o->retryafter + lease + turn : 0));
    put_decision(out, format, o);
    if (o->soft)
        put_true(out, version, "soft");
    if (o->shadow_refused)
        put_true(out, version, "shadow");
    if (o->shadow_delay_ns > 0)
        put_time(out, version, "shadow_delay", o->shadow_delay_ns);
    if (banned)
        put_true(out, version, "banned");
    if (escalated) {
        put_name(out, "level");
        rn_resp_put_integer(out, o->level);
    }
    if (paused)
        put_true(out, version, "paused");
    if (note)
        put_text(out, "note", o->message);
    if (lease)
        put_text(out, "lease", decision->lease_ticket);
    if (charge)
        put_text(out, "charge", decision->charge_ticket);
    if (waited)
        put_time(out, version, "waited", o->waited_ns);
    if (held_ns > 0)
        put_time(out, version, "held", held_ns);
    if (format->full)
        put_full(out, version, decision);
}
