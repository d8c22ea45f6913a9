/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding the limits of receipts again, and giving back.
 */
#include "limiter/receipt.h"

#include "limiter/book.h"
#include "limiter/limiter.h"

__extension__ typedef unsigned __int128 u128;

/* Of the rules, else of those given at open. */
static const struct rn_compiled *find_limit(const struct ration *r, const struct rn_book *book,
                                            const struct ration_receipt *receipt)
{
    const struct rn_compiled *l =
        book ? rn_book_find_limit(book, receipt->salt, receipt->cap) : NULL;

    for (size_t i = 0; i < r->limit_count && !l; i++)
        if (r->limits[i].salt == receipt->salt)
            l = &r->limits[i];
    return l;
}

/* What `units` of then are today. Buckets of one shape take equally long to fill,
 * and their states are times: a unit of a bucket that is now smaller is worth
 * more time than was charged for it. */
static uint64_t units_today(const struct rn_compiled *l, uint64_t cap, uint64_t units)
{
    bool bucket =
        l->limit.algorithm == RATION_TOKEN_BUCKET || l->limit.algorithm == RATION_LEAKY_BUCKET;

    if (!bucket || l->limit.cap >= cap)
        return units;
    return (uint64_t)((u128)units * l->limit.cap / cap);
}

static int give_back(struct ration *r, const struct rn_compiled *l,
                     const struct ration_receipt *receipt, int64_t at_ns, uint64_t units,
                     int64_t now_ns)
{
    struct rn_charge charge = {.ask = {.op = RN_GIVE_BACK,
                                       .now_ns = now_ns,
                                       .cost = units_today(l, receipt->cap, units),
                                       .at_ns = at_ns,
                                       .mark = receipt->mark}};

    return charge.ask.cost != 0 ? rn_limiter_apply(r, l, receipt->hash, &charge) : 0;
}

int rn_receipt_give_back(struct ration *r, const struct ration_receipt *receipts, size_t n,
                         int64_t at_ns, uint64_t kept, int64_t now_ns)
{
    struct rn_pin pin = rn_pin_take(&r->shelf, rn_stats_stripe(&r->stats));
    bool found = false, gone = false;
    int first = 0;

    for (size_t i = 0; i < n; i++) {
        const struct rn_compiled *l = find_limit(r, pin.book, &receipts[i]);

        if (receipts[i].taken <= kept)
            continue;
        found |= l != NULL;
        gone |= l == NULL;
        if (!l)
            continue;
        int code = give_back(r, l, &receipts[i], at_ns, receipts[i].taken - kept, now_ns);

        first = first ? first : code;
    }
    rn_pin_drop(&pin);
    return gone && !found ? RATION_EGONE : first;
}
