/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Late debits: the limits are found again, as receipts are, and each is charged in full,
 * also where others have taken the room meanwhile. What no limit can hold is counted.
 */
#include "limiter/tickets/charge_later.h"

#include "limiter/decide/transaction.h"
#include "limiter/tickets/reservation.h"
#include "limiter/limiter.h"
#include "limiter/tickets/receipt.h"
#include "limiter/decide/gather.h"
#include "limiter/decide/workspace.h"

/* Whether the rule wants this outcome charged; one without charge_on wants all. */
static bool is_charged_on(const struct rn_rule *rule, unsigned status)
{
    return !rule->by_outcome || rn_statuses_has(&rule->charge_on, status);
}

/* What was spent before a reload is left to the next decision to carry over. */
static void add_due(struct rn_check *k, const struct rn_book *book,
                    const struct ration_receipt *due, const struct rn_compiled *l, uint64_t units)
{
    struct rn_check_item *item = rn_check_add(k, l, due->hash, units);

    item->shift_ns = rn_ruling_shift_ns(&book->ruleset->rules[l->index], due->hash ^ due->salt);
}

/* RATION_EGONE: no limit is there any more. */
static int gather(struct rn_check *k, const struct rn_book *book, const struct rn_due *due,
                  unsigned status)
{
    bool found = due->count == 0;

    for (size_t i = 0; i < due->count; i++) {
        const struct rn_compiled *l = book ? rn_receipt_find(book, &due->items[i]) : NULL;

        found |= l != NULL;
        if (l && is_charged_on(&book->ruleset->rules[l->index], status))
            add_due(k, book, &due->items[i], l, due->items[i].taken);
    }
    return found ? 0 : RATION_EGONE;
}

static int charge(struct rn_check *k, const struct rn_due *due)
{
    int code = due->id != 0 ? rn_hold_use(k->r, due->id, due->within_ns, k->now_ns, 0) : 0;

    if (code != 0)
        return code;
    return rn_check_run(k);
}

static bool is_of_same_client(const struct rn_check_item *a, const struct rn_check_item *b)
{
    return a->limit->index == b->limit->index &&
           (a->key ^ a->limit->salt) == (b->key ^ b->limit->salt);
}

/* A thread has the same number in both stripes: `s` answers for `rows`. */
void rn_due_count(const struct rn_check *k, const struct rn_book *book)
{
    struct rn_stripe *s = rn_stats_stripe(&k->r->stats);
    struct rn_stripe *rows = book ? rn_stats_stripe(&book->stats) : s;

    for (size_t i = 0; i < k->n; i++) {
        struct rn_counts *row = rn_stats_row(rows, k->items[i].limit->index);
        uint64_t units = k->charges[i].cost, lost = k->items[i].uncollected;

        if (k->charges[i].error != 0)
            continue;
        rn_stats_add_units(s, &row->uncollected, lost);
        rn_stats_add_units(s, &s->total.uncollected, lost);
        if (i != 0 && is_of_same_client(&k->items[i], &k->items[i - 1]))
            continue; /* another limit of the same rule; they lie together */
        rn_stats_add_units(s, &row->hits_allowed, units);
    }
}

/* Once for each rule, however many of its limits were charged. */
static void count_charged(const struct rn_check *k, const struct rn_book *book)
{
    struct rn_stripe *s = rn_stats_stripe(&k->r->stats), *rows = rn_stats_stripe(&book->stats);

    rn_stats_add(s, &s->total.charged);
    for (size_t i = 0; i < k->n; i++) {
        uint32_t rule = k->items[i].limit->index;

        if (i == 0 || rule != k->items[i - 1].limit->index)
            rn_stats_add(s, &rn_stats_row(rows, rule)->charged);
    }
    rn_due_count(k, book);
}

/* A check without charges yet, all of which are debits. */
static struct rn_check *begin(struct ration *r, struct rn_workspace *w, int64_t now_ns)
{
    struct rn_check *check = &w->ruling.check;

    rn_check_init(check, r, w->ruling.charges, 0, rn_limiter_now(r, now_ns));
    check->uncounted = check->late = true;
    return check;
}

int rn_due_charge(struct ration *r, const struct rn_due *due, unsigned status, int64_t now_ns,
                  uint32_t *count)
{
    struct rn_stripe *s = rn_stats_stripe(&r->stats);
    struct rn_workspace *w = rn_workspace_take(s);

    if (!w)
        return RATION_ENOMEM;
    struct rn_pin pin = rn_pin_take(&r->shelf, s);
    struct rn_check *check = begin(r, w, now_ns);
    int code = gather(check, pin.book, due, status);

    if (code == 0 && check->n != 0) {
        code = charge(check, due);
        if (code == 0)
            count_charged(check, pin.book);
    }
    if (code == 0 && count)
        *count = (uint32_t)check->n;
    rn_pin_drop(&pin);
    rn_workspace_return(s, w);
    return code;
}

int rn_due_debit(struct ration *r, const struct ration_receipt *receipts, size_t n, uint64_t units,
                 int64_t now_ns)
{
    struct rn_stripe *s = rn_stats_stripe(&r->stats);
    struct rn_workspace *w = rn_workspace_take(s);

    if (!w)
        return RATION_ENOMEM;
    struct rn_pin pin = rn_pin_take(&r->shelf, s);
    struct rn_check *check = begin(r, w, now_ns);
    int code = n == 0 ? 0 : RATION_EGONE;

    for (size_t i = 0; i < n; i++) {
        const struct rn_compiled *l = pin.book ? rn_receipt_find(pin.book, &receipts[i]) : NULL;

        if (l)
            add_due(check, pin.book, &receipts[i], l, units);
    }
    if (check->n != 0) {
        code = rn_check_run(check);
        rn_due_count(check, pin.book);
    }
    rn_pin_drop(&pin);
    rn_workspace_return(s, w);
    return code;
}
