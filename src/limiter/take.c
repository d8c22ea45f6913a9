/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Charging limits given at open, or with the call: the hottest path.
 *
 * The key's memory is fetched while the clock is read, and no branch before the store is taken in
 * the common case: a limit given at open, without variants of another shape.
 */
#include "limiter/decide/transaction.h"
#include "limiter/decide/workspace.h"
#include "limiter/limiter.h"
#include "limiter/line/gate.h"
#include "limiter/state.h"

/* Charges that are hashed and fetched before the first one is decided. */
#define CHUNK 16

static inline void ask_take(struct rn_charge *charge, const struct rn_compiled *l,
                            const struct ration_charge *c)
{
    charge->limit = &l->limit;
    charge->key = rn_compiled_key(l, c);
    charge->flags = l->charge_flags;
    charge->ask.op = c->drain ? RN_DRAIN : RN_TAKE;
    charge->ask.cost = c->cost;
    charge->answer.mark = 0; /* a refusal leaves none */
}

/* By a transaction. */
static RN_ASIDE int take_at_length(struct ration *r, struct ration_charge *c,
                                   struct ration_waiter *waiter, int64_t now_ns)
{
    struct rn_stripe *s = rn_stats_stripe(&r->stats);
    struct rn_workspace *w = rn_workspace_take(s);

    if (!w)
        return c->error = rn_gate_fail(r, waiter, RATION_ENOMEM, now_ns);
    struct rn_transaction *tx = &w->gathered.tx;

    rn_transaction_init(tx, r, c, 1, now_ns);
    tx->waiter = c->drain ? NULL : waiter;
    tx->max_wait_ns = rn_transaction_patience_ns(c->max_wait_ns);
    c->error = rn_transaction_run(tx);
    if (c->error == 0 && c->drain)
        c->error = rn_state_drain(tx);
    rn_workspace_return(s, w);
    return waiter ? rn_gate_fail(r, waiter, c->error, now_ns) : c->error;
}

/* Whether one RN_TAKE may not decide: others wait for this key, or the caller would wait. */
static inline bool may_wait(const struct ration *r, uint64_t key, const struct ration_charge *c)
{
    return rn_gate_stands(r, key) || ((uintptr_t)c->waiter | (uint64_t)c->max_wait_ns) != 0;
}

static inline __attribute__((always_inline)) int
take_lean(struct ration *r, const struct rn_compiled *l, struct ration_charge *c, int64_t now_ns)
{
    struct rn_charge charge;

    if (rn_pause_any(&r->pauses) && !c->waiter &&
        rn_pause_settle(r, l, c, now_ns = rn_limiter_now(r, now_ns)))
        return 0;
    ask_take(&charge, l, c);
    if (rn_unlikely(may_wait(r, charge.key, c)))
        return take_at_length(r, c, c->waiter, now_ns);
    if (now_ns == RATION_NOW) {
        rn_table_prefetch(r->table, charge.key);
        now_ns = rn_table_now(r->table);
    }
    charge.ask.now_ns = now_ns;
    charge.ask.wall_offset_ns = rn_table_wall_offset(r->table, now_ns);
    rn_store_apply(r->store, &charge, 1);
    return rn_limiter_settle(r, rn_stats_stripe(&r->stats), l, c, &charge);
}

static RN_ASIDE int take_other(struct ration *r, struct ration_charge *c, int64_t now_ns)
{
    struct rn_compiled own;
    const struct rn_compiled *l = rn_limiter_find(r, c, &own);

    if (!l || l->limit.algorithm == RATION_CONCURRENCY)
        return c->error = rn_gate_fail(r, c->waiter, RATION_EINVAL, now_ns);
    return l->lean ? take_lean(r, l, c, now_ns) : take_at_length(r, c, c->waiter, now_ns);
}

int ration_take(struct ration *r, struct ration_charge *c, int64_t now_ns)
{
    if (rn_likely(!c->ad_hoc && c->limit < r->limit_count)) {
        const struct rn_compiled *l = &r->limits[c->limit];

        if (rn_likely(l->lean))
            return take_lean(r, l, c, now_ns);
    }
    return take_other(r, c, now_ns);
}

struct chunk {
    size_t n;
    struct ration_charge *from[CHUNK];
    const struct rn_compiled *limits[CHUNK];
    struct rn_charge charges[CHUNK];
    struct rn_compiled own[CHUNK];
};

/* One that cannot be charged with the others, and waits neither. */
static RN_ASIDE void take_in_batch(struct ration *r, const struct rn_compiled *l,
                                   struct ration_charge *c, int64_t now_ns)
{
    if (!l || l->limit.algorithm == RATION_CONCURRENCY)
        c->error = RATION_EINVAL;
    else
        take_at_length(r, c, NULL, now_ns);
}

/* Hashes and fetches what can be charged together, then charges it; decides the others by
 * themselves. Callers pass equal limits by one pointer: a limit is compiled once for all charges in
 * a row that have it. */
static void take_chunk(struct ration *r, struct ration_charge *c, size_t n, int64_t now_ns)
{
    const struct rn_compiled *l = NULL;
    bool any = rn_lines_any(r->lines);
    struct chunk k;

    k.n = 0;
    for (size_t i = 0; i < n; i++) {
        if (!l || !c[i].ad_hoc || c[i].ad_hoc != c[i - 1].ad_hoc)
            l = rn_limiter_find(r, &c[i], &k.own[i]);
        if (rn_unlikely(!l || !l->lean)) {
            take_in_batch(r, l, &c[i], now_ns);
            continue;
        }
        if (rn_pause_any(&r->pauses) &&
            rn_pause_settle(r, l, &c[i], now_ns = rn_limiter_now(r, now_ns)))
            continue;
        ask_take(&k.charges[k.n], l, &c[i]);
        if (rn_gate_stands_if(r, k.charges[k.n].key, any)) {
            take_in_batch(r, l, &c[i], now_ns);
            continue;
        }
        rn_table_prefetch(r->table, k.charges[k.n].key);
        k.from[k.n] = &c[i];
        k.limits[k.n++] = l;
    }
    if (k.n == 0)
        return;
    now_ns = rn_limiter_now(r, now_ns);
    int64_t wall_offset_ns = rn_table_wall_offset(r->table, now_ns);
    struct rn_stripe *s = rn_stats_stripe(&r->stats);

    for (size_t i = 0; i < k.n; i++) {
        k.charges[i].ask.now_ns = now_ns;
        k.charges[i].ask.wall_offset_ns = wall_offset_ns;
    }
    rn_store_apply(r->store, k.charges, k.n);
    for (size_t i = 0; i < k.n; i++)
        rn_limiter_settle(r, s, k.limits[i], k.from[i], &k.charges[i]);
}

void ration_take_batch(struct ration *r, struct ration_charge *c, size_t n, int64_t now_ns)
{
    for (; n > CHUNK; c += CHUNK, n -= CHUNK)
        take_chunk(r, c, CHUNK, now_ns);
    take_chunk(r, c, n, now_ns);
}

/* --- all or none ------------------------------------------------------------------------ */

/* Fills and counts what rn_table_take_all has decided. */
static inline void settle_all(struct ration *r, const struct rn_compiled *const *limits,
                              const struct rn_charge *charges, size_t n, struct ration_charge *c,
                              bool allowed, struct ration_decision *decision)
{
    struct rn_stripe *s = rn_stats_stripe(&r->stats);
    struct rn_verdict_choice choice = RN_VERDICT_NO_CHOICE;

    for (size_t i = 0; i < n; i++) {
        rn_limiter_fill(&c[i], limits[i], &charges[i]);
        rn_verdict_consider(&choice, (int)i, &c[i].verdict, allowed);
        c[i].error = 0;
        if (rn_likely(allowed)) {
            rn_stats_add(s, &rn_stats_row(s, limits[i]->index)->allowed);
            continue;
        }
        c[i].taken = 0;
        if (c[i].verdict.allowed)
            continue;
        rn_stats_count(s, rn_stats_row(s, limits[i]->index), RN_RESULT_REFUSED, 0);
        rn_top_note(r->top, s, limits[i]->index, RN_SLICE(""), &c[i]);
    }
    rn_verdict_choose(decision, &choice, allowed);
    rn_stats_count_total(s, allowed ? RN_RESULT_ALLOWED : RN_RESULT_REFUSED);
}

/* Limits given at open that one RN_TAKE each charges. False: nothing has been done. */
static inline bool check_lean(struct ration *r, struct ration_charge *c, size_t n, int64_t now_ns,
                              struct ration_decision *decision)
{
    const struct rn_compiled *limits[RN_TABLE_ALL_MAX];
    struct rn_charge charges[RN_TABLE_ALL_MAX];

    if (n == 0 || n > RN_TABLE_ALL_MAX || !rn_limiter_is_local(r) || c->waiter ||
        rn_pause_any(&r->pauses))
        return false;
    bool any = rn_lines_any(r->lines);

    for (size_t i = 0; i < n; i++) {
        if (c[i].ad_hoc || c[i].drain || c[i].limit >= r->limit_count)
            return false;
        const struct rn_compiled *l = limits[i] = &r->limits[c[i].limit];

        if (!l->fast_path)
            return false;
        ask_take(&charges[i], l, &c[i]);
        if (rn_gate_stands_if(r, charges[i].key, any))
            return false;
        rn_table_prefetch(r->table, charges[i].key);
    }
    now_ns = rn_limiter_now(r, now_ns);
    int64_t wall_offset_ns = rn_table_wall_offset(r->table, now_ns);

    for (size_t i = 0; i < n; i++) {
        charges[i].ask.now_ns = now_ns;
        charges[i].ask.wall_offset_ns = wall_offset_ns;
    }
    enum rn_table_all all = rn_table_take_all(r->table, charges, n);

    if (rn_unlikely(all == RN_ALL_UNDONE))
        return false;
    settle_all(r, limits, charges, n, c, all == RN_ALL_TAKEN, decision);
    return true;
}

static RN_ASIDE int check_other(struct ration *r, struct ration_charge *c, size_t n, int64_t now_ns,
                                struct ration_decision *decision)
{
    struct rn_stripe *s = rn_stats_stripe(&r->stats);

    if (n > RATION_CHARGES_MAX)
        return RATION_EINVAL;
    for (size_t i = 0; i < n && n > 1; i++)
        if (c[i].drain)
            return RATION_ESEVERAL;
    struct rn_workspace *w = rn_workspace_take(s);

    if (!w)
        return RATION_ENOMEM;
    struct rn_transaction *tx = &w->gathered.tx;

    rn_transaction_init(tx, r, c, n, now_ns);
    tx->waiter = n != 0 && !c->drain ? c->waiter : NULL;
    tx->max_wait_ns = n != 0 ? rn_transaction_patience_ns(c->max_wait_ns) : 0;
    int code = rn_transaction_run(tx);

    if (code == 0 && n == 1 && c->drain)
        code = rn_state_drain(tx);
    if (code == 0)
        *decision = tx->decision;
    rn_workspace_return(s, w);
    return code;
}

int ration_check(struct ration *r, struct ration_charge *c, size_t n, int64_t now_ns,
                 struct ration_decision *decision)
{
    if (rn_likely(check_lean(r, c, n, now_ns, decision)))
        return 0;
    int code = check_other(r, c, n, now_ns, decision);

    return n != 0 && c->waiter ? rn_gate_fail(r, c->waiter, code, now_ns) : code;
}
