/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a daemon is reached: its address, and for TLS whom to believe there.
 */
#ifndef RN_CLI_CLIENT_ENDPOINT_H
#define RN_CLI_CLIENT_ENDPOINT_H

#include "cli/client/daemon_address.h"
#include "cli/client/stream.h"
#include "cli/options.h"

struct rn_endpoint {
    struct rn_daemon_address address;
    struct rn_cli_tls_config *tls_config; /* NULL: in plain */
};

/* From the text of an address, which `source` gave (--admin), and the options. False after
 * saying on stderr what is wrong. rn_endpoint_done in any case. */
bool rn_endpoint_init(struct rn_endpoint *endpoint, const struct rn_options *options,
                      const char *source, const char *text,
                      enum rn_daemon_address_protocol protocol);
void rn_endpoint_done(struct rn_endpoint *endpoint);

/* A connection, waited for, and so is the handshake of TLS. False: `problem` tells why not. */
#define RN_ENDPOINT_PROBLEM 640
bool rn_endpoint_connect(const struct rn_endpoint *endpoint, struct rn_stream *stream,
                         char problem[RN_ENDPOINT_PROBLEM]);

/* A variable of the environment; NULL if it is not set, or empty. */
const char *rn_endpoint_environment(const char *name);

#endif
