/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps of a transaction; charge_all is the outline.
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
 *   Other variants than A were charged lately: B is asked and takes, or A refuses.
 *   A alone was charged, for so long that B has settled: B covers whatever A admits.
 *   B must not be asked, as its state may show more than V: a bucket may have got
 *   less back than A's window did. B counts the units. Units that it has no room
 *   for were given back to A; a guard in which they would show later gets them
 *   back, too (limiter.c).
 *
 * A's mark says "lately": a bucket of one unit that the admissions of all other
 * variants keep empty. So V holds for each variant that covers all others which a
 * client uses. If none does, a client gets at one instant no more than
 * the largest admits, and in the long run what each admits by itself, added up.
 *
 * Nothing is carried over when a client moves: a promoted client would be held to
 * its former limit, which goes on being counted and stays spent. Two decisions on one key under two
 * variants at the same instant see each other in a guard that is asked; else each may admit what
 * the other took.
 */
#include "limiter/decide/transaction.h"

#include "limiter/factor.h"
#include "limiter/limiter.h"
#include "limiter/line/gate.h"

/* The limit of an item is the step in force already. */
RN_INLINE static void ask(struct rn_transaction *tx, size_t item, const struct rn_compiled *l,
                          enum rn_op op, uint64_t cost)
{
    struct rn_charge *charge = &tx->batch[tx->batch_n];

    tx->item_of[tx->batch_n++] = (uint8_t)item;
    charge->limit = &l->limit;
    charge->key = tx->items[item].key ^ tx->items[item].limit->salt ^ l->salt;
    charge->flags = l->charge_flags;
    charge->ask = (struct rn_ask){.op = op,
                                  .now_ns = tx->now_ns,
                                  .wall_offset_ns = tx->wall_offset_ns - tx->items[item].shift_ns,
                                  .cost = cost,
                                  .id = tx->items[item].lease,
                                  .lease_ns = l->limit.lease_ns};
}

void rn_transaction_ask(struct rn_transaction *tx, size_t item, const struct rn_compiled *l,
                        enum rn_op op, uint64_t cost)
{
    ask(tx, item, rn_factor_step_earned(l, tx->items[item].earned), op, cost);
}

/* The error of a shadow limit stays with its charge and stops no request. */
static void set_answer(struct rn_transaction *tx, size_t item, const struct rn_charge *charge)
{
    tx->charges[item].error = charge->error;
    if (rn_likely(charge->error == 0))
        tx->items[item].answer = charge->answer;
    else
        tx->items[item].answer = (struct rn_answer){0};
}

bool rn_transaction_fail(struct rn_transaction *tx, size_t item, int error)
{
    tx->error = error;
    tx->charges[item].error = error;
    return false;
}

/* --- LOOK ------------------------------------------------------------------------- */

/* Whether LOOK may refuse what TAKE would admit. */
static bool is_restricted(const struct rn_transaction_item *item)
{
    return item->keep != 0 || item->floor != 0 || item->max_wait_ns != 0;
}

/* A limit that has room for fewer requests like this one is more likely to refuse. It is asked
 * first, when there is least to undo. */
static void sort_narrowest_first(struct rn_transaction *tx)
{
    for (size_t i = 1; i < tx->enforced; i++) {
        uint8_t moved = tx->order[i];
        size_t at = i;

        for (; at > 0; at--) {
            uint8_t other = tx->order[at - 1];

            if ((u128)tx->items[moved].answer.remaining * tx->charges[other].cost >=
                (u128)tx->items[other].answer.remaining * tx->charges[moved].cost)
                break;
            tx->order[at] = other;
        }
        tx->order[at] = moved;
    }
}

/* `again`: only at limits that are charged by outcome. */
RN_INLINE static bool look(struct rn_transaction *tx, bool again)
{
    bool fits = true;

    tx->batch_n = 0;
    for (size_t i = 0; i < tx->n; i++) {
        uint64_t cost = tx->charges[i].cost, keep = cost ? tx->items[i].keep : 0;

        if (!again || (tx->items[i].by_outcome && !tx->items[i].shadow))
            ask(tx, i, tx->items[i].limit, RN_PEEK,
                cost < UINT64_MAX - keep ? cost + keep : UINT64_MAX);
    }
    rn_transaction_apply(tx);
    for (size_t b = 0; b < tx->batch_n; b++) {
        size_t i = again ? tx->item_of[b] : b;
        struct rn_transaction_item *item = &tx->items[i];

        if (rn_unlikely(tx->batch[b].error != 0) && !item->shadow)
            return rn_transaction_fail(tx, i, tx->batch[b].error);
        set_answer(tx, i, &tx->batch[b]);
        if (rn_likely(!(tx->needs & RN_NEEDS_LOOK)))
            continue;
        rn_verdict_restrict(item, tx->batch[b].ask.cost);
        item->refused_by_look = item->shadow && !item->answer.allowed && is_restricted(item);
    }
    if (!again && rn_unlikely(tx->needs & RN_NEEDS_VARIANTS) && !rn_transaction_look_at_guards(tx))
        return false;
    for (size_t i = 0; i < tx->n; i++)
        fits &= tx->items[i].shadow || tx->items[i].answer.allowed;
    return fits;
}

static RN_ASIDE bool look_again(struct rn_transaction *tx)
{
    return look(tx, true);
}

/* --- TAKE ------------------------------------------------------------------------- */

/* Each trip to a shared store takes long, and LOOK has just found that all limits have room. The
 * first error counts; else any refusal. */
static bool take_at_once(struct rn_transaction *tx)
{
    size_t failed = tx->enforced;
    bool fits = true;

    if (rn_gate_is_behind(tx))
        return false;
    tx->batch_n = 0;
    for (size_t i = 0; i < tx->enforced; i++)
        rn_transaction_ask(tx, tx->order[i], tx->items[tx->order[i]].limit, RN_TAKE,
                           tx->charges[tx->order[i]].cost);
    rn_transaction_apply(tx);
    for (size_t i = tx->enforced; i-- > 0;) {
        struct rn_transaction_item *item = &tx->items[tx->order[i]];
        uint64_t cost = tx->charges[tx->order[i]].cost;

        if (tx->batch[i].error != 0) {
            failed = i;
            continue;
        }
        item->answer = tx->batch[i].answer;
        item->taken = item->answer.allowed ? cost : 0;
        fits &= item->answer.allowed && !rn_verdict_restrict(item, cost);
    }
    if (failed < tx->enforced)
        return rn_transaction_fail(tx, tx->order[failed], tx->batch[failed].error);
    return fits;
}

RN_HOT static bool take(struct rn_transaction *tx)
{
    if (rn_unlikely(tx->r->fallback != NULL))
        return take_at_once(tx);
    for (size_t i = 0; i < tx->enforced; i++) {
        struct rn_transaction_item *item = &tx->items[tx->order[i]];
        uint64_t cost = tx->charges[tx->order[i]].cost;

        tx->batch_n = 0;
        ask(tx, tx->order[i], item->limit, RN_TAKE, cost);
        rn_transaction_apply(tx);
        if (tx->batch[0].error != 0)
            return rn_transaction_fail(tx, tx->order[i], tx->batch[0].error);
        item->answer = tx->batch[0].answer;
        if (!item->answer.allowed)
            return false;
        item->taken = cost;
        if (rn_unlikely(tx->needs & RN_NEEDS_LOOK) && rn_verdict_restrict(item, cost))
            return false;
    }
    return true;
}

/* What cannot be given back is burnt: the charge stands. */
static void undo(struct rn_transaction *tx)
{
    tx->batch_n = 0;
    for (size_t i = 0; i < tx->n; i++) {
        struct rn_transaction_item *item = &tx->items[i];

        if (item->taken == 0)
            continue;
        rn_transaction_ask(tx, i, item->limit, RN_GIVE_BACK, item->taken);
        tx->batch[tx->batch_n - 1].ask.at_ns = tx->now_ns;
        tx->batch[tx->batch_n - 1].ask.mark = item->answer.mark;
        item->taken = 0;
    }
    rn_transaction_apply(tx);
    for (size_t i = 0; i < tx->batch_n; i++) {
        struct rn_answer *answer = &tx->items[tx->item_of[i]].answer;

        if (tx->batch[i].error != 0)
            continue;
        answer->remaining = tx->batch[i].answer.remaining;
        answer->reset_after_ns = tx->batch[i].answer.reset_after_ns;
        rn_gate_poke(tx->r, tx->batch[i].key, tx->now_ns);
    }
}

/* --- SHADOW, DEBIT ------------------------------------------------------------------ */

/* SHADOW with RN_TAKE, DEBIT with RN_DEBIT: no limit keeps the others from being charged. */
static void charge_unasked(struct rn_transaction *tx, enum rn_op op)
{
    tx->batch_n = 0;
    for (size_t i = 0; i < tx->n; i++) {
        const struct rn_transaction_item *item = &tx->items[i];

        if (op == RN_DEBIT || (item->shadow && !item->refused_by_look && !item->by_outcome))
            rn_transaction_ask(tx, i, item->limit, op, tx->charges[i].cost);
    }
    rn_transaction_apply(tx);
    for (size_t i = 0; i < tx->batch_n; i++) {
        size_t at = tx->item_of[i];
        struct rn_transaction_item *item = &tx->items[at];
        int error = tx->batch[i].error;

        set_answer(tx, at, &tx->batch[i]);
        item->uncollected = item->answer.uncollected;
        item->taken =
            error == 0 && (op == RN_DEBIT || item->answer.allowed) ? tx->charges[at].cost : 0;
        if (op == RN_DEBIT && tx->error == 0)
            tx->error = error;
    }
}

/* --- the whole ------------------------------------------------------------------------ */

static void clear_item(struct rn_transaction_item *item)
{
    item->limit = NULL;
    item->taken = item->keep = item->soft = item->floor = item->lease = 0;
    item->shift_ns = item->max_wait_ns = item->held_ns = item->claim_ns = 0;
    item->refused_by_look = item->refused_by_delay = item->ask_guards = item->by_outcome = false;
    item->past_lines = false;
    item->line_size = item->rank = 0;
    item->guard_left = UINT64_MAX;
    item->earned = RN_FACTOR_WRITTEN;
    item->family = NULL;
}

RN_HOT void rn_transaction_init(struct rn_transaction *tx, struct ration *r,
                                struct ration_charge *charges, size_t n, int64_t now_ns)
{
    tx->r = r;
    tx->charges = charges;
    tx->n = n;
    tx->now_ns = now_ns;
    tx->look_only = tx->uncounted = tx->late = tx->of_caller = false;
    tx->waiter = NULL;
    tx->max_wait_ns = tx->waited_ns = 0;
    tx->wait_is_bound = tx->past_lines = tx->held = tx->in_line = tx->unasked = false;
    tx->error = 0;
    tx->enforced = tx->batch_n = tx->guards_taken = 0;
    tx->needs = 0;
    for (size_t i = 0; i < n; i++) {
        charges[i].error = 0;
        charges[i].paused = false;
        clear_item(&tx->items[i]);
    }
}

RN_HOT struct rn_transaction_item *rn_transaction_add(struct rn_transaction *tx,
                                                      const struct rn_compiled *limit, uint64_t key,
                                                      uint64_t cost)
{
    struct rn_transaction_item *item = &tx->items[tx->n];

    clear_item(item);
    item->limit = limit;
    item->key = key;
    item->shadow = limit->shadow;
    tx->charges[tx->n++] = (struct ration_charge){.limit = limit->index, .cost = cost, .hash = key};
    rn_table_prefetch(tx->r->table, key);
    return item;
}

/* Does all that can be done before the clock is read. Charges of the caller have no limit yet. */
static int prepare(struct rn_transaction *tx)
{
    for (size_t i = 0; i < tx->n; i++) {
        struct rn_transaction_item *item = &tx->items[i];

        if (!item->limit) {
            tx->of_caller = true;
            item->limit = rn_limiter_find(tx->r, &tx->charges[i], &item->own);
            if (!item->limit || item->limit->limit.algorithm == RATION_CONCURRENCY)
                return tx->charges[i].error = RATION_EINVAL;
            item->key = rn_compiled_key(item->limit, &tx->charges[i]);
            item->shadow = item->limit->shadow;
            if (item->limit->limit.algorithm == RATION_LEAKY_BUCKET)
                item->max_wait_ns = rn_transaction_patience_ns(tx->charges[i].max_wait_ns);
            rn_table_prefetch(tx->r->table, item->key);
        }
        if (!item->shadow && !item->by_outcome)
            tx->order[tx->enforced++] = (uint8_t)i;
        if (item->shadow)
            tx->needs |= RN_NEEDS_SHADOW;
        if (item->by_outcome || is_restricted(item))
            tx->needs |= RN_NEEDS_LOOK;
        if (item->by_outcome)
            tx->needs |= RN_NEEDS_OUTCOME;
        if (item->limit->limit.algorithm == RATION_CONCURRENCY)
            tx->needs |= RN_NEEDS_PLACE;
        if (item->soft != 0)
            tx->needs |= RN_NEEDS_SOFT;
        if (item->limit->shape_count + item->limit->guard_count != 0)
            tx->needs |= RN_NEEDS_VARIANTS;
        if (item->family && item->family->until_ns != INT64_MIN)
            tx->needs |= RN_NEEDS_INHERIT;
    }
    tx->now_ns = rn_limiter_now(tx->r, tx->now_ns);
    tx->wall_offset_ns = rn_table_wall_offset(tx->r->table, tx->now_ns);
    return 0;
}

/* Whether the request is admitted. If not, what was taken must be given back. */
RN_HOT static bool charge_all(struct rn_transaction *tx)
{
    if (rn_unlikely(tx->needs & RN_NEEDS_INHERIT) && !rn_transaction_inherit(tx))
        return false;
    if (rn_unlikely(tx->needs & RN_NEEDS_VARIANTS) && !rn_transaction_watch(tx))
        return false;
    if (rn_unlikely(tx->late)) {
        charge_unasked(tx, RN_DEBIT);
        return !(tx->needs & RN_NEEDS_VARIANTS) || rn_transaction_follow(tx);
    }
    if (((tx->needs & RN_NEEDS_LOOK) || (tx->n > 1 && tx->enforced != 0) ||
         (tx->look_only && tx->n != 0)) &&
        !look(tx, false))
        return false;
    if (tx->look_only)
        return true;
    sort_narrowest_first(tx);
    if (!take(tx))
        return false;
    if (rn_unlikely((tx->needs & RN_NEEDS_LOOK_AGAIN) == RN_NEEDS_LOOK_AGAIN) && !look_again(tx))
        return false;
    if (rn_unlikely(tx->needs & RN_NEEDS_VARIANTS) && !rn_transaction_guard(tx))
        return false;
    if (rn_unlikely(tx->needs & RN_NEEDS_SHADOW))
        charge_unasked(tx, RN_TAKE);
    return rn_likely(!(tx->needs & RN_NEEDS_VARIANTS)) || rn_transaction_follow(tx);
}

RN_HOT bool rn_transaction_charge(struct rn_transaction *tx)
{
    bool allowed = charge_all(tx);

    if (!allowed)
        undo(tx);
    return allowed;
}

RN_HOT int rn_transaction_run(struct rn_transaction *tx)
{
    tx->error = prepare(tx);
    if (rn_unlikely(tx->error != 0))
        return tx->error;
    if (rn_pause_any(&tx->r->pauses) && tx->of_caller)
        rn_pause_hold(tx);
    bool allowed =
        rn_likely(!rn_gate_concerns(tx)) ? rn_transaction_charge(tx) : rn_gate_charge(tx);

    if (rn_likely(tx->error != RATION_EWAITS))
        rn_verdict_finish(tx, allowed);
    return tx->error;
}
