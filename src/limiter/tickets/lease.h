/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places that are held, without the limit that they are of: it may have changed
 * or be gone by now, and they are held all the same.
 */
#ifndef RN_LIMITER_TICKETS_LEASE_H
#define RN_LIMITER_TICKETS_LEASE_H

#include <ration/rules.h>

#include "core/limit.h"

/* RN_RENEW for lease_ns, or RN_RELEASE. RATION_EGONE: they are not held. */
int rn_limiter_lease_change(struct ration *r, enum rn_op op, uint64_t lease,
                            const struct ration_place *place, int64_t lease_ns, int64_t now_ns);

#endif
