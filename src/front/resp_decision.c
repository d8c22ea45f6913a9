/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A decision as a map with the names that the JSON has. wire/told.c reads it.
 */
#include "front/resp.h"
#include "wire/told.h"

static void put_name(struct rn_buf *out, const char *name)
{
    rn_resp_put_bulk(out, rn_slice_of(name));
}

static void put_rule(struct rn_buf *out, int version, const char *rule)
{
    put_name(out, "rule");
    if (rule[0])
        put_name(out, rule);
    else
        rn_resp_put_null(out, version);
}

static void put_amount(struct rn_buf *out, int version, const char *name, uint64_t amount)
{
    put_name(out, name);
    if (amount > INT64_MAX)
        rn_resp_put_null(out, version); /* unlimited */
    else
        rn_resp_put_integer(out, (int64_t)amount);
}

static void put_time(struct rn_buf *out, int version, const char *name, int64_t ns)
{
    put_name(out, name);
    if (ns == RATION_NEVER)
        rn_resp_put_null(out, version);
    else
        rn_resp_put_seconds(out, version, ns);
}

static void put_mark(struct rn_buf *out, int version, const char *name)
{
    put_name(out, name);
    rn_resp_put_bool(out, version, true);
}

static void put_text(struct rn_buf *out, const char *name, const char *text)
{
    put_name(out, name);
    rn_resp_put_bulk(out, rn_slice_of(text));
}

static void put_limit(struct rn_buf *out, const struct rn_telling *how,
                      const struct ration_outcome_limit *l)
{
    int version = how->version;

    rn_resp_put_map(out, version, 4u + l->shadow + (how->full ? 3 : 0));
    put_rule(out, version, l->rule);
    put_amount(out, version, "limit", l->verdict.limit);
    put_amount(out, version, "remaining", l->verdict.remaining);
    put_time(out, version, "reset_after", l->verdict.reset_after_ns);
    if (l->shadow)
        put_mark(out, version, "shadow");
    if (!how->full)
        return;
    put_name(out, "allowed");
    rn_resp_put_bool(out, version, l->verdict.allowed);
    put_amount(out, version, "amount", l->amount);
    put_time(out, version, "period", l->period_ns);
}

static void put_limits(struct rn_buf *out, const struct rn_telling *how,
                       const struct ration_outcome *o)
{
    put_name(out, "limits");
    rn_resp_put_array(out, o->listed);
    for (uint32_t i = 0; i < o->listed; i++)
        put_limit(out, how, &o->limits[i]);
}

/* --- what FULL adds ------------------------------------------------------------------------------
 */

static int64_t shortest_lease_ns(const struct ration_outcome *o)
{
    int64_t shortest_ns = RATION_LEASE_MAX_NS;

    for (uint32_t i = 0; i < o->place_count; i++)
        if (o->places[i].lease_ns < shortest_ns)
            shortest_ns = o->places[i].lease_ns;
    return shortest_ns;
}

/* What a gateway needs to answer a client as this server would. */
static void put_full(struct rn_buf *out, int version, const struct rn_decided *decided)
{
    const struct ration_outcome *o = &decided->outcome;

    put_text(out, "by", rn_told_kinds[o->kind]);
    put_name(out, "decided_by");
    rn_resp_put_integer(out, o->decision.decided_by);
    put_name(out, "status");
    rn_resp_put_integer(out, o->status);
    put_text(out, "headers", rn_told_families[o->headers]);
    put_text(out, "message", o->message);
    if (decided->ticket[0])
        put_time(out, version, "lease_for", shortest_lease_ns(o));
    if (decided->turn[0])
        put_text(out, "turn", decided->turn);
}

/* --- all
 * ------------------------------------------------------------------------------------------
 */

void rn_resp_put_decision(struct rn_buf *out, const struct rn_telling *how,
                          const struct rn_decided *decided, int64_t held_ns)
{
    int version = how->version;
    const struct ration_outcome *o = &decided->outcome;
    const struct ration_verdict *v = &o->decision.verdict;
    bool lease = decided->ticket[0] != '\0', charge = decided->due[0] != '\0';
    bool banned = o->kind == RATION_BY_BAN, turn = decided->turn[0] != '\0';

    rn_resp_put_map(out, version,
                    8u + o->soft + o->shadow_refused + banned + lease + charge + (held_ns > 0) +
                        (how->full ? 5u + lease + turn : 0));
    put_name(out, "allowed");
    rn_resp_put_bool(out, version, o->decision.allowed);
    put_rule(out, version, o->rule);
    put_amount(out, version, "limit", o->kind == RATION_BY_LIMITS ? v->limit : UINT64_MAX);
    put_amount(out, version, "remaining", o->kind == RATION_BY_LIMITS ? v->remaining : UINT64_MAX);
    put_time(out, version, "reset_after", v->reset_after_ns);
    put_time(out, version, "retry_after", v->retry_after_ns);
    put_time(out, version, "delay", o->delay_ns);
    put_limits(out, how, o);
    if (o->soft)
        put_mark(out, version, "soft");
    if (o->shadow_refused)
        put_mark(out, version, "shadow");
    if (banned)
        put_mark(out, version, "banned");
    if (lease)
        put_text(out, "lease", decided->ticket);
    if (charge)
        put_text(out, "charge", decided->due);
    if (held_ns > 0)
        put_time(out, version, "held", held_ns);
    if (how->full)
        put_full(out, version, decided);
}
