/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TLS around a socket, which stays the caller's. Never waits: what cannot be done
 * yet is EAGAIN, and rn_tunnel_wants tells what to poll for. One thread at a time.
 */
#ifndef RN_CLI_CLIENT_TLS_CONNECTION_H
#define RN_CLI_CLIENT_TLS_CONNECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

#include "cli/client/tls_config.h"

struct rn_tunnel;

/* Through a socket that is connected, to `host`: the name or address that the server's
 * certificate must be for. Borrows both for good. NULL: out of memory. */
struct rn_tunnel *rn_tunnel_new(const struct rn_trust *trust, int fd, const char *host);
/* Tells the other side, if that can be done at once. NULL is fine. */
void rn_tunnel_free(struct rn_tunnel *tunnel);

/* The handshake: 0 when it is done; -1 with errno EAGAIN, or EPROTO. */
int rn_tunnel_begin(struct rn_tunnel *tunnel);
/* As send() and recv(); or -1 with errno EPROTO. */
ssize_t rn_tunnel_send(struct rn_tunnel *tunnel, const void *data, size_t len);
ssize_t rn_tunnel_receive(struct rn_tunnel *tunnel, void *data, size_t size);

/* After EAGAIN: POLLIN or POLLOUT. */
short rn_tunnel_wants(const struct rn_tunnel *tunnel);
/* Whether something has arrived of which a poll knows nothing any more. */
bool rn_tunnel_has_more(const struct rn_tunnel *tunnel);

/* After EPROTO: what is wrong with the other side, as "its certificate has expired", and what
 * may help. */
const char *rn_tunnel_problem(const struct rn_tunnel *tunnel);

/* --- a socket with TLS around it or without -------------------------------------------- */

struct rn_line {
    int fd;                   /* -1: none */
    struct rn_tunnel *tunnel; /* NULL: in plain */
};

static inline ssize_t rn_line_send(const struct rn_line *line, const void *data, size_t len)
{
    return line->tunnel != NULL ? rn_tunnel_send(line->tunnel, data, len)
                                : send(line->fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static inline ssize_t rn_line_receive(const struct rn_line *line, void *data, size_t size)
{
    return line->tunnel != NULL ? rn_tunnel_receive(line->tunnel, data, size)
                                : recv(line->fd, data, size, MSG_DONTWAIT);
}

/* What to poll for after EAGAIN. */
static inline short rn_line_wants(const struct rn_line *line, short in_plain)
{
    return line->tunnel != NULL ? rn_tunnel_wants(line->tunnel) : in_plain;
}

/* Whether it is what a server that speaks TLS says to somebody who does not: an alert, 21, of
 * version 3 (RFC 8446, 5.1). */
static inline bool rn_line_is_alert(const char *data, size_t len)
{
    return len >= 2 && data[0] == 21 && data[1] == 3;
}

static inline void rn_line_close(struct rn_line *line)
{
    rn_tunnel_free(line->tunnel);
    line->tunnel = NULL;
    if (line->fd >= 0)
        close(line->fd);
    line->fd = -1;
}

#endif
