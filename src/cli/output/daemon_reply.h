/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints decisions and limits from a daemon's answer.
 */
#ifndef RN_CLI_OUTPUT_DAEMON_REPLY_H
#define RN_CLI_OUTPUT_DAEMON_REPLY_H

#include <ration/rules.h>

#include "cli/client/json.h"
#include "cli/output/output.h"

/* Converts a decision object back to an outcome. Texts and algorithms of the limits are not in it.
 * `status` is the HTTP status. */
void rn_daemon_reply_outcome(const struct rn_cli_json *decision, unsigned status,
                             struct ration_outcome *outcome);

/* Prints the limits of /v1/state and similar answers, with what is left of each, and the lines
 * where somebody waits. */
void rn_daemon_reply_limits(const struct rn_output *out, const struct rn_cli_json *first);

/* Prints how many may wait in line under a rule, on a line after `before`; nothing if nobody may.
 */
void rn_daemon_reply_queue(const struct rn_output *out, const char *before,
                           const struct rn_cli_json *rule);
/* Prints who waits for a limit, on a line after `before`; nothing if nobody does. */
void rn_daemon_reply_line(const struct rn_output *out, const char *before,
                          const struct rn_cli_json *limit);

/* Prints what a rule with `escalate` or `earn` keeps of a client, each on a line after `before`. */
void rn_daemon_reply_reputation(const struct rn_output *out, const char *before,
                                const struct rn_cli_json *of);

/* Prints an object of attributes: `ip "192.0.2.7", user "ada"`. */
void rn_daemon_reply_attributes(const struct rn_output *out, const struct rn_cli_json *attributes);
/* The same as a table cell: ip=192.0.2.7 user=ada. */
struct rn_columns;
void rn_daemon_reply_pairs(struct rn_columns *columns, const struct rn_cli_json *attributes);

#endif
