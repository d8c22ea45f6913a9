/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Concurrency limits: places held under a lease, and tickets by which any process that shares the
 * table renews and releases them.
 */

#include <string.h>

#include "limiter/decide/workspace.h"
#include "limiter/line/gate.h"
#include "limiter/tickets/ticket.h"

static bool can_last(int64_t lease_ns)
{
    return lease_ns >= 0 && lease_ns <= RATION_LEASE_MAX_NS;
}

/* The limit of a charge if it is a concurrency limit and the lease is possible. */
static const struct rn_compiled *find_places(const struct ration *r, const struct ration_charge *c,
                                             int64_t lease_ns, struct rn_compiled *own)
{
    const struct rn_compiled *l = rn_limiter_find(r, c, own);

    return l && l->limit.algorithm == RATION_CONCURRENCY && can_last(lease_ns) ? l : NULL;
}

/* By a transaction: others wait for this key, or the caller would wait. */
static RN_ASIDE int acquire_at_length(struct ration *r, const struct rn_compiled *l,
                                      struct ration_charge *c, const struct rn_charge *asked,
                                      uint64_t *lease)
{
    struct rn_stripe *s = rn_stats_stripe(&r->stats);
    struct rn_workspace *w = rn_workspace_take(s);

    if (!w)
        return c->error = RATION_ENOMEM;
    struct rn_transaction *tx = &w->gathered.tx;
    struct ration_charge *done = w->gathered.charges;

    rn_transaction_init(tx, r, done, 0, asked->ask.now_ns);
    struct rn_transaction_item *item = rn_transaction_add(tx, l, asked->key, asked->ask.cost);

    item->own = *l;
    item->own.limit.lease_ns = asked->ask.lease_ns;
    item->limit = &item->own;
    item->lease = asked->ask.id;
    done->key = c->key;
    done->key_len = c->key_len;
    tx->of_caller = true;
    tx->waiter = c->waiter;
    tx->max_wait_ns = rn_transaction_patience_ns(c->max_wait_ns);
    tx->needs |= l->limit.form == RN_FORM_ADAPTIVE ? RN_NEEDS_SOFT : 0;
    c->error = rn_transaction_run(tx);
    if (c->error == 0) {
        c->hash = done->hash;
        c->at_ns = done->at_ns;
        c->mark = done->mark;
        c->taken = done->taken;
        c->verdict = done->verdict;
        *lease = tx->decision.allowed ? asked->ask.id : 0;
    }
    rn_workspace_return(s, w);
    return c->error;
}

int ration_acquire(struct ration *r, struct ration_charge *c, int64_t lease_ns, int64_t now_ns,
                   uint64_t *lease)
{
    struct rn_compiled own;
    const struct rn_compiled *l = find_places(r, c, lease_ns, &own);

    if (!l)
        return c->error = rn_gate_fail(r, c->waiter, RATION_EINVAL, now_ns);
    if (rn_pause_any(&r->pauses) && !c->waiter &&
        rn_pause_settle(r, l, c, now_ns = rn_limiter_now(r, now_ns))) {
        *lease = 0;
        return 0;
    }
    struct rn_charge charge = {.key = rn_compiled_key(l, c),
                               .ask = {.op = RN_TAKE,
                                       .now_ns = rn_limiter_now(r, now_ns),
                                       .cost = c->cost ? c->cost : 1,
                                       .id = rn_limiter_new_id(r),
                                       .lease_ns = lease_ns ? lease_ns : l->limit.lease_ns}};

    if (rn_unlikely(c->waiter || rn_gate_stands(r, charge.key)))
        return rn_gate_fail(r, c->waiter, acquire_at_length(r, l, c, &charge, lease), now_ns);
    rn_limiter_apply(r, l, charge.key, &charge);
    int code = rn_limiter_settle(r, rn_stats_stripe(&r->stats), l, c, &charge);

    if (code == 0)
        *lease = charge.answer.allowed ? charge.ask.id : 0;
    if (code == 0)
        rn_verdict_set_places(&c->verdict, l, &charge.answer);
    return code;
}

/* RN_RENEW or RN_RELEASE. */
static int change(struct ration *r, struct ration_charge *c, struct rn_ask ask)
{
    struct rn_compiled own;
    const struct rn_compiled *l = find_places(r, c, ask.lease_ns, &own);

    if (!l || ask.id == 0)
        return c->error = RATION_EINVAL;
    struct rn_charge charge = {.ask = ask};

    charge.ask.now_ns = rn_limiter_now(r, ask.now_ns);
    if (charge.ask.lease_ns == 0)
        charge.ask.lease_ns = l->limit.lease_ns;
    c->error = rn_limiter_apply(r, l, rn_compiled_key(l, c), &charge);
    if (c->error != 0)
        return c->error;
    if (!charge.answer.allowed)
        return c->error = RATION_EGONE;
    c->hash = charge.key;
    rn_verdict_set(&c->verdict, l, &charge.answer);
    rn_verdict_set_places(&c->verdict, l, &charge.answer);
    return 0;
}

int ration_renew(struct ration *r, struct ration_charge *c, uint64_t lease, int64_t lease_ns,
                 int64_t now_ns)
{
    return change(
        r, c, (struct rn_ask){.op = RN_RENEW, .now_ns = now_ns, .id = lease, .lease_ns = lease_ns});
}

int ration_release(struct ration *r, struct ration_charge *c, uint64_t lease, int64_t now_ns)
{
    int code = change(r, c, (struct rn_ask){.op = RN_RELEASE, .now_ns = now_ns, .id = lease});

    if (code == 0)
        c->taken = 0;
    return code;
}

int rn_limiter_lease_change(struct ration *r, enum rn_op op, uint64_t lease,
                            const struct ration_place *place, int64_t lease_ns, int64_t now_ns)
{
    struct rn_compiled places = {0};
    struct rn_charge charge = {
        .ask = {.op = op, .now_ns = now_ns, .id = lease, .lease_ns = lease_ns}};

    rn_limit_init(&places.limit,
                  &(struct ration_limit){.algorithm = RATION_CONCURRENCY,
                                         .amount = place->amount,
                                         .adaptive_min = (uint16_t)place->adaptive_min});
    int code = rn_limiter_apply(r, &places, place->hash, &charge);

    return code == 0 && !charge.answer.allowed ? RATION_EGONE : code;
}

/* --- tickets --------------------------------------------------------------------------- */

int ration_acquire_request(struct ration *r, const struct ration_request *request, int64_t lease_ns,
                           int64_t now_ns, struct ration_outcome *out,
                           char ticket[RATION_TICKET_SIZE])
{
    struct rn_terms terms = {.lease_ns = lease_ns};
    struct rn_ticket t = {.kind = RN_TICKET_LEASE};

    if (!can_last(lease_ns) || request->drain)
        return rn_gate_fail(r, request->waiter, RATION_EINVAL, now_ns);
    int code = rn_gather_decide(r, request, now_ns, &terms, out);

    if (code != 0)
        return code;
    ticket[0] = '\0';
    if (out->place_count == 0)
        return 0;
    t.id = out->lease;
    t.place_count = out->place_count;
    memcpy(t.places, out->places, out->place_count * sizeof *out->places);
    rn_ticket_issue(r, &t, ticket);
    return 0;
}

int ration_acquire_ticket(struct ration *r, struct ration_charge *c, int64_t lease_ns,
                          int64_t now_ns, char ticket[RATION_TICKET_SIZE])
{
    struct rn_ticket t = {.kind = RN_TICKET_LEASE, .place_count = 1};
    struct rn_compiled own;
    const struct rn_compiled *l = rn_limiter_find(r, c, &own);
    int code = ration_acquire(r, c, lease_ns, now_ns, &t.id);

    if (code != 0)
        return code;
    ticket[0] = '\0';
    if (t.id == 0)
        return 0;
    t.places[0] = (struct ration_place){.hash = c->hash,
                                        .amount = (uint32_t)l->limit.amount,
                                        .adaptive_min = rn_limiter_adaptive_min(&l->limit),
                                        .lease_ns = lease_ns ? lease_ns : l->limit.lease_ns};
    rn_ticket_issue(r, &t, ticket);
    return 0;
}

static bool parse(const struct ration *r, const char *ticket, size_t len, struct rn_ticket *t)
{
    return rn_ticket_verify(r, ticket, len, t) && t->kind == RN_TICKET_LEASE;
}

int ration_ticket_renew(struct ration *r, const char *ticket, size_t len, int64_t lease_ns,
                        int64_t now_ns, int64_t *expires_after_ns)
{
    struct rn_ticket t;
    int64_t earliest_ns = RATION_LEASE_MAX_NS;
    int first = 0;

    if (!can_last(lease_ns) || !parse(r, ticket, len, &t))
        return RATION_EINVAL;
    now_ns = rn_limiter_now(r, now_ns);
    for (uint32_t i = 0; i < t.place_count; i++) {
        int64_t lasts_ns = lease_ns ? lease_ns : t.places[i].lease_ns;
        int code = rn_limiter_lease_change(r, RN_RENEW, t.id, &t.places[i], lasts_ns, now_ns);

        first = first ? first : code;
        earliest_ns = lasts_ns < earliest_ns ? lasts_ns : earliest_ns;
    }
    if (first == 0 && expires_after_ns)
        *expires_after_ns = earliest_ns;
    return first;
}

int ration_ticket_release(struct ration *r, const char *ticket, size_t len, int64_t now_ns)
{
    struct rn_ticket t;
    bool released = false;
    int failed = 0;

    if (!parse(r, ticket, len, &t))
        return RATION_EINVAL;
    now_ns = rn_limiter_now(r, now_ns);
    for (uint32_t i = 0; i < t.place_count; i++) {
        int code = rn_limiter_lease_change(r, RN_RELEASE, t.id, &t.places[i], 0, now_ns);

        released |= code == 0;
        failed = code != 0 && code != RATION_EGONE ? code : failed;
    }
    return failed ? failed : released ? 0 : RATION_EGONE;
}
