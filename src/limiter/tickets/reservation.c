/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reservations: charge now, settle later, once.
 *
 * A reservation is a key of the table like any other: its id under a token bucket of one unit that
 * takes the timeout to refill. Taking that unit creates it; it is live until the deadline.
 * Forgetting it is atomic and says whether it was live, so that one of all threads and processes
 * settles it. If it is evicted at capacity, the charge stands: nothing is minted.
 */
#include "limiter/tickets/reservation.h"

#include "limiter/decide/workspace.h"
#include "limiter/limiter.h"
#include "limiter/line/gate.h"
#include "limiter/tickets/charge_later.h"
#include "limiter/tickets/receipt.h"
#include "limiter/tickets/ticket.h"

/* A cancellation takes time to arrive, and the client's wait starts at our reply. */
#define GRACE_NS INT64_C(5000000000)

/* RN_TAKE creates, RN_RESET settles. *live: whether that was done. */
static int apply(struct ration *r, enum rn_op op, uint64_t id, int64_t timeout_ns, int64_t now_ns,
                 unsigned flags, bool *live)
{
    struct rn_limit limit;
    struct rn_charge charge = {.limit = &limit,
                               .key = rn_siphash(&r->reservation_seed, &id, sizeof id),
                               .flags = flags & (RN_CHARGE_KEEP | RN_CHARGE_EVICT_LAST),
                               .ask = {.op = op,
                                       .now_ns = now_ns,
                                       .cost = op == RN_TAKE,
                                       .wall_offset_ns = rn_table_wall_offset(r->table, now_ns)}};

    rn_compiled_init_flag(&limit, timeout_ns);
    rn_store_apply(r->store, &charge, 1);
    *live = charge.error == 0 && charge.answer.allowed;
    return charge.error;
}

static int create(struct ration *r, int64_t timeout_ns, int64_t now_ns, unsigned flags,
                  uint64_t *id)
{
    int code;
    bool created;

    do { /* an id that is in use is next to impossible */
        *id = rn_limiter_new_id(r);
        code = apply(r, RN_TAKE, *id, timeout_ns, now_ns, flags, &created);
    } while (code == 0 && !created);
    return code;
}

/* RATION_EGONE: it was settled before, or has ended. */
static int settle(struct ration *r, uint64_t id, int64_t now_ns)
{
    bool live = false;
    int code = id == 0 ? 0 : apply(r, RN_RESET, id, RN_RESERVATION_MAX_NS, now_ns, 0, &live);

    return code == 0 && !live ? RATION_EGONE : code;
}

int rn_reservation_use_id(struct ration *r, uint64_t id, int64_t timeout_ns, int64_t now_ns,
                          unsigned flags)
{
    bool unused;
    int code = apply(r, RN_TAKE, id, timeout_ns, now_ns, flags, &unused);

    return code == 0 && !unused ? RATION_EALREADY : code;
}

/* --- of charges ------------------------------------------------------------------------------ */

/* Gives back all but what was used, of every charge, whatever happens to one. */
static int give_back_rest(struct ration *r, struct ration_charge *c, size_t n, const uint64_t *used,
                          int64_t now_ns)
{
    int first = 0;

    for (size_t i = 0; i < n; i++) {
        uint64_t kept = used ? used[i] : 0;

        c[i].taken = c[i].taken > kept ? c[i].taken - kept : 0;
        int code = ration_give_back(r, &c[i], now_ns);

        first = first ? first : code;
    }
    return first;
}

/* A reservation on a limit that keeps its keys at capacity is kept as well. */
int ration_reserve(struct ration *r, struct ration_charge *c, size_t n, int64_t timeout_ns,
                   int64_t now_ns, uint64_t *hold, struct ration_decision *decision)
{
    struct ration_decision decided;
    unsigned flags = 0;
    uint64_t id = 0;

    if (!rn_reservation_can_last(timeout_ns))
        return rn_gate_fail(r, n ? c->waiter : NULL, RATION_EINVAL, now_ns);
    for (size_t i = 0; i < n; i++)
        if (c[i].drain) /* there would be nothing to settle */
            return rn_gate_fail(r, c->waiter, RATION_EINVAL, now_ns);
    now_ns = rn_limiter_now(r, now_ns);
    int code = ration_check(r, c, n, now_ns, &decided);

    if (code != 0)
        return code;
    for (size_t i = 0; i < n; i++)
        if (!c[i].ad_hoc)
            flags |= r->limits[c[i].limit].charge_flags;
    if (decided.allowed)
        code = create(r, timeout_ns, now_ns, flags, &id);
    if (code != 0) {
        (void)give_back_rest(r, c, n, NULL, now_ns);
        return code;
    }
    *hold = id;
    *decision = decided;
    return 0;
}

/* Debits what was used beyond what was reserved, of each charge by itself. A shadow limit may have
 * taken nothing of that. */
static int debit_excess(struct ration *r, const struct ration_charge *c, size_t n,
                        const uint64_t *used, int64_t now_ns)
{
    struct rn_stripe *s = rn_stats_stripe(&r->stats);
    struct rn_workspace *w = rn_workspace_take(s);

    if (!w)
        return RATION_ENOMEM;
    struct rn_transaction *tx = &w->gathered.tx;

    rn_charge_later_begin(tx, r, w->gathered.charges, now_ns);
    for (size_t i = 0; i < n && tx->n < RATION_CHARGES_MAX; i++) {
        uint64_t reserved = c[i].taken > c[i].cost ? c[i].taken : c[i].cost;
        const struct rn_compiled *l = rn_limiter_find(r, &c[i], &tx->items[tx->n].own);

        if (used[i] > reserved && l)
            rn_transaction_add(tx, l, c[i].hash, used[i] - reserved);
    }
    int code = rn_charge_later_finish(tx, NULL);

    rn_workspace_return(s, w);
    return code;
}

int ration_commit(struct ration *r, uint64_t hold, struct ration_charge *c, size_t n,
                  const uint64_t *used, int64_t now_ns)
{
    now_ns = rn_limiter_now(r, now_ns);
    int code = settle(r, hold, now_ns);

    if (code != 0)
        return code;
    int late = debit_excess(r, c, n, used, now_ns); /* before the receipts are used up */

    code = give_back_rest(r, c, n, used, now_ns);
    return code != 0 ? code : late;
}

int ration_refund(struct ration *r, uint64_t hold, struct ration_charge *c, size_t n,
                  int64_t now_ns)
{
    now_ns = rn_limiter_now(r, now_ns);
    int code = settle(r, hold, now_ns);

    return code ? code : give_back_rest(r, c, n, NULL, now_ns);
}

/* --- tickets -------------------------------------------------------------------------------- */

int ration_decide_reserve(struct ration *r, const struct ration_request *request,
                          int64_t timeout_ns, int64_t now_ns, struct ration_outcome *out,
                          char ticket[RATION_TICKET_SIZE])
{
    struct rn_terms terms = {.lease_ns = timeout_ns, .reserving = true};
    struct ration_outcome made;
    struct rn_ticket t;
    int code;

    if (!rn_reservation_can_last(timeout_ns) || request->drain)
        return rn_gate_fail(r, request->waiter, RATION_EINVAL, now_ns);
    now_ns = rn_limiter_now(r, now_ns);
    code = rn_gather_decide(r, request, now_ns, &terms, &made);
    if (code == 0 && made.decision.allowed)
        code = create(r, timeout_ns, now_ns, terms.charge_flags, &t.id);
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
        t.reserved = terms.reserved ? terms.reserved : request->cost ? request->cost : 1;
        t.given = false;
        t.lease = made.lease;
        t.place_count = made.place_count;
        memcpy(t.places, made.places, made.place_count * sizeof *made.places);
        t.receipt_count = made.receipt_count;
        memcpy(t.receipts, made.receipts, made.receipt_count * sizeof *made.receipts);
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

    if (c->ad_hoc && c->ad_hoc->own) /* a ticket has no room for its name */
        return c->error = RATION_EINVAL;
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

void rn_ticket_issue_delay(struct ration *r, const struct ration_outcome *out,
                           char ticket[RATION_TICKET_SIZE])
{
    int64_t lasts_ns = out->delay_ns < RN_RESERVATION_MAX_NS - GRACE_NS ? out->delay_ns + GRACE_NS
                                                                        : RN_RESERVATION_MAX_NS;

    ticket[0] = '\0';
    if ((out->delay_ns > 0 || out->waited_ns > 0) && out->receipt_count != 0)
        rn_ticket_issue_receipts(r, RN_TICKET_DELAY, out->at_ns, lasts_ns, out->receipts,
                                 out->receipt_count, ticket);
}

/* kept: units that were used; UINT64_MAX: all. One of all processes settles a ticket. */
static int settle_ticket(struct ration *r, const struct rn_ticket *t, uint64_t kept, int64_t now_ns)
{
    struct ration_receipt whole[RATION_CHARGES_MAX];
    size_t count = 0;
    int code;

    now_ns = rn_limiter_now(r, now_ns);
    if (now_ns - t->at_ns >= t->timeout_ns)
        return RATION_EGONE;
    /* A refund of a delay must not be forgotten, as a second refund would mint: without room to
     * remember it, nothing is given back. */
    code = t->kind == RN_TICKET_DELAY
               ? rn_reservation_use_id(r, t->id, t->timeout_ns, now_ns, RN_CHARGE_KEEP)
               : settle(r, t->id, now_ns);
    if (code != 0)
        return code == RATION_EGONE ? RATION_EALREADY : code; /* it has not ended yet */
    for (uint32_t i = 0; i < t->place_count; i++)
        (void)rn_limiter_lease_change(r, RN_RELEASE, t->lease, &t->places[i], 0, now_ns);
    if (t->given) { /* the limit came with the call */
        struct ration_charge c = {.ad_hoc = &t->spec,
                                  .cost = t->reserved,
                                  .hash = t->receipts[0].hash,
                                  .at_ns = t->at_ns,
                                  .taken = t->receipts[0].taken,
                                  .mark = t->receipts[0].mark};

        if (t->receipt_count == 0 || kept == UINT64_MAX)
            return 0;
        return kept > t->reserved ? debit_excess(r, &c, 1, &kept, now_ns)
                                  : give_back_rest(r, &c, 1, &kept, now_ns);
    }
    if (t->kind != RN_TICKET_RESERVATION || kept == UINT64_MAX || kept <= t->reserved)
        return rn_receipt_give_back(r, t->receipts, t->receipt_count, t->at_ns, kept, now_ns);
    for (uint32_t i = 0; i < t->receipt_count; i++)
        if (t->receipts[i].taken == t->reserved) /* else the rule has another cost */
            whole[count++] = t->receipts[i];
    return rn_charge_later_debit(
        r, &(struct rn_charge_later){.items = whole, .count = count, .at_ns = t->at_ns},
        kept - t->reserved, now_ns);
}

int ration_ticket_commit(struct ration *r, const char *ticket, size_t len, bool all, uint64_t cost,
                         int64_t now_ns)
{
    struct rn_ticket t;

    if (!rn_ticket_verify(r, ticket, len, &t) || t.kind != RN_TICKET_RESERVATION)
        return RATION_EINVAL;
    return settle_ticket(r, &t, all ? UINT64_MAX : cost, now_ns);
}

int ration_ticket_refund(struct ration *r, const char *ticket, size_t len, int64_t now_ns)
{
    struct rn_ticket t;

    if (!rn_ticket_verify(r, ticket, len, &t) ||
        (t.kind != RN_TICKET_RESERVATION && t.kind != RN_TICKET_DELAY))
        return RATION_EINVAL;
    return settle_ticket(r, &t, 0, now_ns);
}
