/* SPDX-License-Identifier: Apache-2.0 */
/*
 * INHERIT, the step of a check that carries what a client had spent before a
 * reload over to limits of a new shape. For each rule that was changed, while
 * anybody can still have something to carry:
 *
 *   peek at the retired states; none has anything spent: done.
 *   claim the key, so that of many threads one does the rest, and peek again;
 *   force the share that is spent of the retired states, rounded up, into the
 *   fresh ones of all tiers; then forget the retired ones, so that it happens
 *   once, and the claim.
 *
 * Who does not get the claim, or only looks, does not wait: it counts at least
 * that share as spent. A claim is a key of the table like any other, a bucket of
 * one unit, and ends by itself after a second, should its owner be killed: who is
 * held up for longer than that may see the share forced twice. The client then
 * has less, never more.
 *
 * Decisions by the old rules that were under way during the reload still charge
 * the retired state, perhaps after it was forgotten: two decisions of one
 * instant that do not see each other. What they charged is carried over by the
 * next claim.
 */
#include "limiter/check.h"

#include "limiter/limiter.h"

__extension__ typedef unsigned __int128 u128;

static bool next_rule(struct rn_check *k);

static const struct rn_family *family_of(const struct rn_check *k)
{
    return k->items[k->inherit_item].family;
}

/* The first error of the batch, or 0. */
static int error_of(const struct rn_check *k)
{
    for (size_t i = 0; i < k->batch_n; i++)
        if (k->batch[i].error != 0)
            return k->batch[i].error;
    return 0;
}

/* The largest share that any predecessor of the member has spent, in its units. */
static uint64_t share_for(const struct rn_check *k, const struct rn_member *m)
{
    const struct rn_family *f = family_of(k);
    u128 most = 0;

    if (!m->fresh)
        return 0;
    for (uint32_t i = 0; i < f->retired_count; i++) {
        uint64_t cap = f->retired[i].limit.limit.cap;
        u128 share = ((u128)k->inherit_spent[i] * m->limit->limit.cap + cap - 1) / cap;

        if (rn_family_pairs(f, m, &f->retired[i]) && share > most)
            most = share;
    }
    return (uint64_t)most;
}

static bool after_forget(struct rn_check *k)
{
    int error = error_of(k);

    if (error != 0)
        return rn_check_fail(k, k->inherit_item, error);
    k->inherit_item++;
    return next_rule(k);
}

static bool forget_retired(struct rn_check *k)
{
    const struct rn_family *f = family_of(k);

    k->batch_n = 0;
    for (uint32_t i = 0; i < f->retired_count; i++)
        if (k->inherit_spent[i] != 0)
            rn_check_ask(k, k->inherit_item, &f->retired[i].limit, RN_RESET, 0);
    rn_check_ask(k, k->inherit_item, f->claim, RN_RESET, 0);
    k->next = after_forget;
    return true;
}

static bool force_shares(struct rn_check *k);

static bool after_force(struct rn_check *k)
{
    int error = error_of(k);

    return error != 0 ? rn_check_fail(k, k->inherit_item, error) : force_shares(k);
}

/* A batch at a time: a rule may have any number of tiers. */
static bool force_shares(struct rn_check *k)
{
    const struct rn_family *f = family_of(k);

    k->batch_n = 0;
    for (; k->inherit_fresh < f->member_count && k->batch_n < RATION_CHARGES_MAX;
         k->inherit_fresh++) {
        const struct rn_member *m = &f->members[k->inherit_fresh];
        uint64_t share = share_for(k, m);

        if (share != 0)
            rn_check_ask(k, k->inherit_item, m->limit, RN_FORCE, share);
    }
    k->next = after_force;
    return k->batch_n != 0 || forget_retired(k);
}

/* The items of this rule, up to the next one's first. */
static bool set_floors(struct rn_check *k)
{
    const struct rn_family *f = family_of(k);
    size_t i = k->inherit_item;

    do {
        for (uint32_t m = 0; m < f->member_count; m++)
            if (f->members[m].limit->salt == k->items[i].limit->salt)
                k->items[i].floor = share_for(k, &f->members[m]);
        k->needs |= RN_NEEDS_LOOK;
    } while (++i < k->n && !k->items[i].family);
    k->inherit_item++;
    return next_rule(k);
}

static bool look_at_retired(struct rn_check *k, bool (*next)(struct rn_check *k))
{
    const struct rn_family *f = family_of(k);

    k->batch_n = 0;
    for (uint32_t i = 0; i < f->retired_count; i++)
        rn_check_ask(k, k->inherit_item, &f->retired[i].limit, RN_PEEK, 0);
    k->next = next;
    return true;
}

/* Whether any of the retired states has something spent. */
static bool read_spent(struct rn_check *k)
{
    const struct rn_family *f = family_of(k);
    uint64_t any = 0;

    for (uint32_t i = 0; i < f->retired_count; i++) {
        k->inherit_spent[i] = f->retired[i].limit.limit.cap - k->batch[i].answer.remaining;
        any |= k->inherit_spent[i];
    }
    return any != 0;
}

static bool after_second_look(struct rn_check *k)
{
    int error = error_of(k);

    if (error != 0)
        return rn_check_fail(k, k->inherit_item, error);
    k->inherit_fresh = 0;
    return read_spent(k) ? force_shares(k) : forget_retired(k);
}

/* Another one may have carried it all over since the first look. */
static bool after_claim(struct rn_check *k)
{
    int error = error_of(k);

    if (error != 0)
        return rn_check_fail(k, k->inherit_item, error);
    return k->batch[0].answer.allowed ? look_at_retired(k, after_second_look) : set_floors(k);
}

static bool after_look(struct rn_check *k)
{
    int error = error_of(k);

    if (error != 0)
        return rn_check_fail(k, k->inherit_item, error);
    if (!read_spent(k)) {
        k->inherit_item++;
        return next_rule(k);
    }
    if (k->look_only)
        return set_floors(k);
    k->batch_n = 0;
    rn_check_ask(k, k->inherit_item, family_of(k)->claim, RN_TAKE, 1);
    k->next = after_claim;
    return true;
}

static bool next_rule(struct rn_check *k)
{
    for (; k->inherit_item < k->n; k->inherit_item++)
        if (family_of(k) && family_of(k)->until_ns >= k->now_ns)
            return look_at_retired(k, after_look);
    return rn_check_watch(k);
}

bool rn_check_inherit(struct rn_check *k)
{
    return next_rule(k);
}
