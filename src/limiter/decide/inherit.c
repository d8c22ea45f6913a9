/* SPDX-License-Identifier: Apache-2.0 */
/*
 * INHERIT, the step of a transaction that carries what a client had spent before a
 * reload over to limits of a new shape. For each rule that was changed, while any client can
 * still have something to carry:
 *
 *   peek at the retired states; done if none has anything spent.
 *   claim the key, so that one thread does the rest, and peek again;
 *   force the share that is spent of the retired states, rounded up, into the
 *   fresh ones of all tiers; then forget the retired ones, so that it happens
 *   once, and the claim.
 *
 * A request that does not get the claim, or only looks, does not wait: it counts at
 * least that share as spent. A claim is a key of the table like any other, a bucket of
 * one unit, and ends by itself after a second, in case its owner is killed. If its owner
 * takes longer than that, the share may be forced twice: the client then has less,
 * never more.
 *
 * Decisions by the old rules that were under way during the reload still charge
 * the retired state, perhaps after it was forgotten: two decisions of one
 * instant that do not see each other. What they charged is carried over by the
 * next claim.
 */
#include "limiter/decide/transaction.h"

#include "limiter/factor.h"
#include "limiter/limiter.h"

/* A rule that was changed: the item of its first limit, and what is spent of each retired state. */
struct heir {
    struct rn_transaction *tx;
    size_t item;
    const struct rn_family *family;
    uint64_t spent[RN_RETIRED_MAX];
};

/* Has the store answer the batch. False: one of its charges failed. */
static bool apply(const struct heir *h)
{
    struct rn_transaction *tx = h->tx;

    rn_transaction_apply(tx);
    for (size_t i = 0; i < tx->batch_n; i++)
        if (tx->batch[i].error != 0)
            return rn_transaction_fail(tx, h->item, tx->batch[i].error);
    return true;
}

static bool look_at_retired(struct heir *h)
{
    struct rn_transaction *tx = h->tx;
    const struct rn_family *f = h->family;

    tx->batch_n = 0;
    for (uint32_t i = 0; i < f->retired_count; i++)
        rn_transaction_ask(tx, h->item, &f->retired[i].limit, RN_PEEK, 0);
    if (!apply(h))
        return false;
    for (uint32_t i = 0; i < f->retired_count; i++)
        h->spent[i] = f->retired[i].limit.limit.cap - tx->batch[i].answer.remaining;
    return true;
}

static bool has_spent(const struct heir *h)
{
    for (uint32_t i = 0; i < h->family->retired_count; i++)
        if (h->spent[i] != 0)
            return true;
    return false;
}

/* The largest share that any predecessor of the member has spent, of `cap` units. */
static uint64_t share_for(const struct heir *h, const struct rn_member *m, uint64_t cap)
{
    const struct rn_family *f = h->family;
    uint64_t most = 0;

    if (!m->fresh)
        return 0;
    for (uint32_t i = 0; i < f->retired_count; i++) {
        uint64_t share = rn_compiled_scale(h->spent[i], f->retired[i].limit.limit.cap, cap);

        if (rn_family_pairs(f, m, &f->retired[i]) && share > most)
            most = share;
    }
    return most;
}

/* A batch at a time: a rule may have any number of tiers. */
static bool force_shares(const struct heir *h)
{
    struct rn_transaction *tx = h->tx;

    tx->batch_n = 0;
    for (uint32_t i = 0; i < h->family->member_count; i++) {
        const struct rn_member *m = &h->family->members[i];
        const struct rn_compiled *l = rn_factor_step_earned(m->limit, tx->items[h->item].earned);
        uint64_t share = share_for(h, m, l->limit.cap);

        if (share != 0)
            rn_transaction_ask(tx, h->item, l, RN_FORCE, share);
        if (tx->batch_n == RATION_CHARGES_MAX) {
            if (!apply(h))
                return false;
            tx->batch_n = 0;
        }
    }
    return apply(h);
}

static bool inherit(struct heir *h)
{
    struct rn_transaction *tx = h->tx;
    const struct rn_family *f = h->family;

    if (!look_at_retired(h))
        return false;
    if (!has_spent(h))
        return true;
    tx->batch_n = 0;
    if (!tx->look_only) {
        rn_transaction_ask(tx, h->item, f->claim, RN_TAKE, 1);
        if (!apply(h))
            return false;
    }
    if (tx->look_only || !tx->batch[0].answer.allowed) {
        size_t i = h->item;

        do { /* the items of this rule, up to the first item of the next rule */
            for (uint32_t m = 0; m < f->member_count; m++)
                if (f->members[m].limit->salt == tx->items[i].limit->salt)
                    tx->items[i].floor =
                        share_for(h, &f->members[m], tx->items[i].limit->limit.cap);
            tx->needs |= RN_NEEDS_LOOK;
        } while (++i < tx->n && !tx->items[i].family);
        return true;
    }
    /* Another request may have carried it all over since the first look. */
    if (!look_at_retired(h) || (has_spent(h) && !force_shares(h)))
        return false;
    tx->batch_n = 0;
    for (uint32_t i = 0; i < f->retired_count; i++)
        if (h->spent[i] != 0)
            rn_transaction_ask(tx, h->item, &f->retired[i].limit, RN_RESET, 0);
    rn_transaction_ask(tx, h->item, f->claim, RN_RESET, 0);
    return apply(h);
}

bool rn_transaction_inherit(struct rn_transaction *tx)
{
    for (size_t i = 0; i < tx->n; i++) {
        struct heir h = {.tx = tx, .item = i, .family = tx->items[i].family};

        if (h.family && h.family->until_ns >= tx->now_ns && !inherit(&h))
            return false;
    }
    return true;
}
