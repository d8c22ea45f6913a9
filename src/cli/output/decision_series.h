/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decisions on the same request, one after the other, as people are told about
 * them: those in a row that came out the same way as one.
 */
#ifndef RN_CLI_COMMANDS_CHECK_SERIES_H
#define RN_CLI_COMMANDS_CHECK_SERIES_H

#include "cli/output/decision.h"

struct rn_cli_decision_series {
    struct rn_output out;
    uint64_t times;                   /* how many there will be */
    struct rn_matched_limits matched; /* the same for all */
    uint64_t allowed, refused;
    struct ration_outcome last; /* of the run that is open */
    uint64_t from, to;          /* which ones they were, from 1; 0: none yet */
};

void rn_cli_decision_series_add(struct rn_cli_decision_series *series,
                                const struct ration_outcome *outcome);
/* The totals, and the limits as the last decision left them. */
void rn_cli_decision_series_end(struct rn_cli_decision_series *series);

/* The same for programs: what goes before and behind decisions that are printed as JSON, one a
 * line; nothing but the exit status if there is only one. `count` is of refused and allowed. */
void rn_cli_decision_series_begin_json(bool several);
int rn_cli_decision_series_end_json(bool several, const uint64_t count[2]);

#endif
