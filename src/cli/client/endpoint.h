/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a daemon is reached: its address, and for TLS whom to believe there.
 */
#ifndef RN_CLI_CLIENT_ENDPOINT_H
#define RN_CLI_CLIENT_ENDPOINT_H

#include "cli/client/daemon_address.h"
#include "cli/client/tls_connection.h"
#include "cli/options.h"

struct rn_reach {
    struct rn_daemon_address address;
    struct rn_trust *trust; /* NULL: in plain */
};

/* From the text of an address, which `source` gave (--admin), and the options. False after
 * saying on stderr what is wrong. rn_reach_done in any case. */
bool rn_reach_init(struct rn_reach *reach, const struct rn_options *options, const char *source,
                   const char *text, enum rn_daemon_address_speech speech);
void rn_reach_done(struct rn_reach *reach);

/* A connection, waited for, and so is the handshake of TLS. False: `problem` tells why not. */
#define RN_REACH_PROBLEM 640
bool rn_reach_connect(const struct rn_reach *reach, struct rn_line *line,
                      char problem[RN_REACH_PROBLEM]);

/* A variable of the environment; NULL if it is not set, or empty. */
const char *rn_reach_environment(const char *name);

#endif
