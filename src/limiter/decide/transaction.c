/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The all-or-nothing check; rn_check_run is its outline.
 *
 * Variants. Every admission is counted in the state of every variant: its
 * units, and at least the share of the limit that is now spent. Let C be the
 * largest capacity and R the largest rate of a family of buckets, and V the
 * debt of a bucket (C, R) that counts everything. Then for each variant
 *
 *   V <= debt + C - cap
 *
 * holds: V drains no slower than the debt, and a count that saturates at cap
 * leaves V <= C, as the variant that admitted had room. So moving to and fro
 * admits at most C + R t in any time t. Windows and logs forget at once what
 * they could not count while full: with them, rates could add up.
 *
 * Guards. Therefore a limit A that is covered by a variant B of another shape
 * (core/envelope.h) has B as its guard. Let V be what B by its definition would
 * count as spent of all that was admitted and not given back. V never exceeds
 * B, nor what B's state shows:
 *
 *   A was not the only one charged lately: B is asked and takes, or A refuses.
 *   A was, for long enough that B has settled: B covers whatever A admits. It
 *   need not be asked and must not be, for its state may show more than V, as
 *   where a bucket got less back than A's window did. It counts the units; what
 *   it has no room for was given back to A, and a guard in which that would
 *   show later on gets it back, too (limiter.c).
 *
 * "Lately" is what A's mark says, a bucket of one unit that the admissions of all
 * other variants keep empty. So V holds for each variant that covers all others
 * which a client uses. If none does, a client gets at one instant no more than
 * the largest admits, and in the long run what each admits by itself, added up.
 *
 * Nothing is carried over when a client moves. That would hold a client that
 * was promoted to its former limit, which goes on being counted and stays
 * spent. Two decisions on one key under two variants at the same instant see
 * each other in a guard that is asked; else each may admit what the other took.
 */
#include "limiter/decide/transaction.h"

#include "limiter/decide/verdict.h"
#include "limiter/limiter.h"
#include "limiter/state.h"
#include "limiter/decide/workspace.h"

__extension__ typedef unsigned __int128 u128;

void rn_check_ask(struct rn_check *k, size_t item, const struct rn_compiled *l, enum rn_op op,
                  uint64_t cost)
{
    struct rn_charge *charge = &k->batch[k->batch_n];

    k->item_of[k->batch_n++] = (uint8_t)item;
    charge->limit = &l->limit;
    charge->key = k->items[item].key ^ k->items[item].limit->salt ^ l->salt;
    charge->flags = l->charge_flags;
    charge->ask = (struct rn_ask){.op = op,
                                  .now_ns = k->now_ns,
                                  .wall_offset_ns = k->wall_offset_ns - k->items[item].shift_ns,
                                  .cost = cost,
                                  .id = k->items[item].lease,
                                  .lease_ns = l->limit.lease_ns};
}

/* The error of a shadow limit is noted with its charge and stops no request. */
static void note_answer(struct rn_check *k, size_t item, const struct rn_charge *charge)
{
    k->charges[item].error = charge->error;
    if (rn_likely(charge->error == 0))
        k->items[item].answer = charge->answer;
    else
        k->items[item].answer = (struct rn_answer){0};
}

bool rn_check_fail(struct rn_check *k, size_t item, int error)
{
    k->error = error;
    k->charges[item].error = error;
    return false;
}

/* --- LOOK ------------------------------------------------------------------------- */

/* Whether LOOK can tell what TAKE alone would not. */
static bool may_hold_back(const struct rn_check_item *item)
{
    return item->keep != 0 || item->floor != 0 || item->max_wait_ns != 0;
}

static bool must_look(const struct rn_check *k)
{
    return (k->needs & RN_NEEDS_LOOK) || (k->n > 1 && k->enforced != 0) ||
           (k->look_only && k->n != 0);
}

/* Whether `a` has room for fewer requests like this one than `b`: the one more
 * likely to refuse is asked first, when there is least to undo. */
static bool narrower(const struct rn_check *k, uint8_t a, uint8_t b)
{
    return (u128)k->items[a].answer.remaining * k->charges[b].cost <
           (u128)k->items[b].answer.remaining * k->charges[a].cost;
}

static void sort_narrowest_first(struct rn_check *k)
{
    for (size_t i = 1; i < k->enforced; i++) {
        uint8_t moved = k->order[i];
        size_t at = i;

        for (; at > 0 && narrower(k, moved, k->order[at - 1]); at--)
            k->order[at] = k->order[at - 1];
        k->order[at] = moved;
    }
}

RN_HOT static bool look(struct rn_check *k)
{
    bool fits = true;

    k->batch_n = 0;
    for (size_t i = 0; i < k->n; i++) {
        uint64_t cost = k->charges[i].cost, keep = cost ? k->items[i].keep : 0;

        rn_check_ask(k, i, k->items[i].limit, RN_PEEK,
                     cost < UINT64_MAX - keep ? cost + keep : UINT64_MAX);
    }
    rn_check_apply(k);
    for (size_t i = 0; i < k->n; i++) {
        struct rn_check_item *item = &k->items[i];

        if (rn_unlikely(k->batch[i].error != 0) && !item->shadow)
            return rn_check_fail(k, i, k->batch[i].error);
        note_answer(k, i, &k->batch[i]);
        if (rn_likely(!(k->needs & RN_NEEDS_LOOK)))
            continue;
        rn_decide_hold_back(item, k->batch[i].ask.cost);
        item->held_back = item->shadow && !item->answer.allowed && may_hold_back(item);
    }
    if (rn_unlikely(k->needs & RN_NEEDS_VARIANTS) && !rn_check_look_at_guards(k))
        return false;
    for (size_t i = 0; i < k->n; i++)
        fits &= k->items[i].shadow || k->items[i].answer.allowed;
    return fits;
}

/* --- TAKE ------------------------------------------------------------------------- */

RN_HOT static bool take_one(struct rn_check *k, size_t i)
{
    struct rn_check_item *item = &k->items[i];

    k->batch_n = 0;
    rn_check_ask(k, i, item->limit, RN_TAKE, k->charges[i].cost);
    rn_check_apply(k);
    if (k->batch[0].error != 0)
        return rn_check_fail(k, i, k->batch[0].error);
    item->answer = k->batch[0].answer;
    if (!item->answer.allowed)
        return false;
    item->taken = k->charges[i].cost;
    return rn_likely(!(k->needs & RN_NEEDS_LOOK)) || !rn_decide_hold_back(item, item->taken);
}

/* Each trip to a shared store takes long, and LOOK has just found that all limits have room. The
 * first error counts; else any refusal. */
static bool take_at_once(struct rn_check *k)
{
    size_t failed = k->enforced;
    bool fits = true;

    k->batch_n = 0;
    for (size_t i = 0; i < k->enforced; i++)
        rn_check_ask(k, k->order[i], k->items[k->order[i]].limit, RN_TAKE,
                     k->charges[k->order[i]].cost);
    rn_check_apply(k);
    for (size_t i = k->enforced; i-- > 0;) {
        struct rn_check_item *item = &k->items[k->order[i]];
        uint64_t cost = k->charges[k->order[i]].cost;

        if (k->batch[i].error != 0) {
            failed = i;
            continue;
        }
        item->answer = k->batch[i].answer;
        item->taken = item->answer.allowed ? cost : 0;
        fits &= item->answer.allowed && !rn_decide_hold_back(item, cost);
    }
    if (failed < k->enforced)
        return rn_check_fail(k, k->order[failed], k->batch[failed].error);
    return fits;
}

RN_HOT static bool take(struct rn_check *k)
{
    if (rn_unlikely(k->r->policy != NULL))
        return take_at_once(k);
    for (size_t i = 0; i < k->enforced; i++)
        if (!take_one(k, k->order[i]))
            return false;
    return true;
}

/* What cannot be given back is burnt: the charge stands. */
static void undo(struct rn_check *k)
{
    k->batch_n = 0;
    for (size_t i = 0; i < k->n; i++) {
        struct rn_check_item *item = &k->items[i];

        if (item->taken == 0)
            continue;
        rn_check_ask(k, i, item->limit, RN_GIVE_BACK, item->taken);
        k->batch[k->batch_n - 1].ask.at_ns = k->now_ns;
        k->batch[k->batch_n - 1].ask.mark = item->answer.mark;
        item->taken = 0;
    }
    rn_check_apply(k);
    for (size_t i = 0; i < k->batch_n; i++) {
        struct rn_answer *answer = &k->items[k->item_of[i]].answer;

        if (k->batch[i].error != 0)
            continue;
        answer->remaining = k->batch[i].answer.remaining;
        answer->reset_after_ns = k->batch[i].answer.reset_after_ns;
    }
}

/* --- SHADOW, DEBIT ------------------------------------------------------------------ */

static void take_shadows(struct rn_check *k)
{
    k->batch_n = 0;
    for (size_t i = 0; i < k->n; i++)
        if (k->items[i].shadow && !k->items[i].held_back && !k->items[i].by_outcome)
            rn_check_ask(k, i, k->items[i].limit, RN_TAKE, k->charges[i].cost);
    rn_check_apply(k);
    for (size_t i = 0; i < k->batch_n; i++) {
        size_t at = k->item_of[i];

        note_answer(k, at, &k->batch[i]);
        k->items[at].taken = k->items[at].answer.allowed ? k->charges[at].cost : 0;
    }
}

/* A limit that fails does not keep the others from being charged. */
static void debit(struct rn_check *k)
{
    k->batch_n = 0;
    for (size_t i = 0; i < k->n; i++)
        rn_check_ask(k, i, k->items[i].limit, RN_DEBIT, k->charges[i].cost);
    rn_check_apply(k);
    for (size_t i = 0; i < k->n; i++) {
        const struct rn_charge *charge = &k->batch[i];

        note_answer(k, i, charge);
        k->items[i].taken = charge->error == 0 ? k->charges[i].cost : 0;
        k->items[i].uncollected = charge->error == 0 ? charge->answer.uncollected : 0;
        k->error = k->error != 0 ? k->error : charge->error;
    }
}

/* --- the whole ------------------------------------------------------------------------ */

static void clear_item(struct rn_check_item *item)
{
    item->limit = NULL;
    item->taken = item->keep = item->soft = item->floor = item->lease = 0;
    item->shift_ns = item->max_wait_ns = 0;
    item->held_back = item->ask_guards = item->by_outcome = false;
    item->guard_left = UINT64_MAX;
    item->family = NULL;
}

RN_HOT void rn_check_init(struct rn_check *k, struct ration *r, struct ration_charge *charges,
                          size_t n, int64_t now_ns)
{
    k->r = r;
    k->charges = charges;
    k->n = n;
    k->now_ns = now_ns;
    k->look_only = k->uncounted = k->late = false;
    k->error = 0;
    k->enforced = k->batch_n = k->guards_taken = 0;
    k->needs = 0;
    for (size_t i = 0; i < n; i++) {
        charges[i].error = 0;
        clear_item(&k->items[i]);
    }
}

RN_HOT struct rn_check_item *rn_check_add(struct rn_check *k, const struct rn_compiled *limit,
                                          uint64_t key, uint64_t cost)
{
    struct rn_check_item *item = &k->items[k->n];

    clear_item(item);
    item->limit = limit;
    item->key = key;
    item->shadow = limit->shadow;
    k->charges[k->n++] = (struct ration_charge){.limit = limit->index, .cost = cost, .hash = key};
    rn_table_prefetch(k->r->table, key);
    return item;
}

/* What rn_check_add does, for a charge of the caller's own. */
static int complete(struct rn_check *k, struct rn_check_item *item, struct ration_charge *c)
{
    item->limit = rn_limiter_find(k->r, c, &item->own);
    if (!item->limit || item->limit->limit.algorithm == RATION_CONCURRENCY)
        return c->error = RATION_EINVAL;
    item->key = rn_compiled_key(item->limit, c);
    item->shadow = item->limit->shadow;
    rn_table_prefetch(k->r->table, item->key);
    return 0;
}

static unsigned needs_of(const struct rn_check_item *item)
{
    unsigned needs = item->shadow ? RN_NEEDS_SHADOW : 0;

    if (item->by_outcome || may_hold_back(item))
        needs |= RN_NEEDS_LOOK;
    if (item->soft != 0)
        needs |= RN_NEEDS_SOFT;
    if (item->limit->shape_count + item->limit->guard_count != 0)
        needs |= RN_NEEDS_VARIANTS;
    if (item->family && item->family->until_ns != INT64_MIN)
        needs |= RN_NEEDS_INHERIT;
    return needs;
}

/* All that can be done before the clock is read. */
static int prepare(struct rn_check *k)
{
    for (size_t i = 0; i < k->n; i++) {
        struct rn_check_item *item = &k->items[i];

        if (!item->limit && complete(k, item, &k->charges[i]) != 0)
            return k->charges[i].error;
        if (!item->shadow && !item->by_outcome)
            k->order[k->enforced++] = (uint8_t)i;
        k->needs |= needs_of(item);
    }
    k->now_ns = rn_limiter_now(k->r, k->now_ns);
    k->wall_offset_ns = rn_table_wall_offset(k->r->table, k->now_ns);
    return 0;
}

/* Whether the request is admitted. If not, what was taken must be given back. */
RN_HOT static bool charge_all(struct rn_check *k)
{
    if (rn_unlikely(k->needs & RN_NEEDS_INHERIT) && !rn_check_inherit(k))
        return false;
    if (rn_unlikely(k->needs & RN_NEEDS_VARIANTS) && !rn_check_watch(k))
        return false;
    if (rn_unlikely(k->late)) {
        debit(k);
        return !(k->needs & RN_NEEDS_VARIANTS) || rn_check_follow(k);
    }
    if (must_look(k) && !look(k))
        return false;
    if (k->look_only)
        return true;
    sort_narrowest_first(k);
    if (!take(k))
        return false;
    if (rn_unlikely(k->needs & RN_NEEDS_VARIANTS) && !rn_check_guard(k))
        return false;
    if (rn_unlikely(k->needs & RN_NEEDS_SHADOW))
        take_shadows(k);
    return rn_likely(!(k->needs & RN_NEEDS_VARIANTS)) || rn_check_follow(k);
}

RN_HOT int rn_check_run(struct rn_check *k)
{
    k->error = prepare(k);
    if (rn_unlikely(k->error != 0))
        return k->error;
    bool allowed = charge_all(k);

    if (!allowed)
        undo(k);
    rn_decide_end(k, allowed);
    return k->error;
}

int ration_check(struct ration *r, struct ration_charge *c, size_t n, int64_t now_ns,
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
    struct rn_check *check = &w->ruling.check;

    rn_check_init(check, r, c, n, now_ns);
    int code = rn_check_run(check);

    if (code == 0 && n == 1 && c->drain)
        code = rn_state_drain(check);
    if (code == 0)
        *decision = check->decision;
    rn_workspace_return(s, w);
    return code;
}
