/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Output. What a protocol appends lies in the loop's buffer and usually goes out
 * in one write; only what the peer does not take at once is copied and kept.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "net/tls_conn.h"

#define RESUME_BYTES ((size_t)64 << 10)
#define OUT_KEPT_BYTES ((size_t)1 << 20) /* a larger buffer of the loop is given back */

/* How much the peer took. */
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

static void keep(struct rn_conn *conn, const char *data, size_t len)
{
    if (conn->waiting.len == 0)
        conn->progress_ns = conn->loop->wheel.now_ns;
    if (conn->sent > conn->waiting.len / 2) {
        rn_buf_drop(&conn->waiting, conn->sent);
        conn->sent = 0;
    }
    rn_buf_put(&conn->waiting, data, len);
    if (conn->waiting.failed)
        rn_conn_break(conn);
}

static void drop_output(struct rn_buf *out)
{
    rn_buf_clear(out);
    if (out->size > OUT_KEPT_BYTES)
        rn_buf_done(out);
}

static void pass_on(struct rn_conn *conn, struct rn_buf *out)
{
    size_t taken = 0;

    if (out->failed)
        rn_conn_break(conn);
    if (out->len > 0 && conn->life < RN_LIFE_BROKEN && conn->waiting.len == 0)
        taken = send_some(conn, out->data, out->len);
    if (taken < out->len && conn->life < RN_LIFE_BROKEN)
        keep(conn, out->data + taken, out->len - taken);
    if (rn_conn_unsent(conn) > RN_CONN_FULL_BYTES)
        conn->output_full = true;
    drop_output(out);
}

void rn_conn_output_flush(struct rn_conn *conn)
{
    conn->loop->writer = NULL;
    if (conn->tls)
        rn_tls_conn_encrypt(conn);
    pass_on(conn, &conn->loop->out);
}

void rn_conn_output_flush_tls(struct rn_conn *conn)
{
    pass_on(conn, &conn->loop->tls_records);
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
