/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A series of decisions on the same request. Consecutive equal decisions are printed as one.
 */
#ifndef RN_CLI_COMMANDS_CHECK_SERIES_H
#define RN_CLI_COMMANDS_CHECK_SERIES_H

#include "cli/output/decision.h"

struct rn_cli_decision_series {
    struct rn_output out;
    uint64_t times;                   /* of the whole series */
    struct rn_matched_limits matched; /* the same for all */
    uint64_t allowed, refused;
    struct ration_outcome last; /* last decision of the current run */
    uint64_t from, to;          /* numbers of the current run, from 1; 0: none yet */
};

void rn_cli_decision_series_add(struct rn_cli_decision_series *series,
                                const struct ration_outcome *outcome);
/* Prints the totals, and the limits after the last decision. */
void rn_cli_decision_series_end(struct rn_cli_decision_series *series);

/* Prints the JSON before and after the decisions, which are printed one per line; nothing for a
 * single decision. `count` is [refused, allowed]. Returns the exit status. */
void rn_cli_decision_series_begin_json(bool several);
int rn_cli_decision_series_end_json(bool several, const uint64_t count[2]);

#endif
