/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Charging limits when the outcome of a request is known, perhaps under rules that
 * have been replaced since.
 */
#ifndef RN_LIMITER_TICKETS_CHARGE_LATER_H
#define RN_LIMITER_TICKETS_CHARGE_LATER_H

#include <ration/rules.h>

struct rn_charge_later {
    const struct ration_receipt *items;
    size_t count;
    uint64_t id;       /* charged at most once within within_ns; 0: the caller sees to that */
    int64_t within_ns; /* reservation.h says how long it may be */
};

/* Charges those whose rule is charged on this HTTP status what was due, in full.
 * *count (may be NULL) is how many. RATION_EGONE: there were some, and
 * no limit to charge; RATION_EALREADY; or the first error of the store. */
int rn_charge_later_run(struct ration *r, const struct rn_charge_later *due, unsigned status,
                        int64_t now_ns, uint32_t *count);

/* Charges `units` more to each of the limits that were charged before. RATION_EGONE: none is
 * there any more; or the first error of the store. */
int rn_charge_later_debit(struct ration *r, const struct ration_receipt *receipts, size_t n,
                          uint64_t units, int64_t now_ns);

struct rn_book;
struct rn_transaction;

/* Counts the units of a transaction that charged late; `book`: of its limits, NULL: they were given
 * at open or with the call. */
void rn_charge_later_count(const struct rn_transaction *tx, const struct rn_book *book);

#endif
