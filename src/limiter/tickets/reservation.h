/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reservations as keys of the table: there until they are settled, once, or end.
 */
#ifndef RN_LIMITER_TICKETS_RESERVATION_H
#define RN_LIMITER_TICKETS_RESERVATION_H

#include <stdbool.h>
#include <stdint.h>

#define RN_RESERVATION_MIN_NS INT64_C(1000000)
#define RN_RESERVATION_MAX_NS (INT64_C(86400) * 1000000000)

struct ration;

static inline bool rn_reservation_can_last(int64_t timeout_ns)
{
    return timeout_ns >= RN_RESERVATION_MIN_NS && timeout_ns <= RN_RESERVATION_MAX_NS;
}

/* Makes one that rn_reservation_can_last for timeout_ns; `flags` are RN_CHARGE_*. 0, or the
 * store's error. */
int rn_reservation_create(struct ration *r, int64_t timeout_ns, int64_t now_ns, unsigned flags,
                          uint64_t *hold);
/* The other way round, for what is done at most once and costs nothing until then:
 * 0: this id has not been used within timeout_ns, and now is. RATION_EALREADY: it
 * has. At capacity it may be forgotten that it was, unless `flags` has RN_CHARGE_KEEP:
 * then the store's error says that it cannot be noted. */
int rn_reservation_use_id(struct ration *r, uint64_t id, int64_t timeout_ns, int64_t now_ns,
                          unsigned flags);
/* 0: it was there to be settled, and now is not. RATION_EGONE: it was not. */
int rn_reservation_settle(struct ration *r, uint64_t hold, int64_t now_ns);

#endif
