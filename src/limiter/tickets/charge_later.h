/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Charging limits when the outcome of a request is known, perhaps under rules that replaced those
 * of the decision.
 */
#ifndef RN_LIMITER_TICKETS_CHARGE_LATER_H
#define RN_LIMITER_TICKETS_CHARGE_LATER_H

#include <ration/rules.h>

struct rn_book;
struct rn_transaction;

struct rn_charge_later {
    const struct ration_receipt *items;
    size_t count;
    int64_t at_ns;     /* when it was decided: usage counts in the period of that time */
    uint64_t id;       /* charged at most once within within_ns; 0: the caller sees to that */
    int64_t within_ns; /* rn_reservation_can_last */
};

/* Charges the receipts whose rule is charged on this HTTP status, in full. *count (may be NULL) is
 * how many. RATION_EGONE: there were some, and no limit to charge; RATION_EALREADY; or the first
 * error of the store. */
int rn_charge_later_run(struct ration *r, const struct rn_charge_later *due, unsigned status,
                        int64_t now_ns, uint32_t *count);

/* Charges `units` more to each of the limits that were charged before. RATION_EGONE: none of them
 * exists any more; or the first error of the store. */
int rn_charge_later_debit(struct ration *r, const struct rn_charge_later *due, uint64_t units,
                          int64_t now_ns);

/* A transaction of late debits: begin, add limits, finish. Finishing counts the units; the limits
 * are those of `book` or, if it is NULL, were given at open or with the call. 0, or the first error
 * of the store. */
void rn_charge_later_begin(struct rn_transaction *tx, struct ration *r,
                           struct ration_charge *charges, int64_t now_ns);
int rn_charge_later_finish(struct rn_transaction *tx, const struct rn_book *book);

#endif
