/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A decision that rationd has told over RESP2 with all details (RATION.CHECK … FULL),
 * as the outcome that it was made of: a gateway answers its client with it as if it
 * had decided itself.
 */
#ifndef RN_WIRE_PARSED_DECISION_H
#define RN_WIRE_PARSED_DECISION_H

#include <ration/rules.h>

#include "base/slice.h"

/* As the reply has them, by enum ration_outcome_kind and ration_header_family. */
#define RN_PARSED_DECISION_KINDS 5
#define RN_PARSED_DECISION_FAMILIES 4
extern const char *const rn_parsed_decision_kinds[RN_PARSED_DECISION_KINDS];
extern const char *const rn_parsed_decision_families[RN_PARSED_DECISION_FAMILIES];

struct rn_parsed_decision {
    struct ration_outcome *outcome; /* to be filled; it holds no places and no receipts */
    struct rn_slice lease;          /* of places, in the reply; data NULL: there are none */
    int64_t lease_ns;               /* and how long it lasts */
    struct rn_slice charge;         /* by outcome, in the reply; data NULL: nothing is */
    struct rn_slice turn;           /* of one that waits, in the reply; data NULL: none */
};

/* A whole reply. False: it is no decision, or something is missing or cannot be;
 * `told` may be half filled then, but a lease that was read is there. Members that are
 * not known are skipped: a later rationd may tell more. Times are rounded up to the
 * millisecond, as the reply has them. */
bool rn_parsed_decision_read(struct rn_slice reply, struct rn_parsed_decision *told);

#endif
