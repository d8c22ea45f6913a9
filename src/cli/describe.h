/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conditions and their values in words.
 */
#ifndef RN_CLI_DESCRIBE_H
#define RN_CLI_DESCRIBE_H

#include "cli/pretty.h"
#include "cli/output.h"
#include "rules/match.h"

/* A condition and what a request has to say to it. */
struct rn_finding {
    const struct rn_ruleset *ruleset;
    const struct rn_condition *condition;
    struct rn_slice value; /* data NULL: absent */
    bool holds;
};

struct rn_finding rn_describe_find(const struct rn_ruleset *ruleset,
                                   const struct rn_condition *condition,
                                   const struct rn_values *values);

/* `- method "GET" is not POST`; no line end. */
void rn_describe_finding(const struct rn_output *out, const struct rn_finding *finding);
void rn_describe_finding_json(struct rn_pretty *json, const struct rn_finding *finding);

#endif
