/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A decision as people are told about it.
 */
#ifndef RN_CLI_OUTPUT_DECISION_H
#define RN_CLI_OUTPUT_DECISION_H

#include "cli/offline.h"
#include "cli/output/output.h"

/* The limits that apply to the request, as the rules have them, in the order of
 * the outcome's list; the same for all decisions of a offline. */
struct rn_matched_limits {
    const struct rn_rule_limit *limits[RATION_CHARGES_MAX];
    uint32_t count;
    uint32_t of_descriptor;            /* how many of them, the first, are of Envoy's rules */
    const struct rn_list_entry *entry; /* or what allowed or denied it */
    bool unknown;                      /* the daemon decided, whose limits are not at hand */
};
void rn_cli_decision_find(const struct rn_offline *offline, struct rn_matched_limits *matched);

/* `refused by login; try again in 48 s`, no line end. `several` came out like
 * this one, which was the last of them. */
void rn_cli_decision_line(const struct rn_output *out, const struct ration_outcome *outcome,
                          const struct rn_matched_limits *matched, bool several);
/* One row for each limit, the deciding one marked. Nothing if there is none. */
void rn_cli_decision_table(const struct rn_output *out, const struct ration_outcome *outcome,
                           const struct rn_matched_limits *matched);

/* `5 per minute, sliding-log`. */
#define RN_LIMIT_TEXT 160
const char *rn_cli_decision_limit(const struct rn_rule_limit *limit, char text[RN_LIMIT_TEXT]);

#endif
