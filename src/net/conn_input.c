/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Input. Bytes are read into the loop's buffer, where the protocol gets them. What it does
 * not consume is kept with the connection until more arrives.
 */
#include <assert.h>
#include <errno.h>
#include <sys/socket.h>

#include "net/server_internal.h"
#include "net/tls_conn.h"

/* Reads in a row from one connection that always has more. */
#define ROUNDS 4

static bool wants_input(const struct rn_conn *conn)
{
    return conn->input == RN_CONN_READING && !conn->output_full && conn->life < RN_LIFE_CLOSING;
}

/* Keeps what the protocol did not consume of `data`. */
static inline void keep_rest(struct rn_conn *conn, const char *data, size_t len, size_t used)
{
    if (used == len || conn->life >= RN_LIFE_CLOSING) {
        conn->unread |= used < len;
        conn->begun_ns = 0;
        if (conn->in.data)
            rn_buf_done(&conn->in);
        return;
    }
    if (used > 0 || conn->begun_ns == 0)
        conn->begun_ns = conn->loop->wheel.now_ns;
    if (data == conn->in.data)
        rn_buf_drop(&conn->in, used);
    else
        rn_buf_put(&conn->in, data + used, len - used);
    if (conn->in.failed)
        rn_conn_break(conn);
}

static void leave_rest(struct rn_conn *conn, const char *data, size_t len, size_t used)
{
    keep_rest(conn, data, len, used);
    if (conn->in.len > 0 && conn->in.len >= conn->protocol->message_max && wants_input(conn)) {
        conn->unread = true;
        rn_tally_add(&conn->tally->too_long, 1);
        rn_conn_close_because(conn, RN_CONN_TOO_LONG);
    }
}

/* Calls the protocol; again if it stopped only because its output was full, and the
 * output could then be sent. */
static void feed(struct rn_conn *conn, char *data, size_t len)
{
    size_t used = 0, now;
    bool was_full;

    do {
        conn->busy = true;
        now = conn->protocol->received(conn, data + used, len - used);
        conn->busy = false;
        if (now == RN_CONN_PENDING) {
            conn->pending = true;
            conn->pending_used = used;
            return;
        }
        assert(now <= len - used);
        used += now;
        was_full = rn_conn_is_full(conn);
        if (conn->loop->writer == conn)
            rn_conn_output_flush(conn);
    } while (was_full && now > 0 && used < len && wants_input(conn));
    leave_rest(conn, data, len, used);
}

void rn_conn_consumed(struct rn_conn *conn, size_t used)
{
    conn->pending = false;
    leave_rest(conn, conn->in.data, conn->in.len, conn->pending_used + used);
}

void rn_conn_input_resume(struct rn_conn *conn)
{
    if (conn->in.len == 0 || conn->busy || conn->pending || !wants_input(conn))
        return;
    conn->begun_ns = conn->loop->wheel.now_ns; /* the pause was not the peer's fault */
    feed(conn, conn->in.data, conn->in.len);
}

static void feed_more(struct rn_conn *conn, char *data, size_t len)
{
    conn->active_ns = conn->loop->wheel.now_ns;
    if (conn->in.len == 0 && (conn->outgoing || !conn->loop->server->options.may_pend)) {
        feed(conn, data, len);
        return;
    }
    rn_buf_put(&conn->in, data, len);
    if (conn->in.failed)
        rn_conn_break(conn);
    else
        feed(conn, conn->in.data, conn->in.len);
}

void rn_conn_input_read(struct rn_conn *conn, bool ended)
{
    char *input = conn->loop->input;

    for (int round = 0; round < ROUNDS && wants_input(conn); round++) {
        ssize_t n = recv(conn->fd, input, RN_READ_BYTES, 0);
        if (n <= 0) {
            conn->ended |= n == 0;
            if (n < 0 && errno != EAGAIN && errno != EINTR)
                rn_conn_break(conn);
            return;
        }
        rn_tally_add(&conn->tally->bytes_in, (uint64_t)n);
        conn->heard = true;
        if (conn->tls) {
            size_t got = rn_tls_conn_decrypt(conn, input, (size_t)n);

            if (got > 0 && wants_input(conn))
                feed_more(conn, conn->loop->decrypted, got);
            else if (got > 0)
                keep_rest(conn, conn->loop->decrypted, got, 0);
            rn_tls_conn_note_partial_record(conn);
        } else {
            feed_more(conn, input, (size_t)n);
        }
        if ((size_t)n < RN_READ_BYTES && !ended)
            return;
    }
}
