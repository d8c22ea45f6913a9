/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps of a check that are about the variants of its limits. Why they keep
 * clients within the larger one is said in check.c.
 *
 * A limit asks its guards only while its mark says that another variant was
 * charged lately. A client that never moves is thus never refused on behalf of a
 * limit that is not its own, whatever it gives back and whatever is rounded.
 * Without being asked, guards count like all other variants.
 */
#include "limiter/decide/transaction.h"

#include "limiter/decide/verdict.h"
#include "limiter/limiter.h"

__extension__ typedef unsigned __int128 u128;

/* --- WATCH --------------------------------------------------------------------- */

bool rn_check_watch(struct rn_check *k)
{
    k->batch_n = 0;
    for (size_t i = 0; i < k->n; i++)
        if (k->items[i].limit->mark && !k->items[i].shadow)
            rn_check_ask(k, i, k->items[i].limit->mark, RN_PEEK, 0);
    rn_check_apply(k);
    for (size_t i = 0; i < k->batch_n; i++) {
        if (k->batch[i].error != 0)
            return rn_check_fail(k, k->item_of[i], k->batch[i].error);
        if (k->batch[i].answer.reset_after_ns <= 0)
            continue;
        k->items[k->item_of[i]].ask_guards = true;
        k->needs |= RN_NEEDS_LOOK;
    }
    return true;
}

/* --- LOOK ---------------------------------------------------------------------- */

static bool look_at_batch(struct rn_check *k)
{
    rn_check_apply(k);
    for (size_t i = 0; i < k->batch_n; i++) {
        if (k->batch[i].error != 0)
            return rn_check_fail(k, k->item_of[i], k->batch[i].error);
        rn_decide_guard(&k->items[k->item_of[i]], &k->batch[i].answer);
    }
    k->batch_n = 0;
    return true;
}

/* A batch at a time: a name may have any number of shapes. */
bool rn_check_look_at_guards(struct rn_check *k)
{
    k->batch_n = 0;
    for (size_t i = 0; i < k->n; i++) {
        const struct rn_check_item *item = &k->items[i];
        uint32_t count = item->ask_guards ? item->limit->guard_count : 0;

        for (uint32_t g = 0; g < count; g++) {
            rn_check_ask(k, i, item->limit->guards[g], RN_PEEK, k->charges[i].cost);
            if (k->batch_n == RATION_CHARGES_MAX && !look_at_batch(k))
                return false;
        }
    }
    return look_at_batch(k);
}

/* --- GUARD --------------------------------------------------------------------- */

/* Gives back to the guards that took. UNDO does so for the limits afterwards, so that none
 * ever has less than its guard of what one of them has refused. What cannot be given back is
 * burnt. */
static void return_guards(struct rn_check *k)
{
    size_t taken = 0;

    for (size_t i = 0; i < k->batch_n; i++) {
        struct rn_charge *charge = &k->batch[i];

        if (charge->error != 0 || !charge->answer.allowed)
            continue;
        charge->ask.op = RN_GIVE_BACK;
        charge->ask.at_ns = k->now_ns;
        charge->ask.mark = charge->answer.mark;
        k->item_of[taken] = k->item_of[i];
        k->batch[taken++] = *charge;
    }
    k->batch_n = taken;
    rn_check_apply(k);
}

/* Guards that do not fit into one batch, which can be undone, have been looked at and are only
 * counted. */
bool rn_check_guard(struct rn_check *k)
{
    bool all = true;

    k->batch_n = 0;
    for (size_t i = 0; i < k->n; i++) {
        const struct rn_check_item *item = &k->items[i];
        uint32_t count = item->ask_guards && item->taken != 0 ? item->limit->guard_count : 0;

        for (uint32_t g = 0; g < count && k->batch_n < RATION_CHARGES_MAX; g++)
            rn_check_ask(k, i, item->limit->guards[g], RN_TAKE, item->taken);
    }
    rn_check_apply(k);
    for (size_t i = 0; i < k->batch_n; i++) {
        size_t at = k->item_of[i];

        if (k->batch[i].error != 0)
            rn_check_fail(k, at, k->batch[i].error);
        else
            rn_decide_guard(&k->items[at], &k->batch[i].answer);
        all &= k->batch[i].error == 0 && k->batch[i].answer.allowed;
    }
    if (!all)
        return_guards(k);
    else
        k->guards_taken = k->batch_n;
    return all;
}

/* --- FOLLOW -------------------------------------------------------------------- */

/* What the state of a variant lacks: the units just charged, or more if it
 * would still show a smaller share spent than this limit does. Rounded up. */
static uint64_t shortfall(const struct rn_check_item *item, const struct rn_charge *peeked)
{
    uint64_t cap = item->limit->limit.cap, other_cap = peeked->limit->cap;
    uint64_t spent = cap - item->answer.remaining;
    uint64_t other_spent = other_cap - peeked->answer.remaining;
    uint64_t share = (uint64_t)(((u128)spent * other_cap + cap - 1) / cap);

    return share > other_spent && share - other_spent > item->taken ? share - other_spent
                                                                    : item->taken;
}

/* Looks at the variants of the batch, then counts the charges there. Guards were asked for a
 * cost, which is all that is charged to them: a larger limit that showed the share of a smaller
 * one would refuse what it has room for. */
static bool follow_batch(struct rn_check *k)
{
    rn_check_apply(k);
    for (size_t i = 0; i < k->batch_n; i++) {
        struct rn_charge *charge = &k->batch[i];

        if (charge->error != 0)
            return rn_check_fail(k, k->item_of[i], charge->error);
        charge->ask.op = RN_FORCE;
        if (charge->ask.cost == 0)
            charge->ask.cost = shortfall(&k->items[k->item_of[i]], charge);
    }
    rn_check_apply(k);
    for (size_t i = 0; i < k->batch_n; i++)
        if (k->batch[i].error != 0)
            return rn_check_fail(k, k->item_of[i], k->batch[i].error);
    k->batch_n = 0;
    return true;
}

/* Asks the variant at `at`, first guards, then shapes, unless it needs nothing. */
static void ask_follower(struct rn_check *k, size_t i, uint32_t at)
{
    const struct rn_check_item *item = &k->items[i];
    const struct rn_compiled *l = item->limit;

    if (at >= l->guard_count) {
        const struct rn_compiled *shape = l->shapes[at - l->guard_count];

        if (rn_compiled_follows(l, shape))
            rn_check_ask(k, i, shape, RN_PEEK, 0);
    } else if (item->ask_guards && k->guards_taken > 0) {
        k->guards_taken--; /* they were taken in this order */
    } else {
        rn_check_ask(k, i, l->guards[at], RN_PEEK, item->taken);
    }
}

/* A batch at a time, as above. */
bool rn_check_follow(struct rn_check *k)
{
    k->batch_n = 0;
    for (size_t i = 0; i < k->n; i++) {
        const struct rn_check_item *item = &k->items[i];
        uint32_t count = item->taken ? item->limit->guard_count + item->limit->shape_count : 0;

        for (uint32_t at = 0; at < count; at++) {
            ask_follower(k, i, at);
            if (k->batch_n == RATION_CHARGES_MAX && !follow_batch(k))
                return false;
        }
    }
    return follow_batch(k);
}
