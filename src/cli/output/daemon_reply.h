/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the daemon tells of decisions and limits, as people read it.
 */
#ifndef RN_CLI_OUTPUT_DAEMON_REPLY_H
#define RN_CLI_OUTPUT_DAEMON_REPLY_H

#include <ration/rules.h>

#include "cli/client/json.h"
#include "cli/output/output.h"

/* A decision object as the outcome it was made of, as far as it tells: texts and
 * algorithms of the limits are not in it. `status` is the one it came with. */
void rn_daemon_reply_outcome(const struct rn_cli_json *decision, unsigned status,
                             struct ration_outcome *outcome);

/* Limits of /v1/state and the like: what is left of each. */
void rn_daemon_reply_limits(const struct rn_output *out, const struct rn_cli_json *first);

/* `ip "192.0.2.7", user "ada"`, of an object of attributes. */
void rn_daemon_reply_attributes(const struct rn_output *out, const struct rn_cli_json *attributes);
/* The same as a cell: ip=192.0.2.7 user=ada. */
struct rn_columns;
void rn_daemon_reply_pairs(struct rn_columns *columns, const struct rn_cli_json *attributes);

#endif
