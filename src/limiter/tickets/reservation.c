/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reservations: charge now, settle later, once.
 *
 * A reservation is a key of the table like any other: its id under a token
 * bucket of one unit that takes the timeout to refill. Taking that unit creates
 * it; it is live until the deadline; forgetting it is atomic and tells whether
 * it was live, so that of all threads and processes one settles it. If it is
 * evicted at capacity, the charge stands: nothing is minted.
 */
#include "limiter/tickets/reservation.h"

#include "limiter/decide/transaction.h"
#include "limiter/decide/workspace.h"
#include "limiter/limiter.h"
#include "limiter/tickets/charge_later.h"

static void init_limit(struct rn_limit *limit, int64_t timeout_ns)
{
    rn_limit_init(limit, &(struct ration_limit){.algorithm = RATION_TOKEN_BUCKET,
                                                .amount = 1,
                                                .period_ns = timeout_ns});
}

static int apply(struct ration *r, uint64_t id, const struct rn_limit *limit,
                 struct rn_charge *charge)
{
    charge->limit = limit;
    charge->key = rn_siphash(&r->reservation_seed, &id, sizeof id);
    charge->ask.wall_offset_ns = rn_table_wall_offset(r->table, charge->ask.now_ns);
    rn_store_apply(r->store, charge, 1);
    return charge->error;
}

/* A reservation on a limit that keeps its keys at capacity is kept as well. */
static unsigned flags_of(const struct ration *r, const struct ration_charge *c, size_t n)
{
    unsigned flags = 0;

    for (size_t i = 0; i < n; i++)
        if (!c[i].ad_hoc)
            flags |= r->limits[c[i].limit].charge_flags;
    return flags;
}

int rn_reservation_create(struct ration *r, int64_t timeout_ns, int64_t now_ns, unsigned flags,
                          uint64_t *hold)
{
    struct rn_limit limit;
    struct rn_charge charge = {.flags = flags & (RN_CHARGE_KEEP | RN_CHARGE_EVICT_LAST),
                               .ask = {.op = RN_TAKE, .now_ns = now_ns, .cost = 1}};
    uint64_t id;

    init_limit(&limit, timeout_ns);
    do {
        id = rn_limiter_new_id(r);
        if (apply(r, id, &limit, &charge) != 0)
            return charge.error;
    } while (!charge.answer.allowed); /* an id in use, once in a blue moon */
    *hold = id;
    return 0;
}

int rn_reservation_use_id(struct ration *r, uint64_t id, int64_t timeout_ns, int64_t now_ns,
                          unsigned flags)
{
    struct rn_limit limit;
    struct rn_charge charge = {.flags = flags & (RN_CHARGE_KEEP | RN_CHARGE_EVICT_LAST),
                               .ask = {.op = RN_TAKE, .now_ns = now_ns, .cost = 1}};

    init_limit(&limit, timeout_ns);
    if (apply(r, id, &limit, &charge) != 0)
        return charge.error;
    return charge.answer.allowed ? 0 : RATION_EALREADY;
}

int rn_reservation_settle(struct ration *r, uint64_t hold, int64_t now_ns)
{
    struct rn_limit limit;
    struct rn_charge charge = {.ask = {.op = RN_RESET, .now_ns = now_ns}};

    init_limit(&limit, RN_RESERVATION_MAX_NS);
    if (hold == 0)
        return RATION_EGONE;
    if (apply(r, hold, &limit, &charge) != 0)
        return charge.error;
    return charge.answer.allowed ? 0 : RATION_EGONE;
}

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

int ration_reserve(struct ration *r, struct ration_charge *c, size_t n, int64_t timeout_ns,
                   int64_t now_ns, uint64_t *hold, struct ration_decision *decision)
{
    struct ration_decision decided;

    if (!rn_reservation_can_last(timeout_ns))
        return RATION_EINVAL;
    for (size_t i = 0; i < n; i++)
        if (c[i].drain)
            return RATION_EINVAL; /* there would be nothing to settle */
    now_ns = rn_limiter_now(r, now_ns);
    int code = ration_check(r, c, n, now_ns, &decided);

    if (code != 0)
        return code;
    uint64_t id = 0;

    if (decided.allowed)
        code = rn_reservation_create(r, timeout_ns, now_ns, flags_of(r, c, n), &id);
    if (code != 0) {
        (void)give_back_rest(r, c, n, NULL, now_ns);
        return code;
    }
    *hold = id;
    *decision = decided;
    return 0;
}

/* What was used beyond what was reserved, of each charge by itself. A shadow limit may have
 * taken nothing of that. */
static int debit_excess(struct ration *r, const struct ration_charge *c, size_t n,
                        const uint64_t *used, int64_t now_ns)
{
    struct rn_stripe *s = rn_stats_stripe(&r->stats);
    struct rn_workspace *w = rn_workspace_take(s);
    int code = 0;

    if (!w)
        return RATION_ENOMEM;
    struct rn_transaction *tx = &w->gathered.tx;

    rn_transaction_init(tx, r, w->gathered.charges, 0, now_ns);
    tx->uncounted = tx->late = true;
    for (size_t i = 0; i < n && tx->n < RATION_CHARGES_MAX; i++) {
        uint64_t reserved = c[i].taken > c[i].cost ? c[i].taken : c[i].cost;
        const struct rn_compiled *l = rn_limiter_find(r, &c[i], &tx->items[tx->n].own);

        if (used[i] > reserved && l)
            rn_transaction_add(tx, l, c[i].hash, used[i] - reserved);
    }
    if (tx->n != 0) {
        code = rn_transaction_run(tx);
        rn_charge_later_count(tx, NULL);
    }
    rn_workspace_return(s, w);
    return code;
}

int ration_commit(struct ration *r, uint64_t hold, struct ration_charge *c, size_t n,
                  const uint64_t *used, int64_t now_ns)
{
    now_ns = rn_limiter_now(r, now_ns);
    int code = rn_reservation_settle(r, hold, now_ns);

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
    int code = rn_reservation_settle(r, hold, now_ns);

    return code ? code : give_back_rest(r, c, n, NULL, now_ns);
}
