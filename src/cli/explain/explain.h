/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ration explain`: explain.c gets the JSON that POST /v1/explain answers, from rules files or
 * from a daemon, and prints it for people; descriptor.c explains Envoy's descriptors.
 */
#ifndef RN_CLI_EXPLAIN_EXPLAIN_H
#define RN_CLI_EXPLAIN_EXPLAIN_H

#include "cli/client/json.h"
#include "cli/offline.h"
#include "cli/output/output.h"
#include "wire/explanation.h"

/* The path of the descriptor on the command line through Envoy's rules: for people, and as JSON.
 * `outcome` is that of a decision that counts nothing. */
void rn_cli_explain_put_descriptor(const struct rn_output *out, const struct rn_offline *offline,
                                   const struct ration_outcome *outcome);
void rn_cli_explain_json_descriptor(void *offline, struct rn_members *m);
/* The rule that it matches, if any. */
void rn_cli_explain_json_descriptor_rule(void *offline, struct rn_members *m);

#endif
