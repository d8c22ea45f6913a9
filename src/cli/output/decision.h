/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A decision as people are told about it.
 */
#ifndef RN_CLI_OUTPUT_DECISION_H
#define RN_CLI_OUTPUT_DECISION_H

#include "cli/offline.h"
#include "cli/output/output.h"

/* The limits that apply to the request, as the rules have them, in the order of
 * the outcome's list; the same for all decisions of a session. */
struct rn_applying {
    const struct rn_rule_limit *limits[RATION_CHARGES_MAX];
    uint32_t count;
    uint32_t of_descriptor;            /* how many of them, the first, are of Envoy's rules */
    const struct rn_list_entry *entry; /* or what allowed or denied it */
    bool unknown;                      /* the daemon decided, whose limits are not at hand */
};
void rn_decision_find(const struct rn_session *session, struct rn_applying *applying);

/* `refused by login; try again in 48 s`, no line end. `several` came out like
 * this one, which was the last of them. */
void rn_decision_line(const struct rn_output *out, const struct ration_outcome *outcome,
                      const struct rn_applying *applying, bool several);
/* One row for each limit, the deciding one marked. Nothing if there is none. */
void rn_decision_table(const struct rn_output *out, const struct ration_outcome *outcome,
                       const struct rn_applying *applying);

/* `5 per minute, sliding-log`. */
#define RN_LIMIT_TEXT 160
const char *rn_decision_limit(const struct rn_rule_limit *limit, char text[RN_LIMIT_TEXT]);

#endif
