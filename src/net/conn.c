/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The life of a connection (drawn in net/conn_life.h): what to poll, when to close, and
 * the functions that a protocol may call. conn_input.c reads, conn_output.c writes,
 * conn_deadline.c times out.
 *
 * What a protocol calls only takes notes. rn_conn_settle acts on them when no callback of
 * the protocol is on the stack: after an event, or, for a connection that was touched from
 * elsewhere, before the loop sleeps.
 */
#include <assert.h>
#include <errno.h>
#include <linux/sockios.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net/conn_quota.h"
#include "net/log.h"
#include "net/tls_conn.h"

#define UNSENT_MAX_BYTES ((size_t)8 << 20)
#define RECORD_BYTES ((size_t)17 << 10) /* OpenSSL's buffer for an incomplete record */

static void touch(struct rn_conn *conn)
{
    if (conn->busy || conn->touched)
        return;
    conn->touched = true;
    conn->next_touched = conn->loop->touched;
    conn->loop->touched = conn;
}

static void untouch(struct rn_conn *conn)
{
    struct rn_conn **link = &conn->loop->touched;

    if (!conn->touched)
        return;
    while (*link != conn)
        link = &(*link)->next_touched;
    *link = conn->next_touched;
    conn->touched = false;
}

void rn_conn_enter(struct rn_conn *conn, enum rn_conn_life life)
{
    assert(rn_conn_life_allows(conn->life, life));
    conn->life = life;
}

void rn_conn_break(struct rn_conn *conn)
{
    if (conn->life < RN_LIFE_BROKEN)
        rn_conn_enter(conn, RN_LIFE_BROKEN);
}

static void begin_close(struct rn_conn *conn)
{
    if (conn->life < RN_LIFE_CLOSING)
        rn_conn_enter(conn, RN_LIFE_CLOSING);
}

static void call_closed(struct rn_conn *conn)
{
    if (!conn->known)
        return;
    conn->known = false;
    conn->busy = true; /* nothing that it calls has consequences */
    if (conn->protocol->closed)
        conn->protocol->closed(conn);
    conn->busy = false;
    if (conn->loop->writer == conn) {
        rn_buf_clear(&conn->loop->out);
        conn->loop->writer = NULL;
    }
}

static void free_conn(uv_handle_t *handle)
{
    free(handle->data);
}

void rn_conn_cut(struct rn_conn *conn)
{
    struct rn_loop *loop = conn->loop;

    untouch(conn);
    rn_timer_cancel(&loop->wheel, &conn->deadline);
    if (conn->refs > 0) { /* the last rn_conn_unref leads here again */
        rn_conn_break(conn);
        conn->events = 0;
        uv_poll_stop(&conn->poll);
        return;
    }
    call_closed(conn);
    rn_conn_enter(conn, RN_LIFE_CLOSED);
    untouch(conn);
    rn_tls_conn_free(conn->tls);
    rn_buf_done(&conn->in);
    rn_buf_done(&conn->waiting);
    *conn->link = conn->next;
    if (conn->next)
        conn->next->link = conn->link;
    if (!conn->outgoing) {
        rn_conn_quota_give_back(conn->listener->quota, &conn->peer);
        loop->accepted--;
    }
    rn_shed_count_input(conn, 0);
    rn_tally_add(&conn->tally->closed, 1);
    uv_close((uv_handle_t *)&conn->poll, free_conn);
    close(conn->fd);
    if (loop->draining && loop->accepted == 0)
        uv_stop(&loop->uv);
}

/* A pipeline may be longer than one read. */
bool rn_conn_has_input(const struct rn_conn *conn)
{
    int bytes = 0;

    return (!conn->busy && !conn->pending && conn->in.len > 0) ||
           (ioctl(conn->fd, FIONREAD, &bytes) == 0 && bytes > 0);
}

static bool is_idle(const struct rn_conn *conn)
{
    bool begun = conn->life == RN_LIFE_OPEN ? conn->in.len > 0 || conn->begun_ns != 0 : conn->heard;

    return conn->life < RN_LIFE_CLOSING && conn->input == RN_CONN_READING && !begun &&
           rn_conn_unsent(conn) == 0;
}

static bool is_over(const struct rn_conn *conn)
{
    bool sent = rn_conn_unsent(conn) == 0;

    return conn->life == RN_LIFE_BROKEN ||
           (conn->ended && (conn->input != RN_CONN_READING || sent)) ||
           (conn->life == RN_LIFE_CLOSING && sent && !conn->unread && !rn_conn_has_input(conn));
}

static void on_event(uv_poll_t *poll, int status, int events);

/* Does nothing if the events are those polled already. */
static void update_poll(struct rn_conn *conn)
{
    int events = rn_conn_unsent(conn) > 0 ? UV_WRITABLE : 0;

    if (conn->life == RN_LIFE_CONNECTING)
        events = UV_WRITABLE;
    else if (conn->life == RN_LIFE_LINGERING)
        events |= UV_READABLE;
    else if (conn->input == RN_CONN_PAUSED_WITH_INPUT)
        events |= UV_DISCONNECT;
    else if (conn->input == RN_CONN_PAUSED ||
             (conn->life < RN_LIFE_CLOSING && !conn->output_full && !conn->ended))
        events |= UV_READABLE | UV_DISCONNECT;
    if (events == conn->events)
        return;
    conn->events = (uint8_t)events;
    if (uv_poll_start(&conn->poll, events, on_event) != 0) {
        rn_conn_break(conn);
        touch(conn);
    }
}

/* Asks the protocol, once it knows the connection: it may still owe or expect something. */
static bool has_drained(struct rn_conn *conn)
{
    bool drained = true;

    if (conn->known && conn->protocol->drains) {
        conn->busy = true;
        drained = conn->protocol->drains(conn);
        conn->busy = false;
    }
    if (conn->loop->writer == conn)
        rn_conn_output_flush(conn);
    return drained;
}

/* Bytes of incomplete messages: in our buffer, the protocol's and OpenSSL's. */
static size_t count_unfinished(const struct rn_conn *conn)
{
    bool part_of_record =
        conn->tls && conn->life >= RN_LIFE_OPEN && conn->begun_ns != 0 && conn->in.len == 0;

    return conn->in.len + conn->buffered + (part_of_record ? RECORD_BYTES : 0);
}

/* Calls `before_sleep` if that was asked for, sends, and drains. */
static void finish_output(struct rn_conn *conn)
{
    if (conn->sleep_call && conn->life == RN_LIFE_OPEN) {
        conn->sleep_call = false;
        conn->busy = true;
        conn->protocol->before_sleep(conn);
        conn->busy = false;
    }
    if (conn->loop->writer == conn)
        rn_conn_output_flush(conn);
    if (conn->loop->draining && !conn->outgoing && is_idle(conn) && !rn_conn_has_input(conn) &&
        has_drained(conn) && conn->life < RN_LIFE_CLOSING)
        rn_conn_close_because(conn, RN_CONN_DRAINING);
    if (conn->tls && conn->life < RN_LIFE_BROKEN && rn_conn_unsent(conn) == 0 &&
        (conn->life >= RN_LIFE_CLOSING || (conn->ended && conn->input == RN_CONN_READING)))
        rn_tls_conn_shutdown(conn); /* no output will follow */
}

void rn_conn_settle(struct rn_conn *conn)
{
    if (!conn->pending && !conn->outgoing && count_unfinished(conn) != conn->counted)
        rn_shed_count_input(conn, count_unfinished(conn));
    finish_output(conn);
    if (is_over(conn)) {
        rn_conn_cut(conn);
        return;
    }
    if (rn_conn_unsent(conn) > UNSENT_MAX_BYTES) {
        rn_log(RN_LOG_WARN, "conn.overflow",
               RN_LOG_TEXT("listener", rn_slice_of(conn->listener->name)),
               RN_LOG_TEXT("peer", rn_slice_of(conn->peer.text)),
               RN_LOG_NUMBER("unsent", rn_conn_unsent(conn)));
        rn_conn_cut(conn);
        return;
    }
    if (conn->life == RN_LIFE_CLOSING && conn->refs == 0 && rn_conn_unsent(conn) == 0) {
        if (conn->outgoing) {
            rn_conn_cut(conn);
            return;
        }
        /* Closing a socket with unread input resets the connection, and the peer may lose the
         * last reply. So for a while input is read and thrown away. Not for outgoing
         * connections: after `closed` their dialler may be freed. */
        call_closed(conn);
        rn_conn_enter(conn, RN_LIFE_LINGERING);
        conn->progress_ns = conn->loop->wheel.now_ns;
        rn_buf_done(&conn->in);
        shutdown(conn->fd, SHUT_WR);
    }
    update_poll(conn);
    rn_conn_deadline_update(conn);
}

static void on_event(uv_poll_t *poll, int status, int events)
{
    struct rn_conn *conn = poll->data;

    rn_loop_update(conn->loop);
    if (status < 0)
        rn_conn_break(conn);
    if (conn->life == RN_LIFE_CONNECTING) {
        rn_dialler_connected(conn);
        rn_conn_settle(conn);
        return;
    }
    if (events & UV_WRITABLE) {
        bool was_full = conn->output_full;
        rn_conn_output_resume(conn);
        if (was_full)
            rn_conn_input_resume(conn);
    }
    if (events & (UV_READABLE | UV_DISCONNECT)) {
        if (conn->life == RN_LIFE_LINGERING) {
            ssize_t n = recv(conn->fd, conn->loop->input, RN_READ_BYTES, 0);

            if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
                rn_conn_break(conn);
        } else if (conn->input == RN_CONN_READING) {
            rn_conn_input_read(conn, events & UV_DISCONNECT);
        } else if (events & UV_DISCONNECT) {
            conn->ended = true;
        } else {
            conn->input = RN_CONN_PAUSED_WITH_INPUT;
        }
    }
    rn_conn_settle(conn);
}

void rn_conn_close_because(struct rn_conn *conn, enum rn_conn_close_reason why)
{
    if (conn->life == RN_LIFE_OPEN && conn->protocol->closing) {
        conn->busy = true;
        conn->protocol->closing(conn, why);
        conn->busy = false;
    }
    begin_close(conn);
    if (conn->loop->writer == conn)
        rn_conn_output_flush(conn);
}

struct rn_conn *rn_conn_new(struct rn_loop *loop, struct rn_listener *listener, int fd,
                            const struct rn_peer *peer, bool secure)
{
    const struct rn_protocol *protocol = listener->protocol;
    struct rn_conn *conn = calloc(1, sizeof *conn + protocol->state_bytes);

    if (!conn)
        return NULL;
    conn->poll.data = conn;
    conn->fd = fd;
    conn->protocol = protocol;
    conn->listener = listener;
    conn->tally = &listener->tallies[loop->index];
    conn->loop = loop;
    conn->peer = *peer;
    conn->outgoing = conn->known = !listener->quota;
    conn->life = conn->outgoing ? RN_LIFE_CONNECTING : RN_LIFE_HANDSHAKE;
    conn->active_ns = loop->wheel.now_ns;
    conn->deadline.fire = rn_conn_deadline_fire;
    if ((!secure || rn_tls_conn_new(conn)) && uv_poll_init(&loop->uv, &conn->poll, fd) == 0) {
        conn->next = loop->conns;
        conn->link = &loop->conns;
        if (conn->next)
            conn->next->link = &conn->next;
        loop->conns = conn;
        rn_tally_add(&conn->tally->opened, 1);
        return conn;
    }
    rn_tls_conn_free(conn->tls);
    free(conn);
    return NULL;
}

void rn_conn_open(struct rn_conn *conn)
{
    rn_conn_enter(conn, RN_LIFE_OPEN);
    conn->known = true;
    conn->active_ns = conn->loop->wheel.now_ns;
    if (conn->protocol->opened) {
        conn->busy = true;
        conn->protocol->opened(conn);
        conn->busy = false;
    }
}

void rn_conn_start(struct rn_acceptor *acceptor, int fd, const struct rn_peer *peer)
{
    bool secure = acceptor->listener->secure && acceptor->socket->is_tcp;
    struct rn_conn *conn = rn_conn_new(acceptor->loop, acceptor->listener, fd, peer, secure);

    if (!conn) {
        rn_conn_quota_give_back(acceptor->listener->quota, peer);
        close(fd);
        return;
    }
    acceptor->loop->accepted++;
    if (conn->tls)
        conn->begun_ns = conn->active_ns; /* start of the handshake */
    else
        rn_conn_open(conn);
    rn_conn_settle(conn);
}

void *rn_conn_state(struct rn_conn *conn)
{
    return conn->state;
}

void *rn_conn_context(const struct rn_conn *conn)
{
    return conn->listener->context;
}

struct rn_loop *rn_conn_loop(const struct rn_conn *conn)
{
    return conn->loop;
}

struct rn_wheel *rn_conn_wheel(const struct rn_conn *conn)
{
    return &conn->loop->wheel;
}

const struct rn_peer *rn_conn_peer(const struct rn_conn *conn)
{
    return &conn->peer;
}

bool rn_conn_is_tls(const struct rn_conn *conn)
{
    return conn->tls != NULL;
}

struct rn_buf *rn_conn_out(struct rn_conn *conn)
{
    struct rn_loop *loop = conn->loop;

    if (loop->writer != conn) {
        if (loop->writer) {
            struct rn_conn *other = loop->writer;
            rn_conn_output_flush(other);
            touch(other);
        }
        loop->writer = conn;
    }
    touch(conn);
    return &loop->out;
}

bool rn_conn_is_full(const struct rn_conn *conn)
{
    size_t fresh = conn->loop->writer == conn ? conn->loop->out.len : 0;

    return rn_conn_unsent(conn) + fresh > RN_CONN_FULL_BYTES;
}

size_t rn_conn_untaken(const struct rn_conn *conn)
{
    int bytes = 0;

    if (ioctl(conn->fd, SIOCOUTQ, &bytes) != 0 || bytes < 0)
        bytes = 0;
    return rn_conn_unsent(conn) + (size_t)bytes;
}

void rn_conn_set_buffered(struct rn_conn *conn, size_t bytes)
{
    conn->buffered = bytes;
    touch(conn);
}

void rn_conn_pause(struct rn_conn *conn)
{
    if (conn->input == RN_CONN_READING)
        conn->input = RN_CONN_PAUSED;
    touch(conn);
}

void rn_conn_resume(struct rn_conn *conn)
{
    if (conn->pending)
        return;
    conn->input = RN_CONN_READING;
    touch(conn);
    rn_conn_input_resume(conn);
}

void rn_conn_read_now(struct rn_conn *conn)
{
    if (conn->life == RN_LIFE_OPEN)
        rn_conn_input_read(conn, false);
    touch(conn);
}

void rn_conn_ref(struct rn_conn *conn)
{
    conn->refs++;
}

void rn_conn_unref(struct rn_conn *conn)
{
    conn->refs--;
    touch(conn);
}

void rn_conn_call_before_sleep(struct rn_conn *conn)
{
    conn->sleep_call = true;
    touch(conn);
}

void rn_conn_close(struct rn_conn *conn)
{
    conn->unread |= conn->input == RN_CONN_PAUSED_WITH_INPUT ||
                    (!conn->busy && !conn->pending && conn->in.len > 0);
    begin_close(conn);
    conn->input = RN_CONN_READING;
    touch(conn);
}

bool rn_conn_is_gone(const struct rn_conn *conn)
{
    return conn->life >= RN_LIFE_BROKEN;
}

bool rn_conn_draining(const struct rn_conn *conn)
{
    return conn->loop->draining;
}
