/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A dialler contains a listener without sockets, for the name, protocol, context and
 * counters of its connections.
 */
#include "net/dialler.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "net/tls_conn.h"

struct rn_dialler {
    struct rn_listener listener;
    struct rn_loop *loop;
    struct rn_tls *tls; /* NULL: no TLS */
    char *server;
};

struct rn_dialler *rn_dialler_new(struct rn_loop *loop, const char *name,
                                  const struct rn_protocol *protocol, void *context)
{
    struct rn_dialler *dialler = calloc(1, sizeof *dialler);
    size_t bytes = (loop->index + 1) * sizeof *dialler->listener.tallies;

    if (!dialler)
        return NULL;
    dialler->loop = loop;
    dialler->listener.protocol = protocol;
    dialler->listener.context = context;
    dialler->listener.name = strdup(name);
    dialler->listener.tallies = aligned_alloc(64, bytes);
    if (!dialler->listener.name || !dialler->listener.tallies) {
        rn_dialler_free(dialler);
        return NULL;
    }
    memset(dialler->listener.tallies, 0, bytes);
    return dialler;
}

void rn_dialler_free(struct rn_dialler *dialler)
{
    if (!dialler)
        return;
    rn_tls_unref(dialler->tls);
    free(dialler->server);
    rn_listener_done(&dialler->listener);
    free(dialler);
}

bool rn_dialler_use_tls(struct rn_dialler *dialler, struct rn_tls *tls, const char *server)
{
    char *copy = strdup(server);

    if (!copy)
        return false;
    free(dialler->server);
    dialler->server = copy;
    rn_tls_unref(dialler->tls);
    dialler->tls = rn_tls_ref(tls);
    return true;
}

struct rn_conn *rn_dialler_connect(struct rn_dialler *dialler, const struct rn_address *to)
{
    int fd = socket(to->to.any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1;
    struct rn_peer peer;

    if (fd < 0)
        return NULL;
    if (to->to.any.sa_family != AF_UNIX)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(fd, &to->to.any, to->len) != 0 && errno != EINPROGRESS) {
        int code = errno;

        close(fd);
        errno = code;
        return NULL;
    }
    rn_address_peer(to, &peer);
    struct rn_conn *conn = rn_conn_new(dialler->loop, &dialler->listener, fd, &peer, false);
    if (!conn) {
        close(fd);
        errno = ENOMEM;
        return NULL;
    }
    conn->begun_ns = conn->active_ns; /* start of connecting */
    if (dialler->tls && !rn_tls_conn_new_client(conn, dialler->tls, dialler->server))
        rn_conn_close(conn);
    else
        rn_conn_settle(conn);
    return conn;
}

void rn_dialler_connected(struct rn_conn *conn)
{
    int code = 0;
    socklen_t len = sizeof code;

    if (getsockopt(conn->fd, SOL_SOCKET, SO_ERROR, &code, &len) != 0 || code != 0) {
        rn_conn_break(conn);
        return;
    }
    if (conn->tls) {
        rn_conn_enter(conn, RN_LIFE_HANDSHAKE);
        rn_tls_conn_begin_handshake(conn);
        return;
    }
    conn->begun_ns = 0;
    rn_conn_open(conn);
}

void rn_dialler_close(struct rn_conn *conn)
{
    if (conn->loop->writer == conn)
        rn_conn_output_flush(conn);
    rn_conn_cut(conn);
}
