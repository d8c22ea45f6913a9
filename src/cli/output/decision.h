/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints a decision for people.
 */
#ifndef RN_CLI_OUTPUT_DECISION_H
#define RN_CLI_OUTPUT_DECISION_H

#include "cli/offline.h"
#include "cli/output/output.h"

/* The limits that apply to the request, in the order of the outcome's list. The same for all
 * decisions of a command. */
struct rn_matched_limits {
    const struct rn_rule_limit *limits[RATION_CHARGES_MAX];
    uint32_t count;
    const struct rn_list_entry *entry; /* the list entry that decided, if any */
    bool unknown;                      /* the daemon decided; its limits are not known here */
};
void rn_cli_decision_find(const struct rn_offline *offline, struct rn_matched_limits *matched);

/* `refused by login; try again in 48 s`, no newline. `entry` is the list entry that decided, if
 * it is known. `several`: this is the last of several equal decisions. */
void rn_cli_decision_line(const struct rn_output *out, const struct ration_outcome *outcome,
                          const struct rn_list_entry *entry, bool several);
/* A row for each limit, with a mark at the deciding one. Prints nothing without limits. */
void rn_cli_decision_table(const struct rn_output *out, const struct ration_outcome *outcome,
                           const struct rn_matched_limits *matched);

/* `5 per minute, sliding-log`. */
#define RN_LIMIT_TEXT 160
const char *rn_cli_decision_limit(const struct rn_rule_limit *limit, char text[RN_LIMIT_TEXT]);

#endif
