/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints a condition and whether it holds.
 */
#ifndef RN_CLI_EXPLAIN_DESCRIBE_H
#define RN_CLI_EXPLAIN_DESCRIBE_H

#include "cli/output/output.h"
#include "rules/match/reason.h"

/* `- method "GET" is not POST`; no line end. */
void rn_cli_explain_finding(const struct rn_output *out, const struct rn_finding *finding);

#endif
