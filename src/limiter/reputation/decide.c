/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of reputation in a decision at length (gather.h): bans before anything is charged, and
 * which refusals count.
 */
#include "limiter/decide/gather.h"
#include "limiter/factor.h"
#include "limiter/limiter.h"
#include "limiter/reputation/earned.h"

/* A rule bans where it limits: not under a tier or an override without a limit. */
void rn_reputation_find_ban(struct rn_gathered *g, const struct rn_applied *a, uint64_t hash)
{
    if (a->limit_count == 0 || a->shadow || a->refund || a->late || g->past_bans)
        return;
    g->tx.now_ns = rn_limiter_now(g->r, g->tx.now_ns);
    struct rn_reputation_ban ban =
        rn_reputation_ban(&g->r->reputation, a->rule->escalate, hash, g->tx.now_ns);

    if (ban.rest_ns <= g->ban.rest_ns)
        return;
    g->ban = ban;
    g->banned_by = g->rule_count;
    g->banned_hash = hash;
}

/* Whether the client could help it: not if the store gave no answer, if units were kept for other
 * priorities only, or if what was spent before a reload is just being carried over. */
static bool counts(const struct rn_transaction_item *item, uint64_t cost)
{
    return !rn_fallback_has_decided(item->answer.mark) && item->floor == 0 &&
           (item->keep == 0 || item->answer.remaining < cost);
}

void rn_reputation_count_refusal(struct rn_gathered *g, uint32_t rule)
{
    const struct rn_applied *a = &g->rules[rule];

    if (a->late || a->cost == 0 || g->no_server || rn_factor_get(g->book, a->rule) < 100)
        return;
    for (size_t i = 0; i < g->tx.n; i++) {
        const struct rn_transaction_item *item = &g->tx.items[i];

        if (g->rule_of[i] != rule || item->shadow || g->charges[i].error != 0 ||
            g->charges[i].verdict.allowed || !counts(item, g->charges[i].cost))
            continue;
        rn_reputation_refused(
            g->r, g->book,
            &(struct rn_reputation_refusal){.applied = a,
                                            .rule = rn_reputation_rule(g->r, a->rule->name),
                                            .hash = item->key ^ item->limit->salt,
                                            .now_ns = g->tx.now_ns});
        return;
    }
}

/* What was charged, or will be by its outcome. */
void rn_reputation_count_admission(struct rn_gathered *g, uint32_t rule)
{
    const struct rn_applied *a = &g->rules[rule];

    if (a->late || a->cost == 0 || g->no_server || g->all_shadow)
        return;
    for (size_t i = 0; i < g->tx.n; i++) {
        const struct rn_transaction_item *item = &g->tx.items[i];

        if (g->rule_of[i] != rule || item->shadow || g->charges[i].error != 0 ||
            rn_fallback_has_decided(item->answer.mark))
            continue;
        rn_earned_admit(g->r, &(struct rn_earned){.plan = a->rule->earn,
                                                  .rule = rn_reputation_rule_of(g->r, item->limit),
                                                  .hash = item->key ^ item->limit->salt,
                                                  .now_ns = g->tx.now_ns});
        return;
    }
}

void rn_reputation_count_ban(struct ration *r, const struct rn_book *book,
                             const struct rn_applied *a, uint64_t hash, int64_t now_ns)
{
    struct rn_stripe *s = rn_stats_stripe(&r->stats);

    rn_gather_count_unasked(r, book, a, hash, now_ns);
    rn_stats_add(s, &rn_stats_row(rn_stats_stripe(&book->stats), a->rule->index)->ban_refusals);
    rn_stats_add(s, &s->total.ban_refusals);
}
