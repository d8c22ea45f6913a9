/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connected socket, with TLS over it or in plain text. Never waits.
 */
#ifndef RN_CLI_CLIENT_STREAM_H
#define RN_CLI_CLIENT_STREAM_H

#include <sys/socket.h>
#include <unistd.h>

#include "cli/client/tls.h"

struct rn_stream {
    int fd;                 /* -1: none */
    struct rn_cli_tls *tls; /* NULL: plain text */
};

static inline ssize_t rn_stream_send(const struct rn_stream *stream, const void *data, size_t len)
{
    return stream->tls != NULL ? rn_cli_tls_send(stream->tls, data, len)
                               : send(stream->fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static inline ssize_t rn_stream_receive(const struct rn_stream *stream, void *data, size_t size)
{
    return stream->tls != NULL ? rn_cli_tls_receive(stream->tls, data, size)
                               : recv(stream->fd, data, size, MSG_DONTWAIT);
}

/* What to poll for after EAGAIN; `plain` is the answer without TLS. */
static inline short rn_stream_wants(const struct rn_stream *stream, short plain)
{
    return stream->tls != NULL ? stream->tls->wants : plain;
}

/* Whether the bytes are a TLS alert, the reply of a TLS server to plain text: content type 21,
 * version 3 (RFC 8446, 5.1). */
static inline bool rn_stream_is_alert(const char *data, size_t len)
{
    return len >= 2 && data[0] == 21 && data[1] == 3;
}

static inline void rn_stream_close(struct rn_stream *stream)
{
    rn_cli_tls_free(stream->tls);
    stream->tls = NULL;
    if (stream->fd >= 0)
        close(stream->fd);
    stream->fd = -1;
}

#endif
