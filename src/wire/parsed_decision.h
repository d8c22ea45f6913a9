/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the reply to RATION.CHECK … FULL back into the outcome that rationd wrote it from.
 * A gateway can then answer its client as if it had decided itself.
 */
#ifndef RN_WIRE_PARSED_DECISION_H
#define RN_WIRE_PARSED_DECISION_H

#include <ration/rules.h>

#include "base/slice.h"

/* The words in the reply, by enum ration_outcome_kind and ration_header_family. A ban by a rule
 * with `escalate` is a `ban` that has a `level`: gateways older than that take it for a ban. A
 * refusal by a pause is one by limits that is `paused`. */
#define RN_PARSED_DECISION_KINDS 7
#define RN_PARSED_DECISION_FAMILIES 4
extern const char *const rn_parsed_decision_kinds[RN_PARSED_DECISION_KINDS];
extern const char *const rn_parsed_decision_families[RN_PARSED_DECISION_FAMILIES];

/* The slices point into the reply; data NULL: there is no such ticket. */
struct rn_parsed_decision {
    struct ration_outcome *outcome; /* filled in; has no places and no receipts */
    struct rn_slice lease;          /* the ticket of places */
    int64_t lease_ns;               /* how long the lease lasts */
    struct rn_slice charge;         /* the ticket of a charge by outcome */
    struct rn_slice turn;           /* the ticket of a place in a queue */
    bool paused;                    /* for parsed_decision.c: the kind is RATION_BY_PAUSE */
};

/* Parses one complete reply. False: it is not a decision, or a member is missing or has an
 * impossible value; `parsed` may then be filled in part, but has the lease if that was read.
 * Unknown members are skipped, so that a later rationd can add some. Times are rounded up to
 * the millisecond, as in the reply. */
bool rn_parsed_decision_read(struct rn_slice reply, struct rn_parsed_decision *parsed);

/* With LINE id the reply may also be `WAIT id max_ms`: the request stands in line, at most for
 * that long. False: the reply is something else. */
bool rn_parsed_decision_read_wait(struct rn_slice reply, uint64_t *id, uint64_t *max_ms);
/* And later a push tells how it ended: `ration.turn id value`. *value is a decision, for
 * rn_parsed_decision_read, or an error. False: another push, or none. */
bool rn_parsed_decision_read_turn(struct rn_slice push, uint64_t *id, struct rn_slice *value);

#endif
