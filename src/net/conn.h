/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection, as a protocol sees it: bytes come in, bytes go out, in the one
 * thread that owns it. The protocol is told when something happens; net does
 * the reading, buffering, flushing, timing out and closing.
 *
 * An idle connection owns no buffers: bytes are read into the worker's, and
 * only what a protocol has not consumed is copied and kept. With TLS, a protocol
 * sees what was inside and hears of the connection when the handshake is done.
 */
#ifndef RN_NET_CONN_H
#define RN_NET_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/ip.h"
#include "net/wheel.h"

struct rn_conn;
struct rn_loop;

enum rn_conn_limit {
    RN_CONN_TOO_LONG, /* message_max bytes and no end */
    RN_CONN_TOO_SLOW, /* message_ns since its first byte and no end */
    RN_CONN_IDLE,     /* idle_ns and no message begun: usually closed without a word */
    RN_CONN_DRAINING, /* the server stops; no message is begun */
    RN_CONN_CROWDED,  /* others need the place, and nothing has happened here for longest */
    RN_CONN_SWAMPED,  /* input_max of the server is exceeded, and this message is a large one */
};

struct rn_protocol {
    const char *name;   /* in log lines and metrics: "http" */
    const char *alpn;   /* told to TLS clients that ask: "http/1.1"; may be NULL */
    size_t state_bytes; /* memory of each connection, zeroed, at rn_conn_state */
    int64_t idle_ns;    /* 0: may be silent for ever */
    int64_t message_ns; /* from a message's first byte to its end; 0: any time.
                           Also for a TLS handshake (0: 10 s) */
    int64_t stall_ns;   /* output waits and the peer takes nothing; 0: 30 s */
    size_t message_max; /* bytes that are kept of messages not consumed */
    void (*opened)(struct rn_conn *conn); /* with TLS after the handshake; may be NULL */

    /* Bytes have arrived: all that is not consumed yet, in one piece, valid during
     * the call, to be changed at will. Returns how many are done with. Bytes of a
     * message that is not complete are left: that is how its beginning, and with it
     * message_ns and message_max, are known. Called again when more has arrived,
     * and after rn_conn_go_on. Not called while the connection is held, or has more
     * output waiting than the peer reads.
     *
     * RN_CONN_LATER: it has begun and will tell by rn_conn_received how many are done
     * with. Until then the bytes stay where they are, and the connection is to be held
     * and kept. Only where the server's options say that protocols wait. */
    size_t (*received)(struct rn_conn *conn, char *data, size_t len);

    /* The server stops, and all that has arrived is consumed: whether the connection
     * may be closed. If not, it is asked again whenever something has happened. May
     * be NULL: it may. */
    bool (*drains)(struct rn_conn *conn);

    /* Nothing is owed to the peer, so the connection may be closed when there are too many. For
     * protocols that answer outside of `received`. May be NULL: that is always so. */
    bool (*quiet)(struct rn_conn *conn);

    /* The connection is about to be closed for this reason: last words may go to
     * rn_conn_out. May be NULL. */
    void (*limited)(struct rn_conn *conn, enum rn_conn_limit why);

    /* The last call: closed by either side. Timers in the state must be
     * cancelled. May be NULL. Of a connection that we began (net/dial.h) also the
     * only call, if it could not be made. */
    void (*closed)(struct rn_conn *conn);

    /* After rn_conn_call_later, once: before the loop sleeps, when all that has
     * happened in this round has been heard of. NULL: never asked for. */
    void (*later)(struct rn_conn *conn);
};

/* state_bytes of the protocol, aligned to 16. */
void *rn_conn_state(struct rn_conn *conn);
/* What was given with the listener. */
void *rn_conn_context(const struct rn_conn *conn);
struct rn_loop *rn_conn_loop(const struct rn_conn *conn);
struct rn_wheel *rn_conn_wheel(const struct rn_conn *conn);

struct rn_peer {
    bool local;      /* loopback or a unix socket */
    struct rn_ip ip; /* bits 0: a unix socket */
    uint16_t port;
    char text[64]; /* "192.0.2.7:5123", "[::1]:80", "unix" */

    /* The names in a verified client certificate, "CN:alice,DNS:alice.example", with
     * \xHH for what is not plain and for commas in names. NULL: there is none. */
    const char *certificate;
};
const struct rn_peer *rn_conn_peer(const struct rn_conn *conn);

/* Where to append what is to be sent. It goes out in one write when `received`
 * (or a timer) has returned. Valid until this thread calls anything else of
 * another connection. */
struct rn_buf *rn_conn_out(struct rn_conn *conn);

/* More output waits than a peer should leave unread: `received` may return early,
 * having consumed what it has answered, and is called again when there is room. A
 * protocol with answers much longer than requests asks after each. */
#define RN_CONN_FULL_BYTES ((size_t)256 << 10)
bool rn_conn_is_full(const struct rn_conn *conn);

/* Bytes of messages that are not complete and that the protocol keeps itself: they count
 * towards input_max of the server as those do that it leaves. Replaces what was said before. */
void rn_conn_keeps(struct rn_conn *conn, size_t bytes);

/* Until rn_conn_go_on, `received` is not called. An end of the connection is
 * still noticed. */
void rn_conn_hold(struct rn_conn *conn);
/* Calls `received` if something waits; not from within `received`. Nothing while that has
 * yet to tell what it was asked last. */
void rn_conn_go_on(struct rn_conn *conn);

#define RN_CONN_LATER SIZE_MAX
/* What `received` would have returned. rn_conn_go_on may follow. */
void rn_conn_received(struct rn_conn *conn, size_t used);

/* As long as it is kept, the connection and its state stay, and `closed` is not called;
 * if it ends meanwhile, it does so when it is let go as often as it was kept. */
void rn_conn_keep(struct rn_conn *conn);
void rn_conn_let_go(struct rn_conn *conn);

/* Calls `received` with what has arrived by now, rather than in the next round; not from
 * within a callback of this connection. */
void rn_conn_hear(struct rn_conn *conn);

/* Has the protocol's `later` called at the end of this round: how output for many
 * is collected into one write. */
void rn_conn_call_later(struct rn_conn *conn);

/* As soon as what is in rn_conn_out has been sent; `received` is not called any more. */
void rn_conn_close(struct rn_conn *conn);

/* The server stops: the peer is to be asked to go as soon as it has been answered.
 * What it sent before still counts, see rn_conn_has_input. */
bool rn_conn_draining(const struct rn_conn *conn);
/* More has arrived than `received` has been given. Costs a system call. */
bool rn_conn_has_input(const struct rn_conn *conn);

#endif
