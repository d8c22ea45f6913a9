/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the answers of all limits to one decision.
 */
#include "limiter/decide/verdict.h"

#include "limiter/limiter.h"

/* Somebody else is carrying over what was spent (inherit.c): ask again. */
#define RETRY_SOON_NS INT64_C(1000000)

__extension__ typedef unsigned __int128 u128;

/* remaining / limit of a is less than that of b. */
static bool nearer(const struct ration_verdict *a, const struct ration_verdict *b)
{
    return (u128)a->remaining * b->limit < (u128)b->remaining * a->limit;
}

bool rn_verdict_outranks(const struct ration_verdict *a, const struct ration_verdict *b,
                         bool allowed)
{
    return allowed ? nearer(a, b) : a->retry_after_ns > b->retry_after_ns;
}

bool rn_verdict_restrict(struct rn_transaction_item *item, uint64_t cost)
{
    struct rn_answer *answer = &item->answer;

    if (!answer->allowed)
        return false;
    if (item->max_wait_ns != 0 && answer->delay_ns > item->max_wait_ns)
        answer->retry_after_ns = answer->delay_ns - item->max_wait_ns;
    else if (item->floor != 0 && cost > item->limit->limit.cap - item->floor)
        answer->retry_after_ns = RETRY_SOON_NS;
    else
        return false;
    answer->allowed = false;
    answer->delay_ns = 0;
    return true;
}

void rn_verdict_add_guard(struct rn_transaction_item *item, const struct rn_answer *guard)
{
    struct rn_answer *answer = &item->answer;

    if (guard->remaining < item->guard_left)
        item->guard_left = guard->remaining;
    if (guard->allowed)
        return;
    answer->allowed = false;
    answer->delay_ns = 0;
    if (answer->retry_after_ns < guard->retry_after_ns)
        answer->retry_after_ns = guard->retry_after_ns;
}

/* Neither what lies above the limit as written nor what must be left to others
 * is this client's to count on; nor what a guard would refuse. */
static void hide_reserve(const struct rn_transaction_item *item, struct ration_verdict *verdict)
{
    uint64_t hidden = item->soft > item->keep ? item->soft : item->keep;
    uint64_t left = verdict->limit - item->floor;

    left = verdict->remaining < left ? verdict->remaining : left;
    verdict->limit -= item->soft;
    left = left > hidden ? left - hidden : 0;
    verdict->remaining = left < item->guard_left ? left : item->guard_left;
}

static void fill_charge(struct rn_transaction *tx, size_t i)
{
    const struct rn_transaction_item *item = &tx->items[i];
    struct ration_charge *c = &tx->charges[i];

    c->hash = item->key;
    c->at_ns = tx->now_ns;
    c->mark = item->answer.mark;
    c->taken = item->taken;
    rn_verdict_set(&c->verdict, item->limit, &item->answer);
    if (rn_unlikely(tx->needs != 0))
        hide_reserve(item, &c->verdict);
}

/* Shadow limits never decide; nor, in a refusal, those that would admit. */
static void decide(struct rn_transaction *tx, bool allowed)
{
    struct ration_decision *d = &tx->decision;
    int64_t delay_ns = 0;

    d->allowed = allowed;
    d->decided_by = -1;
    for (size_t i = 0; i < tx->n; i++) {
        const struct ration_verdict *verdict = &tx->charges[i].verdict;

        fill_charge(tx, i);
        if (tx->items[i].shadow)
            continue;
        if (allowed && verdict->delay_ns > delay_ns)
            delay_ns = verdict->delay_ns;
        if (verdict->allowed == allowed &&
            (d->decided_by < 0 ||
             rn_verdict_outranks(verdict, &tx->charges[d->decided_by].verdict, allowed)))
            d->decided_by = (int)i;
    }
    if (rn_likely(d->decided_by >= 0))
        d->verdict = tx->charges[d->decided_by].verdict;
    else /* nothing stood in the way: as of no limit */
        d->verdict =
            (struct ration_verdict){.allowed = true, .limit = UINT64_MAX, .remaining = UINT64_MAX};
    d->verdict.delay_ns = delay_ns;
}

static void count_admission(struct rn_transaction *tx, struct rn_stripe *s)
{
    bool shadowed = false;

    for (size_t i = 0; i < tx->n; i++) {
        struct rn_counts *row = rn_stats_row(s, tx->items[i].limit->index);

        if (tx->charges[i].error != 0) {
            rn_limiter_failed(s, tx->items[i].limit);
            continue;
        }
        rn_stats_add(s, &row->allowed);
        if (!tx->charges[i].verdict.allowed) {
            rn_stats_add(s, &row->shadowed);
            shadowed = true;
        }
    }
    rn_stats_add(s, &s->total.allowed);
    if (shadowed)
        rn_stats_add(s, &s->total.shadowed);
}

static void count_refusal(struct rn_transaction *tx, struct rn_stripe *s)
{
    for (size_t i = 0; i < tx->n; i++) {
        const struct rn_compiled *l = tx->items[i].limit;

        if (tx->items[i].shadow || tx->charges[i].verdict.allowed)
            continue;
        rn_stats_add(s, &rn_stats_row(s, l->index)->refused);
        rn_top_note(tx->r->top, s, l->index, RN_SLICE(""), &tx->charges[i]);
    }
    rn_stats_add(s, &s->total.refused);
}

static void count_failure(const struct rn_transaction *tx, struct rn_stripe *s)
{
    for (size_t i = 0; i < tx->n; i++)
        if (tx->charges[i].error != 0)
            rn_stats_add(s, &rn_stats_row(s, tx->items[i].limit->index)->errors);
    rn_stats_add(s, &s->total.errors);
}

RN_HOT void rn_verdict_finish(struct rn_transaction *tx, bool allowed)
{
    if (tx->error == 0)
        decide(tx, allowed);
    if (tx->uncounted)
        return;
    struct rn_stripe *s = rn_stats_stripe(&tx->r->stats);

    if (tx->error != 0)
        count_failure(tx, s);
    else if (allowed)
        count_admission(tx, s);
    else
        count_refusal(tx, s);
}
