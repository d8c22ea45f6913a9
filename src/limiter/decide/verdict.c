/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the answers of all limits to one decision.
 */

#include "limiter/decide/transaction.h"
#include "limiter/line/gate.h"

/* Another thread is carrying over what was spent (inherit.c): the client must ask again. */
#define RETRY_SOON_NS INT64_C(1000000)

bool rn_verdict_restrict(struct rn_transaction_item *item, uint64_t cost)
{
    struct rn_answer *answer = &item->answer;

    if (!answer->allowed)
        return false;
    item->refused_by_delay = item->max_wait_ns != 0 && answer->delay_ns > item->max_wait_ns;
    if (item->refused_by_delay)
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

static void fill_charge(struct rn_transaction *tx, size_t i)
{
    const struct rn_transaction_item *item = &tx->items[i];
    struct ration_charge *c = &tx->charges[i];

    c->hash = item->key;
    c->at_ns = tx->now_ns;
    c->mark = item->answer.mark;
    c->taken = item->taken;
    rn_verdict_set(&c->verdict, item->limit, &item->answer);
    if (rn_likely(tx->needs == 0))
        return;
    rn_verdict_set_places(&c->verdict, item->limit, &item->answer);
    /* This client cannot count on units above the limit as written, on units that it must leave to
     * others, or on units that a guard would refuse. */
    uint64_t hidden = item->soft > item->keep ? item->soft : item->keep;
    uint64_t left = c->verdict.limit - item->floor;

    left = c->verdict.remaining < left ? c->verdict.remaining : left;
    left = left > hidden ? left - hidden : 0;
    c->verdict.limit -= item->soft;
    c->verdict.remaining = left < item->guard_left ? left : item->guard_left;
}

/* Shadow limits never decide. */
void rn_verdict_decide(struct rn_transaction *tx, bool allowed)
{
    static const struct ration_verdict no_limit = {
        .allowed = true, .limit = UINT64_MAX, .remaining = UINT64_MAX};
    struct rn_verdict_choice choice = RN_VERDICT_NO_CHOICE;

    for (size_t i = 0; i < tx->n; i++) {
        fill_charge(tx, i);
        if (!tx->items[i].shadow)
            rn_verdict_consider(&choice, (int)i, &tx->charges[i].verdict, allowed);
    }
    if (rn_unlikely(!choice.best))
        choice.best = &no_limit;
    rn_verdict_choose(&tx->decision, &choice, allowed);
}

RN_HOT void rn_verdict_finish(struct rn_transaction *tx, bool allowed)
{
    unsigned result = tx->error != 0 ? RN_RESULT_FAILED
                      : allowed      ? RN_RESULT_ALLOWED
                                     : RN_RESULT_REFUSED;
    unsigned total = result;

    if (tx->error == 0)
        rn_verdict_decide(tx, allowed);
    if (tx->uncounted)
        return;
    struct rn_stripe *s = rn_stats_stripe(&tx->r->stats);

    if (rn_unlikely(tx->waited_ns != 0) && tx->error == 0)
        rn_gate_count(
            tx, tx->waited_at < 0 ? NULL : rn_stats_row(s, tx->items[tx->waited_at].limit->index),
            allowed);
    for (size_t i = 0; i < tx->n; i++) {
        const struct rn_compiled *l = tx->items[i].limit;
        const struct ration_charge *c = &tx->charges[i];
        unsigned own = result;

        if (rn_likely(result == RN_RESULT_ALLOWED && c->error == 0 && c->verdict.allowed)) {
            rn_stats_count(s, rn_stats_row(s, l->index), RN_RESULT_ALLOWED, 0);
            continue;
        }
        if (c->error != 0 && result == RN_RESULT_ALLOWED) { /* a shadow limit */
            rn_limiter_count(s, l, RN_RESULT_FAILED);
            continue;
        }
        if (result == RN_RESULT_FAILED ? c->error == 0
                                       : !allowed && (tx->items[i].shadow || c->verdict.allowed))
            continue; /* it did not contribute to the result */
        if (result == RN_RESULT_ALLOWED)
            own |= RN_RESULT_SHADOWED;
        total |= own;
        rn_stats_count(s, rn_stats_row(s, l->index), own, 0);
        if (result == RN_RESULT_REFUSED)
            rn_top_note(tx->r->top, s, l->index, RN_SLICE(""), c);
    }
    if (rn_likely(total == RN_RESULT_ALLOWED))
        rn_stats_count_total(s, RN_RESULT_ALLOWED);
    else
        rn_stats_count_total(s, total);
}
