/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The address of a daemon, and its TLS configuration.
 */
#ifndef RN_CLI_CLIENT_ENDPOINT_H
#define RN_CLI_CLIENT_ENDPOINT_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "cli/client/stream.h"
#include "cli/options.h"

#define RN_ENDPOINT_TEXT 160

enum rn_endpoint_protocol { RN_ENDPOINT_ANY, RN_ENDPOINT_HTTP, RN_ENDPOINT_RESP };

/* Where a daemon listens: `host:port`, `:port` (this machine), `[::1]:port`, `unix:PATH`, or
 * with a scheme: `https://host:port`. */
struct rn_endpoint_address {
    char text[RN_ENDPOINT_TEXT]; /* as given, without a scheme; 127.0.0.1:port for :port */
    char host[RN_ENDPOINT_TEXT]; /* host without brackets; empty: a unix socket */
    enum rn_endpoint_protocol protocol;
    bool tls; /* https or rediss */
    struct sockaddr_storage socket;
    socklen_t len;
};

struct rn_endpoint {
    struct rn_endpoint_address address;
    struct rn_cli_tls_config *tls_config; /* NULL: plain text */
};

/* Parses an address that `source` (such as --admin) gave, and resolves its name. False after an
 * error message on stderr. Call rn_endpoint_done in any case. */
bool rn_endpoint_init(struct rn_endpoint *endpoint, const struct rn_options *options,
                      const char *source, const char *text, enum rn_endpoint_protocol protocol);
void rn_endpoint_done(struct rn_endpoint *endpoint);
/* Whether it is on this machine: loopback or a unix socket. */
bool rn_endpoint_is_local(const struct rn_endpoint *endpoint);

#define RN_ENDPOINT_PROBLEM 640

/* How long to wait. */
struct rn_endpoint_deadline {
    int64_t ns;         /* of the monotonic clock */
    int wake_fd;        /* -1, or ends a wait early when it becomes readable */
    const char *advice; /* if it passes */
};

/* Connects, and does the TLS handshake if the address asks for it. False: `problem` says why not;
 * *unreachable: because no server listens there. */
bool rn_endpoint_connect(const struct rn_endpoint *endpoint, struct rn_stream *stream,
                         const struct rn_endpoint_deadline *until,
                         char problem[RN_ENDPOINT_PROBLEM], bool *unreachable);
/* Waits until the socket is ready for `events`. False: `problem` says why not. */
bool rn_endpoint_wait(const struct rn_endpoint *endpoint, const struct rn_stream *stream,
                      short events, const struct rn_endpoint_deadline *until,
                      char problem[RN_ENDPOINT_PROBLEM]);
/* After a failed call: writes the problem by errno. Returns false. */
bool rn_endpoint_fail(const struct rn_endpoint *endpoint, const struct rn_stream *stream,
                      char problem[RN_ENDPOINT_PROBLEM]);

/* An environment variable; NULL if it is unset or empty. */
const char *rn_endpoint_environment(const char *name);

#endif
