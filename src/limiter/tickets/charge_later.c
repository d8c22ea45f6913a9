/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Late debits: the limits are found again, as receipts are, and each is charged in full, also if
 * other requests have taken the room meanwhile. Units that no limit can hold are counted.
 *
 * A ticket carries what must be charged to the process that learns the outcome. Until then nothing
 * is stored but the ticket.
 */
#include "limiter/tickets/charge_later.h"

#include <string.h>

#include "limiter/decide/gather.h"
#include "limiter/decide/workspace.h"
#include "limiter/factor.h"
#include "limiter/reputation/earned.h"
#include "limiter/tickets/receipt.h"
#include "limiter/tickets/reservation.h"
#include "limiter/tickets/ticket.h"

void rn_charge_later_begin(struct rn_transaction *tx, struct ration *r,
                           struct ration_charge *charges, int64_t now_ns)
{
    rn_transaction_init(tx, r, charges, 0, now_ns);
    tx->uncounted = tx->late = true;
}

/* A thread has the same number in both stripes: `s` tells whether `rows` is shared. */
static void count_units(const struct rn_transaction *tx, const struct rn_book *book)
{
    struct rn_stripe *s = rn_stats_stripe(&tx->r->stats);
    struct rn_stripe *rows = book ? rn_stats_stripe(&book->stats) : s;
    const struct rn_transaction_item *before = NULL;

    for (size_t i = 0; i < tx->n; before = &tx->items[i++]) {
        const struct rn_transaction_item *item = &tx->items[i];
        struct rn_counts *row = rn_stats_row(rows, item->limit->index);

        if (tx->charges[i].error != 0)
            continue;
        rn_stats_add_units(s, &row->uncollected, item->uncollected);
        rn_stats_add_units(s, &s->total.uncollected, item->uncollected);
        if (before && before->limit->index == item->limit->index &&
            (before->key ^ before->limit->salt) == (item->key ^ item->limit->salt))
            continue; /* another limit of the same rule and client; they lie together */
        rn_stats_add_units(s, &row->hits_allowed, tx->charges[i].cost);
    }
}

int rn_charge_later_finish(struct rn_transaction *tx, const struct rn_book *book)
{
    if (tx->n == 0)
        return 0;
    int code = rn_transaction_run(tx);

    count_units(tx, book);
    return code;
}

/* The next decision carries over what was spent before a reload. */
static void add(struct rn_transaction *tx, const struct rn_book *book,
                const struct ration_receipt *receipt, const struct rn_compiled *l, uint64_t units)
{
    const struct rn_rule *rule = &book->ruleset->rules[l->index];
    uint64_t hash = receipt->hash ^ receipt->salt;
    struct rn_transaction_item *item =
        rn_transaction_add(tx, rn_factor_step(l), receipt->hash, units);

    item->earned = rn_earned_percent(tx->r, rule, hash, tx->now_ns);
    item->shift_ns = rn_gather_shift_ns(rule, hash);
}

/* What is added to usage beside the charges of a transaction: it does not depend on whether a store
 * answers. */
struct late_usage {
    size_t count;
    struct {
        struct rn_usage_rule *rule;
        uint64_t hash, units;
    } items[RATION_CHARGES_MAX];
};

static void note_usage(struct late_usage *late, struct rn_usage_rule *rule,
                       const struct ration_receipt *receipt, uint64_t units)
{
    late->items[late->count].rule = rule;
    late->items[late->count].hash = receipt->hash ^ receipt->salt;
    late->items[late->count++].units = units < INT64_MAX ? units : INT64_MAX;
}

static void add_usage(const struct late_usage *late, const struct rn_transaction *tx,
                      const struct rn_charge_later *due)
{
    int64_t wall_ns = due->at_ns + rn_table_wall_offset(tx->r->table, tx->now_ns);

    for (size_t i = 0; i < late->count; i++)
        rn_usage_adjust(late->items[i].rule, late->items[i].hash, (int64_t)late->items[i].units,
                        wall_ns);
}

/* Charges once for each id; counts each rule once, however many of its limits were charged. */
static int charge(struct rn_transaction *tx, const struct late_usage *usage,
                  const struct rn_charge_later *due, const struct rn_book *book)
{
    struct rn_stripe *s = rn_stats_stripe(&tx->r->stats), *rows = rn_stats_stripe(&book->stats);
    int code =
        due->id != 0 ? rn_reservation_use_id(tx->r, due->id, due->within_ns, tx->now_ns, 0) : 0;

    if (code != 0)
        return code;
    add_usage(usage, tx, due);
    code = tx->n != 0 ? rn_transaction_run(tx) : 0;
    if (code != 0)
        return code;
    rn_stats_add(s, &s->total.charged);
    for (size_t i = 0; i < tx->n; i++) {
        uint32_t rule = tx->items[i].limit->index;

        if (i == 0 || rule != tx->items[i - 1].limit->index)
            rn_stats_add(s, &rn_stats_row(rows, rule)->charged);
    }
    count_units(tx, book);
    return 0;
}

/* A rule without charge_on charges every outcome. */
static bool charges_on(const struct rn_book *book, uint32_t rule, unsigned status)
{
    const struct rn_rule *r = &book->ruleset->rules[rule];

    return !r->by_outcome || rn_statuses_has(&r->charge_on, status);
}

int rn_charge_later_run(struct ration *r, const struct rn_charge_later *due, unsigned status,
                        int64_t now_ns, uint32_t *count)
{
    struct rn_stripe *s = rn_stats_stripe(&r->stats);
    struct rn_workspace *w = rn_workspace_take(s);
    bool found = due->count == 0;
    struct late_usage usage;

    if (!w)
        return RATION_ENOMEM;
    struct rn_pin pin = rn_pin_take(&r->shelf, s);
    struct rn_transaction *tx = &w->gathered.tx;

    usage.count = 0;
    rn_charge_later_begin(tx, r, w->gathered.charges, rn_limiter_now(r, now_ns));
    for (size_t i = 0; i < due->count && pin.book; i++) {
        struct rn_usage_rule *counted = rn_usage_find(pin.book, &due->items[i]);
        const struct rn_compiled *l = counted ? NULL : rn_receipt_find(pin.book, &due->items[i]);

        found |= l || counted;
        if (l && charges_on(pin.book, l->index, status))
            add(tx, pin.book, &due->items[i], l, due->items[i].taken);
        if (counted && charges_on(pin.book, counted->base.index, status))
            note_usage(&usage, counted, &due->items[i], due->items[i].taken);
    }
    int code = found ? 0 : RATION_EGONE;

    if (code == 0 && (tx->n != 0 || usage.count != 0))
        code = charge(tx, &usage, due, pin.book);
    if (code == 0 && count)
        *count = (uint32_t)tx->n;
    rn_pin_drop(&pin);
    rn_workspace_return(s, w);
    return code;
}

int rn_charge_later_debit(struct ration *r, const struct rn_charge_later *due, uint64_t units,
                          int64_t now_ns)
{
    struct rn_stripe *s = rn_stats_stripe(&r->stats);
    struct rn_workspace *w = rn_workspace_take(s);
    struct late_usage usage;

    if (!w)
        return RATION_ENOMEM;
    struct rn_pin pin = rn_pin_take(&r->shelf, s);
    struct rn_transaction *tx = &w->gathered.tx;

    usage.count = 0;
    rn_charge_later_begin(tx, r, w->gathered.charges, rn_limiter_now(r, now_ns));
    for (size_t i = 0; i < due->count && pin.book; i++) {
        struct rn_usage_rule *counted = rn_usage_find(pin.book, &due->items[i]);
        const struct rn_compiled *l = counted ? NULL : rn_receipt_find(pin.book, &due->items[i]);

        if (l)
            add(tx, pin.book, &due->items[i], l, units);
        if (counted)
            note_usage(&usage, counted, &due->items[i], units);
    }
    add_usage(&usage, tx, due);
    int code = tx->n == 0 && usage.count == 0 && due->count != 0
                   ? RATION_EGONE
                   : rn_charge_later_finish(tx, pin.book);

    rn_pin_drop(&pin);
    rn_workspace_return(s, w);
    return code;
}

/* --- tickets ------------------------------------------------------------------------------- */

int ration_outcome_ticket(struct ration *r, const struct ration_outcome *out, int64_t timeout_ns,
                          char ticket[RATION_TICKET_SIZE])
{
    if (!rn_reservation_can_last(timeout_ns))
        return RATION_EINVAL;
    ticket[0] = '\0';
    if (out->due_count != 0)
        rn_ticket_issue_receipts(r, RN_TICKET_DUE, out->at_ns, timeout_ns, out->dues,
                                 out->due_count, ticket);
    return 0;
}

/* For signals about the rules of the receipts; those of one rule lie together. */
static void tell_signals(struct ration *r, const struct rn_charge_later *due, unsigned status,
                         int64_t duration_ns, int64_t now_ns)
{
    struct rn_pin pin = rn_pin_take_counted(&r->shelf);
    const struct rn_rule *last = NULL;

    for (size_t i = 0; pin.book && i < due->count && pin.book->ruleset->signal_count != 0; i++) {
        const struct rn_compiled *l = rn_receipt_find(pin.book, &due->items[i]);
        const struct rn_rule *rule = l ? &pin.book->ruleset->rules[l->index] : NULL;

        if (rule && rule != last)
            rn_histogram_add(r->table, pin.book, rule, status, duration_ns, now_ns);
        last = rule;
    }
    rn_pin_drop(&pin);
}

int ration_ticket_charge(struct ration *r, const char *ticket, size_t len, unsigned status,
                         int64_t now_ns, uint32_t *count)
{
    struct rn_ticket t;

    if (!rn_ticket_verify(r, ticket, len, &t) || t.kind != RN_TICKET_DUE)
        return RATION_EINVAL;
    now_ns = rn_limiter_now(r, now_ns);
    if (now_ns - t.at_ns >= t.timeout_ns)
        return RATION_EGONE;
    struct rn_charge_later due = {.items = t.receipts,
                                  .count = t.receipt_count,
                                  .at_ns = t.at_ns,
                                  .id = t.id,
                                  .within_ns = t.timeout_ns};
    int code = rn_charge_later_run(r, &due, status, now_ns, count);

    if (code == 0) /* not told before: it took as long as the ticket is old */
        tell_signals(r, &due, status, now_ns - t.at_ns, now_ns);
    return code;
}
