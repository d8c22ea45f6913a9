/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reservations that are known by a ticket: charged, and settled by anybody who
 * shares the table.
 *
 * The hold of a reservation (reservation.c) is gone once it is settled and once it has
 * expired. Which of the two it was, the ticket tells: it has the time.
 */
#include <string.h>

#include "limiter/decide/gather.h"
#include "limiter/decide/transaction.h"
#include "limiter/decide/workspace.h"
#include "limiter/limiter.h"
#include "limiter/tickets/charge_later.h"
#include "limiter/tickets/lease.h"
#include "limiter/tickets/receipt.h"
#include "limiter/tickets/reservation.h"
#include "limiter/tickets/ticket.h"

/* --- making --------------------------------------------------------------------------- */

static void fill_ticket(struct rn_ticket *t, const struct ration_outcome *out)
{
    t->lease = out->lease;
    t->place_count = out->place_count;
    memcpy(t->places, out->places, out->place_count * sizeof *out->places);
    t->receipt_count = out->receipt_count;
    memcpy(t->receipts, out->receipts, out->receipt_count * sizeof *out->receipts);
}

/* Zero for a cost in a request means one. */
static uint64_t cost_of(const struct ration_request *request)
{
    return request->cost ? request->cost : 1;
}

int ration_decide_reserve(struct ration *r, const struct ration_request *request,
                          int64_t timeout_ns, int64_t now_ns, struct ration_outcome *out,
                          char ticket[RATION_TICKET_SIZE])
{
    struct rn_terms terms = {.lease_ns = timeout_ns, .reserving = true};
    struct ration_outcome made;
    struct rn_ticket t;
    int code;

    if (!rn_reservation_can_last(timeout_ns) || request->drain)
        return RATION_EINVAL;
    now_ns = rn_limiter_now(r, now_ns);
    code = rn_gather_decide(r, request, now_ns, &terms, &made);
    if (code == 0 && made.decision.allowed)
        code = rn_reservation_create(r, timeout_ns, now_ns, terms.charge_flags, &t.id);
    if (code != 0) {
        if (terms.decided)
            (void)ration_outcome_give_back(r, &made, now_ns);
        return code;
    }
    ticket[0] = '\0';
    if (made.decision.allowed) {
        t.kind = RN_TICKET_RESERVATION;
        t.at_ns = now_ns;
        t.timeout_ns = timeout_ns;
        t.reserved = terms.reserved ? terms.reserved : cost_of(request);
        t.given = false;
        fill_ticket(&t, &made);
        rn_ticket_issue(r, &t, ticket);
    }
    *out = made;
    return 0;
}

int ration_reserve_ticket(struct ration *r, struct ration_charge *c, int64_t timeout_ns,
                          int64_t now_ns, char ticket[RATION_TICKET_SIZE])
{
    struct ration_decision decision;
    struct rn_ticket t = {.kind = RN_TICKET_RESERVATION, .timeout_ns = timeout_ns};
    struct rn_compiled own;
    const struct rn_compiled *l = rn_limiter_find(r, c, &own);

    now_ns = rn_limiter_now(r, now_ns);
    int code = ration_reserve(r, c, 1, timeout_ns, now_ns, &t.id, &decision);

    if (code != 0)
        return c->error = code;
    ticket[0] = '\0';
    if (!decision.allowed)
        return 0;
    t.at_ns = now_ns;
    t.reserved = c->cost;
    t.given = c->ad_hoc != NULL;
    if (t.given)
        t.spec = *c->ad_hoc;
    t.receipt_count = 1;
    t.receipts[0] = (struct ration_receipt){
        .hash = c->hash, .salt = l->salt, .cap = l->limit.cap, .taken = c->taken, .mark = c->mark};
    rn_ticket_issue(r, &t, ticket);
    return 0;
}

/* --- settling --------------------------------------------------------------------------- */

static int give_back_given(struct ration *r, const struct rn_ticket *t, uint64_t kept,
                           int64_t now_ns)
{
    struct ration_charge c = {.ad_hoc = &t->spec,
                              .hash = t->receipts[0].hash,
                              .at_ns = t->at_ns,
                              .mark = t->receipts[0].mark};

    if (t->receipt_count == 0 || t->receipts[0].taken <= kept)
        return 0;
    c.taken = t->receipts[0].taken - kept;
    return ration_give_back(r, &c, now_ns);
}

/* Of all processes one gets past the hold. A note that a turn was given back must not be lost,
 * or a second word would mint: where there is no room for it, it is burnt. */
static int settle_hold(struct ration *r, const struct rn_ticket *t, int64_t now_ns)
{
    if (t->kind == RN_TICKET_DELAY)
        return rn_reservation_use_id(r, t->id, t->timeout_ns, now_ns, RN_CHARGE_KEEP);
    int code = rn_reservation_settle(r, t->id, now_ns);

    return code == RATION_EGONE ? RATION_EALREADY : code;
}

/* What was used beyond what was reserved, of a limit that came with the call. */
static int debit_given(struct ration *r, const struct rn_ticket *t, uint64_t units, int64_t now_ns)
{
    struct ration_charge c = {.ad_hoc = &t->spec, .hash = t->receipts[0].hash}, charges[1];
    struct rn_stripe *s = rn_stats_stripe(&r->stats);
    struct rn_workspace *w = t->receipt_count != 0 ? rn_workspace_take(s) : NULL;
    int code = RATION_EINVAL;

    if (!w)
        return t->receipt_count != 0 ? RATION_ENOMEM : 0;
    struct rn_transaction *tx = &w->gathered.tx;

    rn_transaction_init(tx, r, charges, 0, now_ns);
    tx->uncounted = tx->late = true;
    const struct rn_compiled *l = rn_limiter_find(r, &c, &tx->items[0].own);

    if (l) {
        rn_transaction_add(tx, l, c.hash, units);
        code = rn_transaction_run(tx);
        rn_charge_later_count(tx, NULL);
    }
    rn_workspace_return(s, w);
    return code;
}

/* The same of rules. One that was charged less than was reserved has a cost of its own. */
static int debit(struct ration *r, const struct rn_ticket *t, uint64_t units, int64_t now_ns)
{
    struct ration_receipt whole[RATION_CHARGES_MAX];
    size_t count = 0;

    for (uint32_t i = 0; i < t->receipt_count; i++)
        if (t->receipts[i].taken == t->reserved)
            whole[count++] = t->receipts[i];
    return rn_charge_later_debit(r, whole, count, units, now_ns);
}

static int settle(struct ration *r, const struct rn_ticket *t, uint64_t kept, int64_t now_ns)
{
    int code;

    now_ns = rn_limiter_now(r, now_ns);
    if (now_ns - t->at_ns >= t->timeout_ns)
        return RATION_EGONE;
    code = settle_hold(r, t, now_ns);
    if (code != 0)
        return code;
    for (uint32_t i = 0; i < t->place_count; i++)
        (void)rn_limiter_lease_change(r, RN_RELEASE, t->lease, &t->places[i], 0, now_ns);
    if (t->kind == RN_TICKET_RESERVATION && kept != UINT64_MAX && kept > t->reserved)
        return t->given ? debit_given(r, t, kept - t->reserved, now_ns)
                        : debit(r, t, kept - t->reserved, now_ns);
    return t->given
               ? give_back_given(r, t, kept, now_ns)
               : rn_receipt_give_back(r, t->receipts, t->receipt_count, t->at_ns, kept, now_ns);
}

int ration_ticket_commit(struct ration *r, const char *ticket, size_t len, bool all, uint64_t cost,
                         int64_t now_ns)
{
    struct rn_ticket t;

    if (!rn_ticket_verify(r, ticket, len, &t) || t.kind != RN_TICKET_RESERVATION)
        return RATION_EINVAL;
    return settle(r, &t, all ? UINT64_MAX : cost, now_ns);
}

int ration_ticket_refund(struct ration *r, const char *ticket, size_t len, int64_t now_ns)
{
    struct rn_ticket t;

    if (!rn_ticket_verify(r, ticket, len, &t) ||
        (t.kind != RN_TICKET_RESERVATION && t.kind != RN_TICKET_DELAY))
        return RATION_EINVAL;
    return settle(r, &t, 0, now_ns);
}
