/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What must be done when requests end, in the order of time: places are released, and limits are
 * charged by the outcome. Bounded: beyond that a place is held until its lease ends, and a charge
 * is made at once.
 */
#ifndef RN_CLI_REPLAY_PENDING_H
#define RN_CLI_REPLAY_PENDING_H

#include <ration/rules.h>

#define RN_PENDING_PARTS 4 /* dues or places of one request; more are several items */

struct rn_pending_item {
    int64_t at_ns;
    uint64_t number; /* of equal times the first comes first */
    struct ration *limiter;
    int64_t decided_ns;
    uint64_t lease; /* not 0: places, else dues */
    uint32_t count;
    uint16_t status;
    union {
        struct ration_place places[RN_PENDING_PARTS];
        struct ration_receipt dues[RN_PENDING_PARTS];
    };
};

struct rn_pending {
    uint64_t dropped; /* because there was no room */

    struct rn_pending_item *items; /* private from here on: a heap */
    size_t count, size, most;
    uint64_t numbers;
    struct ration_outcome *scratch;
};

/* False: out of memory. */
bool rn_pending_init(struct rn_pending *pending, uint64_t bytes);
void rn_pending_done(struct rn_pending *pending);

/* Notes what an outcome holds or owes. The request ends at `end_ns` with this status; 0: not known,
 * and nothing is charged. */
void rn_pending_add(struct rn_pending *pending, struct ration *limiter,
                    const struct ration_outcome *outcome, int64_t end_ns, unsigned status);
/* Does what is due until then. */
void rn_pending_run(struct rn_pending *pending, int64_t now_ns);

#endif
