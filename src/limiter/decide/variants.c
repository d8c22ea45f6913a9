/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps of a transaction that concern the variants of its limits. transaction.c says why they
 * keep clients within the larger one.
 *
 * A limit asks its guards only while its mark says that another variant was
 * charged lately. A client that never moves is thus never refused on behalf of a
 * limit that is not its own, whatever it gives back and whatever is rounded.
 * Without being asked, guards count like all other variants.
 */
#include "limiter/decide/transaction.h"

#include "limiter/limiter.h"

/* --- WATCH --------------------------------------------------------------------- */

bool rn_transaction_watch(struct rn_transaction *tx)
{
    tx->batch_n = 0;
    for (size_t i = 0; i < tx->n; i++)
        if (tx->items[i].limit->mark && !tx->items[i].shadow)
            rn_transaction_ask(tx, i, tx->items[i].limit->mark, RN_PEEK, 0);
    rn_transaction_apply(tx);
    for (size_t i = 0; i < tx->batch_n; i++) {
        if (tx->batch[i].error != 0)
            return rn_transaction_fail(tx, tx->item_of[i], tx->batch[i].error);
        if (tx->batch[i].answer.reset_after_ns <= 0)
            continue;
        tx->items[tx->item_of[i]].ask_guards = true;
        tx->needs |= RN_NEEDS_LOOK;
    }
    return true;
}

/* --- LOOK ---------------------------------------------------------------------- */

static bool look_at_batch(struct rn_transaction *tx)
{
    rn_transaction_apply(tx);
    for (size_t i = 0; i < tx->batch_n; i++) {
        if (tx->batch[i].error != 0)
            return rn_transaction_fail(tx, tx->item_of[i], tx->batch[i].error);
        rn_verdict_add_guard(&tx->items[tx->item_of[i]], &tx->batch[i].answer);
    }
    tx->batch_n = 0;
    return true;
}

/* A batch at a time: a name may have any number of shapes. */
bool rn_transaction_look_at_guards(struct rn_transaction *tx)
{
    tx->batch_n = 0;
    for (size_t i = 0; i < tx->n; i++) {
        const struct rn_transaction_item *item = &tx->items[i];
        uint32_t count = item->ask_guards ? item->limit->guard_count : 0;

        for (uint32_t g = 0; g < count; g++) {
            rn_transaction_ask(tx, i, item->limit->guards[g], RN_PEEK, tx->charges[i].cost);
            if (tx->batch_n == RATION_CHARGES_MAX && !look_at_batch(tx))
                return false;
        }
    }
    return look_at_batch(tx);
}

/* --- GUARD --------------------------------------------------------------------- */

/* Gives back to the guards that took. UNDO gives back to the limits afterwards, so that no limit
 * ever shows less spent than its guard. What cannot be given back is burnt. */
static void return_guards(struct rn_transaction *tx)
{
    size_t taken = 0;

    for (size_t i = 0; i < tx->batch_n; i++) {
        struct rn_charge *charge = &tx->batch[i];

        if (charge->error != 0 || !charge->answer.allowed)
            continue;
        charge->ask.op = RN_GIVE_BACK;
        charge->ask.at_ns = tx->now_ns;
        charge->ask.mark = charge->answer.mark;
        tx->item_of[taken] = tx->item_of[i];
        tx->batch[taken++] = *charge;
    }
    tx->batch_n = taken;
    rn_transaction_apply(tx);
}

/* Guards that do not fit into one batch, which can be undone, have been looked at and are only
 * counted. */
bool rn_transaction_guard(struct rn_transaction *tx)
{
    bool all = true;

    tx->batch_n = 0;
    for (size_t i = 0; i < tx->n; i++) {
        const struct rn_transaction_item *item = &tx->items[i];
        uint32_t count = item->ask_guards && item->taken != 0 ? item->limit->guard_count : 0;

        for (uint32_t g = 0; g < count && tx->batch_n < RATION_CHARGES_MAX; g++)
            rn_transaction_ask(tx, i, item->limit->guards[g], RN_TAKE, item->taken);
    }
    rn_transaction_apply(tx);
    for (size_t i = 0; i < tx->batch_n; i++) {
        size_t at = tx->item_of[i];

        if (tx->batch[i].error != 0)
            rn_transaction_fail(tx, at, tx->batch[i].error);
        else
            rn_verdict_add_guard(&tx->items[at], &tx->batch[i].answer);
        all &= tx->batch[i].error == 0 && tx->batch[i].answer.allowed;
    }
    if (!all)
        return_guards(tx);
    else
        tx->guards_taken = tx->batch_n;
    return all;
}

/* --- FOLLOW -------------------------------------------------------------------- */

/* Looks at the variants of the batch, then counts the charges there: the units just charged, or
 * more if the variant would still show a smaller share spent than this limit does. Guards were
 * asked for a cost and are charged only that: a larger limit that showed the share of a smaller one
 * would refuse what it has room for. */
static bool follow_batch(struct rn_transaction *tx)
{
    rn_transaction_apply(tx);
    for (size_t i = 0; i < tx->batch_n; i++) {
        struct rn_charge *charge = &tx->batch[i];

        if (charge->error != 0)
            return rn_transaction_fail(tx, tx->item_of[i], charge->error);
        charge->ask.op = RN_FORCE;
        if (charge->ask.cost != 0)
            continue;
        const struct rn_transaction_item *item = &tx->items[tx->item_of[i]];
        uint64_t cap = item->limit->limit.cap,
                 spent = charge->limit->cap - charge->answer.remaining;
        uint64_t share = rn_compiled_scale(cap - item->answer.remaining, cap, charge->limit->cap);

        charge->ask.cost =
            share > spent && share - spent > item->taken ? share - spent : item->taken;
    }
    rn_transaction_apply(tx);
    for (size_t i = 0; i < tx->batch_n; i++)
        if (tx->batch[i].error != 0)
            return rn_transaction_fail(tx, tx->item_of[i], tx->batch[i].error);
    tx->batch_n = 0;
    return true;
}

/* Guards first, then shapes; a batch at a time, as above. */
bool rn_transaction_follow(struct rn_transaction *tx)
{
    tx->batch_n = 0;
    for (size_t i = 0; i < tx->n; i++) {
        const struct rn_transaction_item *item = &tx->items[i];
        const struct rn_compiled *l = item->limit;
        uint32_t count = item->taken ? l->guard_count + l->shape_count : 0;

        for (uint32_t at = 0; at < count; at++) {
            if (at >= l->guard_count) {
                const struct rn_compiled *shape = l->shapes[at - l->guard_count];

                if (rn_compiled_follows(l, shape))
                    rn_transaction_ask(tx, i, shape, RN_PEEK, 0);
            } else if (item->ask_guards && tx->guards_taken > 0) {
                tx->guards_taken--; /* they were taken in this order */
            } else {
                rn_transaction_ask(tx, i, l->guards[at], RN_PEEK, item->taken);
            }
            if (tx->batch_n == RATION_CHARGES_MAX && !follow_batch(tx))
                return false;
        }
    }
    return follow_batch(tx);
}
