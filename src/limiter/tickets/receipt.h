/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Giving back what was charged according to receipts, perhaps under rules that have been replaced
 * since. A limit is found again by its salt, that is, by the name of its rule and its shape; the
 * limit of an override by its client. A limit that is gone keeps what it was charged.
 */
#ifndef RN_LIMITER_TICKETS_RECEIPT_H
#define RN_LIMITER_TICKETS_RECEIPT_H

#include <ration/rules.h>

struct rn_book;
struct rn_compiled;

/* The limit of the rules that was charged, of the same capacity if there is one. NULL: it is gone.
 */
const struct rn_compiled *rn_receipt_find(const struct rn_book *book,
                                          const struct ration_receipt *receipt);

/* Gives back all but `kept` units of each of n charges made at at_ns, as far as is safe.
 * RATION_EGONE: there was something to give back, and no limit to give it to; or
 * the first error of the store. */
int rn_receipt_give_back(struct ration *r, const struct ration_receipt *receipts, size_t n,
                         int64_t at_ns, uint64_t kept, int64_t now_ns);

#endif
