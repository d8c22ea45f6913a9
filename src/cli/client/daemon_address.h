/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a daemon listens: `host:port`, `:port` (this machine), `[::1]:port`, `unix:PATH`, or
 * with a scheme: `https://host:port`.
 */
#ifndef RN_CLI_CLIENT_DAEMON_ADDRESS_H
#define RN_CLI_CLIENT_DAEMON_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>

#define RN_DAEMON_ADDRESS_TEXT 160

enum rn_daemon_address_protocol {
    RN_DAEMON_ADDRESS_ANY,
    RN_DAEMON_ADDRESS_HTTP,
    RN_DAEMON_ADDRESS_RESP
};

struct rn_daemon_address {
    char text[RN_DAEMON_ADDRESS_TEXT]; /* as given, without a scheme; 127.0.0.1:port for :port */
    char host[RN_DAEMON_ADDRESS_TEXT]; /* host without brackets; empty: a unix socket */
    enum rn_daemon_address_protocol protocol;
    bool tls; /* https or rediss */
    struct sockaddr_storage socket;
    socklen_t len;
};

/* Resolves names. False: `problem` says what was found and what would be right. */
#define RN_DAEMON_ADDRESS_PROBLEM 320
bool rn_daemon_address_parse(const char *text, struct rn_daemon_address *address,
                             char problem[RN_DAEMON_ADDRESS_PROBLEM]);

/* Whether it is on this machine: loopback or a unix socket. */
bool rn_daemon_address_is_local(const struct rn_daemon_address *address);

#endif
