/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of pauses in a decision: before any limit is asked. A refusal by a pause is counted as
 * any other one (totals, rule, usage, the keys refused most), but is no offence for `escalate`.
 */
#include "limiter/decide/fast_path.h"
#include "limiter/decide/gather.h"
#include "limiter/limiter.h"
#include "limiter/line/gate.h"

void rn_pause_count(struct ration *r)
{
    __atomic_fetch_add(&r->pauses.refused, 1, __ATOMIC_RELAXED);
}

/* --- requests --------------------------------------------------------------------------------- */

/* *hash: of the client. Without a limit, whatever its tier, a pause cannot name it. */
static int64_t find(struct ration *r, const struct rn_book *book, const struct rn_applied *a,
                    int64_t now_ns, uint64_t *hash)
{
    const struct rn_compiled *any = a->instead ? a->instead : rn_book_any_limit(book, a->rule);

    *hash = any ? rn_gather_hash(a, any) : 0;
    return any ? rn_pause_left(r, rn_pause_key(*hash), now_ns) : 0;
}

int64_t rn_pause_of_client(struct ration *r, const struct rn_book *book, const struct rn_applied *a,
                           int64_t now_ns)
{
    uint64_t unread;

    return rn_pause_any(&r->pauses) ? find(r, book, a, now_ns, &unread) : 0;
}

RN_ASIDE void rn_pause_find(struct rn_gathered *g, const struct rn_applied *a)
{
    uint64_t hash;

    if (a->shadow || a->refund || a->late || g->past_bans || a->rule->index == RN_AD_HOC)
        return;
    g->tx.now_ns = rn_limiter_now(g->r, g->tx.now_ns);
    int64_t rest_ns = find(g->r, g->book, a, g->tx.now_ns, &hash);

    if (rest_ns <= g->pause_ns)
        return;
    g->pause_ns = rest_ns;
    g->paused_by = g->rule_count;
    g->paused_hash = hash;
}

bool rn_pause_wait(struct rn_gathered *g)
{
    size_t first = 0;

    while (first < g->tx.n && g->rule_of[first] != g->paused_by)
        first++;
    return rn_gate_wait_for_pause(&g->tx, first, g->pause_ns);
}

void rn_pause_refuse(struct rn_gathered *g, bool look_only, struct ration_outcome *out)
{
    const struct rn_applied *a = &g->rules[g->paused_by];

    rn_outcome_paused(out, a->rule, g->pause_ns);
    if (look_only)
        return;
    rn_gather_count_unasked(g->r, g->book, a, g->paused_hash, g->tx.now_ns);
    rn_pause_count(g->r);
}

RN_ASIDE bool rn_pause_stops(struct ration *r, const struct rn_fast_path *f, int64_t now_ns)
{
    now_ns = rn_limiter_now(r, now_ns);
    for (uint32_t i = 0; i < f->n; i++) {
        uint64_t hash = f->charges[i].key ^ f->limits[i]->salt;

        if ((i == 0 || f->matches[i] != f->matches[i - 1]) &&
            rn_pause_left(r, rn_pause_key(hash), now_ns) != 0)
            return true;
    }
    return false;
}

/* --- charges of a caller ------------------------------------------------------------------------
 */

int64_t rn_pause_of_charge(struct ration *r, const struct rn_compiled *l,
                           const struct ration_charge *c, int64_t now_ns)
{
    if (l->index == RN_AD_HOC)
        return c->key ? rn_pause_left(r, rn_pause_key_of_text(r, c->key, c->key_len), now_ns) : 0;
    return rn_pause_left(r, rn_pause_key(rn_compiled_key(l, c) ^ l->salt), now_ns);
}

static struct rn_answer refusal(int64_t rest_ns)
{
    return (struct rn_answer){.retry_after_ns = rest_ns, .reset_after_ns = rest_ns};
}

RN_ASIDE bool rn_pause_settle(struct ration *r, const struct rn_compiled *l,
                              struct ration_charge *c, int64_t now_ns)
{
    now_ns = rn_limiter_now(r, now_ns);
    int64_t rest_ns = rn_pause_of_charge(r, l, c, now_ns);

    if (rn_likely(rest_ns == 0))
        return false;
    struct rn_charge done = {.key = rn_compiled_key(l, c),
                             .ask = {.op = RN_TAKE, .now_ns = now_ns},
                             .answer = refusal(rest_ns)};

    (void)rn_limiter_settle(r, rn_stats_stripe(&r->stats), l, c, &done);
    c->paused = true;
    if (!l->shadow)
        rn_pause_count(r);
    return true;
}

void rn_pause_tell(struct ration *r, const struct rn_compiled *l, struct ration_charge *c,
                   int64_t now_ns)
{
    int64_t rest_ns = rn_pause_of_charge(r, l, c, now_ns);

    if (rest_ns == 0)
        return;
    c->paused = true;
    c->verdict.allowed = false;
    c->verdict.delay_ns = 0;
    if (c->verdict.retry_after_ns < rest_ns)
        c->verdict.retry_after_ns = rest_ns;
}

RN_ASIDE void rn_pause_hold(struct rn_transaction *tx)
{
    for (size_t i = 0; i < tx->n; i++) {
        struct rn_transaction_item *item = &tx->items[i];

        if (!item->shadow)
            item->held_ns = rn_pause_of_charge(tx->r, item->limit, &tx->charges[i], tx->now_ns);
        tx->charges[i].paused = item->held_ns != 0;
        tx->held |= item->held_ns != 0;
    }
}
