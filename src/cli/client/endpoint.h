/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The address of a daemon, and its TLS configuration.
 */
#ifndef RN_CLI_CLIENT_ENDPOINT_H
#define RN_CLI_CLIENT_ENDPOINT_H

#include "cli/client/daemon_address.h"
#include "cli/client/stream.h"
#include "cli/options.h"

struct rn_endpoint {
    struct rn_daemon_address address;
    struct rn_cli_tls_config *tls_config; /* NULL: plain text */
};

/* Parses an address that `source` (such as --admin) gave. False after an error message on stderr.
 * Call rn_endpoint_done in any case. */
bool rn_endpoint_init(struct rn_endpoint *endpoint, const struct rn_options *options,
                      const char *source, const char *text,
                      enum rn_daemon_address_protocol protocol);
void rn_endpoint_done(struct rn_endpoint *endpoint);

/* Connects, and waits for that and for the TLS handshake. False: `problem` says why not. */
#define RN_ENDPOINT_PROBLEM 640
bool rn_endpoint_connect(const struct rn_endpoint *endpoint, struct rn_stream *stream,
                         char problem[RN_ENDPOINT_PROBLEM]);

/* An environment variable; NULL if it is unset or empty. */
const char *rn_endpoint_environment(const char *name);

#endif
