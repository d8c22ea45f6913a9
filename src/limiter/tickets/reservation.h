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

/* For what must happen at most once and costs nothing until then. 0: this id has not been used
 * within timeout_ns, and now is. RATION_EALREADY: it has. At capacity the table may forget that,
 * unless `flags` (RN_CHARGE_*) has RN_CHARGE_KEEP: then the store's error says that there is no
 * room. */
int rn_reservation_use_id(struct ration *r, uint64_t id, int64_t timeout_ns, int64_t now_ns,
                          unsigned flags);

#endif
