/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Late debits: the limits are found again, as receipts are, and each is charged in full,
 * also where others have taken the room meanwhile. What no limit can hold is counted.
 */
#include "limiter/tickets/charge_later.h"

#include "limiter/decide/gather.h"
#include "limiter/decide/transaction.h"
#include "limiter/decide/workspace.h"
#include "limiter/limiter.h"
#include "limiter/tickets/receipt.h"
#include "limiter/tickets/reservation.h"

/* Whether the rule wants this outcome charged; one without charge_on wants all. */
static bool is_charged_on(const struct rn_rule *rule, unsigned status)
{
    return !rule->by_outcome || rn_statuses_has(&rule->charge_on, status);
}

/* What was spent before a reload is left to the next decision to carry over. */
static void add_due(struct rn_transaction *tx, const struct rn_book *book,
                    const struct ration_receipt *due, const struct rn_compiled *l, uint64_t units)
{
    struct rn_transaction_item *item = rn_transaction_add(tx, l, due->hash, units);

    item->shift_ns = rn_gather_shift_ns(&book->ruleset->rules[l->index], due->hash ^ due->salt);
}

/* RATION_EGONE: no limit is there any more. */
static int gather(struct rn_transaction *tx, const struct rn_book *book,
                  const struct rn_charge_later *due, unsigned status)
{
    bool found = due->count == 0;

    for (size_t i = 0; i < due->count; i++) {
        const struct rn_compiled *l = book ? rn_receipt_find(book, &due->items[i]) : NULL;

        found |= l != NULL;
        if (l && is_charged_on(&book->ruleset->rules[l->index], status))
            add_due(tx, book, &due->items[i], l, due->items[i].taken);
    }
    return found ? 0 : RATION_EGONE;
}

static int charge(struct rn_transaction *tx, const struct rn_charge_later *due)
{
    int code =
        due->id != 0 ? rn_reservation_use_id(tx->r, due->id, due->within_ns, tx->now_ns, 0) : 0;

    if (code != 0)
        return code;
    return rn_transaction_run(tx);
}

static bool is_of_same_client(const struct rn_transaction_item *a,
                              const struct rn_transaction_item *b)
{
    return a->limit->index == b->limit->index &&
           (a->key ^ a->limit->salt) == (b->key ^ b->limit->salt);
}

/* A thread has the same number in both stripes: `s` answers for `rows`. */
void rn_charge_later_count(const struct rn_transaction *tx, const struct rn_book *book)
{
    struct rn_stripe *s = rn_stats_stripe(&tx->r->stats);
    struct rn_stripe *rows = book ? rn_stats_stripe(&book->stats) : s;

    for (size_t i = 0; i < tx->n; i++) {
        struct rn_counts *row = rn_stats_row(rows, tx->items[i].limit->index);
        uint64_t units = tx->charges[i].cost, lost = tx->items[i].uncollected;

        if (tx->charges[i].error != 0)
            continue;
        rn_stats_add_units(s, &row->uncollected, lost);
        rn_stats_add_units(s, &s->total.uncollected, lost);
        if (i != 0 && is_of_same_client(&tx->items[i], &tx->items[i - 1]))
            continue; /* another limit of the same rule; they lie together */
        rn_stats_add_units(s, &row->hits_allowed, units);
    }
}

/* Once for each rule, however many of its limits were charged. */
static void count_charged(const struct rn_transaction *tx, const struct rn_book *book)
{
    struct rn_stripe *s = rn_stats_stripe(&tx->r->stats), *rows = rn_stats_stripe(&book->stats);

    rn_stats_add(s, &s->total.charged);
    for (size_t i = 0; i < tx->n; i++) {
        uint32_t rule = tx->items[i].limit->index;

        if (i == 0 || rule != tx->items[i - 1].limit->index)
            rn_stats_add(s, &rn_stats_row(rows, rule)->charged);
    }
    rn_charge_later_count(tx, book);
}

/* A transaction without charges yet, all of which are debits. */
static struct rn_transaction *begin(struct ration *r, struct rn_workspace *w, int64_t now_ns)
{
    struct rn_transaction *tx = &w->gathered.tx;

    rn_transaction_init(tx, r, w->gathered.charges, 0, rn_limiter_now(r, now_ns));
    tx->uncounted = tx->late = true;
    return tx;
}

int rn_charge_later_run(struct ration *r, const struct rn_charge_later *due, unsigned status,
                        int64_t now_ns, uint32_t *count)
{
    struct rn_stripe *s = rn_stats_stripe(&r->stats);
    struct rn_workspace *w = rn_workspace_take(s);

    if (!w)
        return RATION_ENOMEM;
    struct rn_pin pin = rn_pin_take(&r->shelf, s);
    struct rn_transaction *tx = begin(r, w, now_ns);
    int code = gather(tx, pin.book, due, status);

    if (code == 0 && tx->n != 0) {
        code = charge(tx, due);
        if (code == 0)
            count_charged(tx, pin.book);
    }
    if (code == 0 && count)
        *count = (uint32_t)tx->n;
    rn_pin_drop(&pin);
    rn_workspace_return(s, w);
    return code;
}

int rn_charge_later_debit(struct ration *r, const struct ration_receipt *receipts, size_t n,
                          uint64_t units, int64_t now_ns)
{
    struct rn_stripe *s = rn_stats_stripe(&r->stats);
    struct rn_workspace *w = rn_workspace_take(s);

    if (!w)
        return RATION_ENOMEM;
    struct rn_pin pin = rn_pin_take(&r->shelf, s);
    struct rn_transaction *tx = begin(r, w, now_ns);
    int code = n == 0 ? 0 : RATION_EGONE;

    for (size_t i = 0; i < n; i++) {
        const struct rn_compiled *l = pin.book ? rn_receipt_find(pin.book, &receipts[i]) : NULL;

        if (l)
            add_due(tx, pin.book, &receipts[i], l, units);
    }
    if (tx->n != 0) {
        code = rn_transaction_run(tx);
        rn_charge_later_count(tx, pin.book);
    }
    rn_pin_drop(&pin);
    rn_workspace_return(s, w);
    return code;
}
