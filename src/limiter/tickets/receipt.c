/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding the limits of receipts again, and giving back.
 */
#include "limiter/tickets/receipt.h"

#include "limiter/clients/client_index.h"
#include "limiter/decide/gather.h"
#include "limiter/factor.h"
#include "limiter/limiter.h"

const struct rn_compiled *rn_receipt_find(const struct rn_book *book,
                                          const struct ration_receipt *receipt)
{
    const struct rn_compiled *l = rn_book_find_limit(book, receipt->salt, receipt->cap);
    const struct rn_client_index *index = rn_book_client_index(book);

    if ((l && l->limit.cap == receipt->cap) || !index)
        return l;
    const struct rn_override *o = rn_map_find(&index->overrides, receipt->hash ^ receipt->salt);

    if (!o || !o->plan->limit || o->plan->compiled.salt != receipt->salt)
        return l;
    const struct rn_compiled *step = rn_factor_find(&o->plan->compiled, receipt->cap);

    if (step)
        return step;
    return !l || o->plan->compiled.limit.cap == receipt->cap ? rn_factor_written(&o->plan->compiled)
                                                             : l;
}

/* Looks among the rules, then among the limits given at open: the limit of that capacity, else the
 * smallest. *shift_ns is that of the rule's windows. NULL: the limit is gone. */
static const struct rn_compiled *find_limit(const struct ration *r, const struct rn_book *book,
                                            const struct ration_receipt *receipt, int64_t *shift_ns)
{
    const struct rn_compiled *found = book ? rn_receipt_find(book, receipt) : NULL;

    *shift_ns = 0;
    if (found) {
        *shift_ns =
            rn_gather_shift_ns(&book->ruleset->rules[found->index], receipt->hash ^ receipt->salt);
        return found;
    }
    for (size_t i = 0; i < r->limit_count; i++) {
        const struct rn_compiled *l = &r->limits[i];

        if (l->salt != receipt->salt)
            continue;
        if (l->limit.cap == receipt->cap)
            return l;
        found = found && found->limit.cap <= l->limit.cap ? found : l;
    }
    return found;
}

/* What the units of a receipt are worth of the limit that was found for it. Buckets of one shape
 * take equally long to fill, and their states are times: a unit of a bucket that is now smaller is
 * worth more time than was charged for it. The capacity at a factor is rounded down, so that a unit
 * may have cost less than its share of it; if the rule had that factor, it lists it no longer. */
static uint64_t worth_of(const struct rn_compiled *l, const struct ration_receipt *receipt,
                         uint64_t units)
{
    bool bucket =
        l->limit.algorithm == RATION_TOKEN_BUCKET || l->limit.algorithm == RATION_LEAKY_BUCKET;

    bool stepped = l->limit.percent != 0;

    if (!bucket || l->limit.cap == receipt->cap || (l->limit.cap > receipt->cap && !stepped))
        return units;
    uint64_t worth = (uint64_t)((u128)units * l->limit.cap / (receipt->cap + stepped));

    return worth < units ? worth : units;
}

/* From the period in which it was counted. False: the rule is gone. */
static bool take_back_usage(const struct rn_book *book, const struct ration_receipt *receipt,
                            uint64_t units, int64_t wall_ns)
{
    struct rn_usage_rule *usage = book ? rn_usage_find(book, receipt) : NULL;

    if (usage)
        rn_usage_adjust(usage, receipt->hash ^ receipt->salt,
                        units < INT64_MAX ? -(int64_t)units : -INT64_MAX, wall_ns);
    return usage != NULL;
}

int rn_receipt_give_back(struct ration *r, const struct ration_receipt *receipts, size_t n,
                         int64_t at_ns, uint64_t kept, int64_t now_ns)
{
    struct rn_pin pin = rn_pin_take(&r->shelf, rn_stats_stripe(&r->stats));
    int64_t wall_ns = at_ns + rn_table_wall_offset(r->table, now_ns);
    bool found = false, gone = false;
    int first = 0;

    for (size_t i = 0; i < n; i++) {
        struct rn_refund refund = {
            .key = receipts[i].hash, .at_ns = at_ns, .mark = receipts[i].mark};

        if (receipts[i].taken <= kept)
            continue;
        if (rn_usage_is_receipt(&receipts[i])) {
            found |= take_back_usage(pin.book, &receipts[i], receipts[i].taken - kept, wall_ns);
            continue;
        }
        const struct rn_compiled *l = find_limit(r, pin.book, &receipts[i], &refund.shift_ns);

        found |= l != NULL;
        gone |= l == NULL;
        if (!l)
            continue;
        refund.units = receipts[i].taken - kept;
        refund.cost = worth_of(l, &receipts[i], refund.units);
        int code = refund.cost != 0 ? rn_limiter_give_back(r, l, &refund, now_ns) : 0;

        first = first ? first : code;
    }
    rn_pin_drop(&pin);
    return gone && !found ? RATION_EGONE : first;
}
