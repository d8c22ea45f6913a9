/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Output. Protocols append to the loop's buffer, which usually goes out in one write. Only
 * what the socket does not take at once is copied and kept with the connection.
 */
#include <errno.h>
#include <sys/socket.h>

#include "net/tls_conn.h"

#define RESUME_BYTES ((size_t)64 << 10)
#define OUT_KEPT_BYTES ((size_t)1 << 20) /* the loop frees a larger buffer */

/* Returns how much the socket took. */
static size_t send_some(struct rn_conn *conn, const char *data, size_t len)
{
    ssize_t n = send(conn->fd, data, len, MSG_NOSIGNAL);

    if (n < 0) {
        if (errno != EAGAIN && errno != EINTR)
            rn_conn_break(conn);
        return 0;
    }
    conn->active_ns = conn->progress_ns = conn->loop->wheel.now_ns;
    rn_tally_add(&conn->tally->bytes_out, (uint64_t)n);
    return (size_t)n;
}

/* Sends `out`, keeps what the socket does not take, and empties `out`. */
static void send_all(struct rn_conn *conn, struct rn_buf *out)
{
    size_t taken = 0;

    if (out->failed)
        rn_conn_break(conn);
    if (out->len > 0 && conn->life < RN_LIFE_BROKEN && conn->waiting.len == 0)
        taken = send_some(conn, out->data, out->len);
    if (taken < out->len && conn->life < RN_LIFE_BROKEN) {
        if (conn->waiting.len == 0)
            conn->progress_ns = conn->loop->wheel.now_ns;
        if (conn->sent > conn->waiting.len / 2) {
            rn_buf_drop(&conn->waiting, conn->sent);
            conn->sent = 0;
        }
        rn_buf_put(&conn->waiting, out->data + taken, out->len - taken);
        if (conn->waiting.failed)
            rn_conn_break(conn);
    }
    if (rn_conn_unsent(conn) > RN_CONN_FULL_BYTES)
        conn->output_full = true;
    rn_buf_clear(out);
    if (out->size > OUT_KEPT_BYTES)
        rn_buf_done(out);
}

void rn_conn_output_flush(struct rn_conn *conn)
{
    conn->loop->writer = NULL;
    if (conn->tls)
        rn_tls_conn_encrypt(conn);
    send_all(conn, &conn->loop->out);
}

void rn_conn_output_flush_tls(struct rn_conn *conn)
{
    send_all(conn, &conn->loop->tls_records);
}

void rn_conn_output_resume(struct rn_conn *conn)
{
    if (rn_conn_unsent(conn) == 0 || conn->life >= RN_LIFE_BROKEN)
        return;
    conn->sent += send_some(conn, conn->waiting.data + conn->sent, rn_conn_unsent(conn));
    if (rn_conn_unsent(conn) == 0) {
        rn_buf_done(&conn->waiting);
        conn->sent = 0;
    }
    if (rn_conn_unsent(conn) <= RESUME_BYTES)
        conn->output_full = false;
}
