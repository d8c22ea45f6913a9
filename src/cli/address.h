/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a daemon listens: `host:port`, `:port` (this machine), `[::1]:port`,
 * `unix:PATH`.
 */
#ifndef RN_CLI_ADDRESS_H
#define RN_CLI_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>
#include <sys/un.h>

#define RN_ADDRESS_TEXT 160

struct rn_address {
    char text[RN_ADDRESS_TEXT]; /* as given; 127.0.0.1:port for :port */
    struct sockaddr_storage socket;
    socklen_t len;
};

/* Looks names up. False: `problem` says what was found and what would be right. */
#define RN_ADDRESS_PROBLEM 320
bool rn_address_parse(const char *text, struct rn_address *address,
                      char problem[RN_ADDRESS_PROBLEM]);

/* On this machine: loopback or a unix socket. */
bool rn_address_is_local(const struct rn_address *address);

#endif
