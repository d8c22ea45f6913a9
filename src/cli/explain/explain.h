/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ration explain`: explain.c prints the whole, rule.c one native rule, descriptor.c Envoy's
 * descriptors, daemon.c the answer of a daemon.
 */
#ifndef RN_CLI_EXPLAIN_EXPLAIN_H
#define RN_CLI_EXPLAIN_EXPLAIN_H

#include "cli/offline.h"
#include "cli/output/decision.h"
#include "rules/match/reason.h"
#include "wire/members.h"

struct rn_cli_explain {
    struct rn_offline *offline;
    struct rn_values values;
    struct rn_matched_limits matched;
    struct ration_outcome outcome; /* of a decision that counts nothing */
};

/* Evaluates one native rule. `at` is the index of its first limit in the outcome's list, and
 * advances. Afterwards e->values are those of the path reading that matched. */
struct rn_cli_explain_match {
    const struct rn_rule *rule;
    struct rn_reason reason;
    struct rn_match match; /* filled if it applies */
    bool applies;
    uint32_t first_limit;
};
void rn_cli_explain_rule(struct rn_cli_explain *e, const struct rn_rule *rule, uint32_t *at,
                         struct rn_cli_explain_match *found);
/* The verdict of one limit of a rule that applies; NULL if not known. */
const struct ration_verdict *rn_cli_explain_left(const struct rn_cli_explain *e, uint32_t limit);

void rn_cli_explain_put_rule(const struct rn_output *out, const struct rn_cli_explain *e,
                             const struct rn_cli_explain_match *found);
void rn_cli_explain_put_descriptor(const struct rn_output *out, const struct rn_cli_explain *e);
/* `offline` is a struct rn_offline. */
void rn_cli_explain_json_descriptor(void *offline, struct rn_members *m);
/* The rule that the descriptor matches, if any. */
void rn_cli_explain_json_descriptor_rule(void *offline, struct rn_members *m);

/* `    - method "GET" is not POST` and a newline. */
void rn_cli_explain_put_finding(const struct rn_output *out, const struct rn_finding *finding);
/* `would be refused by login; try again in 48 s` and a newline. */
void rn_cli_explain_put_decision(const struct rn_output *out, const struct ration_outcome *outcome,
                                 const struct rn_matched_limits *matched);

#endif
