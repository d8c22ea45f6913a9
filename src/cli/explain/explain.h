/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of `ration explain` share: explain.c (the whole, for people),
 * explain_rule.c (one rule), explain_envoy.c (descriptors).
 */
#ifndef RN_CLI_EXPLAIN_EXPLAIN_H
#define RN_CLI_EXPLAIN_EXPLAIN_H

#include "cli/offline.h"
#include "cli/output/decision.h"
#include "wire/members.h"

struct rn_cli_explain {
    struct rn_offline *offline;
    struct rn_values values;
    struct rn_matched_limits matched;
    struct ration_outcome outcome; /* of looking */
};

/* One native rule. `at` is the number of its first limit in the outcome's list
 * and moves on. e->values are afterwards by the reading of the path that counts. */
struct rn_cli_explain_match {
    const struct rn_rule *rule;
    struct rn_reason reason;
    struct rn_match match; /* filled if it applies */
    bool applies;
    uint32_t first_limit;
};
void rn_cli_explain_rule(struct rn_cli_explain *e, const struct rn_rule *rule, uint32_t *at,
                         struct rn_cli_explain_match *found);
/* What one limit of a rule that applies has left; NULL if not known. */
const struct ration_verdict *rn_cli_explain_left(const struct rn_cli_explain *e, uint32_t limit);

void rn_cli_explain_put_rule(const struct rn_output *out, const struct rn_cli_explain *e,
                             const struct rn_cli_explain_match *found);
void rn_cli_explain_put_descriptor(const struct rn_output *out, const struct rn_cli_explain *e);
/* `session` is a struct rn_offline. */
void rn_cli_explain_json_descriptor(void *offline, struct rn_members *m);
/* The rule that the descriptor finds, if any. */
void rn_cli_explain_json_descriptor_rule(void *offline, struct rn_members *m);

#endif
