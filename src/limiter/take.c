/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Charging one limit: the hottest path.
 *
 * The key's memory is fetched while the clock is read, and no branch before the store is taken in
 * the common case: a limit given at open, without variants of another shape.
 */
#include "limiter/decide/transaction.h"
#include "limiter/decide/workspace.h"
#include "limiter/limiter.h"
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

static inline __attribute__((always_inline)) int
take_lean(struct ration *r, const struct rn_compiled *l, struct ration_charge *c, int64_t now_ns)
{
    struct rn_charge charge;

    ask_take(&charge, l, c);
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
        return c->error = RATION_EINVAL;
    if (l->lean)
        return take_lean(r, l, c, now_ns);
    struct rn_stripe *s = rn_stats_stripe(&r->stats);
    struct rn_workspace *w = rn_workspace_take(s);

    if (!w)
        return c->error = RATION_ENOMEM;
    rn_transaction_init(&w->gathered.tx, r, c, 1, now_ns);
    int code = rn_transaction_run(&w->gathered.tx);

    if (code == 0 && c->drain)
        c->error = code = rn_state_drain(&w->gathered.tx);
    rn_workspace_return(s, w);
    return code;
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

/* Hashes and fetches what can be charged together, then charges it; decides the others by
 * themselves. Callers pass equal limits by one pointer: a limit is compiled once for all charges in
 * a row that have it. */
static void take_chunk(struct ration *r, struct ration_charge *c, size_t n, int64_t now_ns)
{
    const struct rn_compiled *l = NULL;
    struct chunk k;

    k.n = 0;
    for (size_t i = 0; i < n; i++) {
        if (!l || !c[i].ad_hoc || c[i].ad_hoc != c[i - 1].ad_hoc)
            l = rn_limiter_find(r, &c[i], &k.own[i]);
        if (rn_unlikely(!l || !l->lean)) {
            take_other(r, &c[i], now_ns);
            continue;
        }
        ask_take(&k.charges[k.n], l, &c[i]);
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
