/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A connection as a protocol sees it: bytes come in and go out, all in the one
 * thread that owns the connection. net reads, buffers, writes, times out and
 * closes; it calls the protocol's callbacks.
 *
 * An idle connection owns no buffers: bytes are read into a buffer of the worker,
 * and only what the protocol does not consume is copied. With TLS the protocol sees
 * decrypted bytes, and learns of the connection after the handshake.
 */
#ifndef RN_NET_CONN_H
#define RN_NET_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/ip.h"
#include "net/timer.h"

struct rn_conn;
struct rn_loop;

/* Why net closes a connection. */
enum rn_conn_close_reason {
    RN_CONN_TOO_LONG, /* message_max bytes without the end of the message */
    RN_CONN_TOO_SLOW, /* message_ns since its first byte without its end */
    RN_CONN_IDLE,     /* idle_ns without a message; usually closed without a reply */
    RN_CONN_DRAINING, /* the server stops, and no message has begun */
    RN_CONN_CROWDED,  /* other clients need the place, and this one was quiet for longest */
    RN_CONN_SWAMPED,  /* the server's input_max is exceeded, and this message is a large one */
};

struct rn_protocol {
    const char *name;   /* for log lines and metrics: "http" */
    const char *alpn;   /* offered to TLS clients: "http/1.1"; may be NULL */
    size_t state_bytes; /* memory for each connection, zeroed, at rn_conn_state */
    int64_t idle_ns;    /* 0: a connection may stay silent for ever */
    int64_t message_ns; /* from the first byte of a message to its end; 0: no limit.
                           Also for a TLS handshake (0: 10 s) */
    int64_t stall_ns;   /* output waits and the peer reads nothing; 0: 30 s */
    size_t message_max; /* bytes that net buffers of incomplete messages */
    void (*opened)(struct rn_conn *conn); /* with TLS after the handshake; may be NULL */

    /* Bytes have arrived. `data` is all input that is not consumed yet, in one piece,
     * valid and writable during the call. Returns how many bytes were consumed. Leave
     * the bytes of an incomplete message: net takes them as its beginning, for
     * message_ns and message_max. Called again when more has arrived and after
     * rn_conn_resume; not while the connection is paused or its output is full.
     *
     * RN_CONN_PENDING: the protocol will call rn_conn_consumed later. Until then the
     * bytes stay where they are; the protocol must have called rn_conn_pause and
     * rn_conn_ref. Needs may_pend in the server's options. */
    size_t (*received)(struct rn_conn *conn, char *data, size_t len);

    /* The server stops and all input is consumed: whether the connection may be closed.
     * If not, net asks again after each event. May be NULL: yes. */
    bool (*drains)(struct rn_conn *conn);

    /* Whether no reply is owed, so that the connection may be closed when there are too
     * many. For protocols that reply outside of `received`. May be NULL: always. */
    bool (*quiet)(struct rn_conn *conn);

    /* The connection will be closed for this reason; a last reply may go to
     * rn_conn_out. May be NULL. */
    void (*closing)(struct rn_conn *conn, enum rn_conn_close_reason why);

    /* The last call: either side has closed. Timers in the state must be cancelled. May
     * be NULL. For an outgoing connection (net/dialler.h) that could not be made, this is
     * the only call. */
    void (*closed)(struct rn_conn *conn);

    /* Called once after rn_conn_call_before_sleep, when all events of this round of the
     * loop have been handled. May be NULL if that is never called. */
    void (*before_sleep)(struct rn_conn *conn);
};

/* state_bytes of the protocol, aligned to 16. */
void *rn_conn_state(struct rn_conn *conn);
/* The context given with the listener. */
void *rn_conn_context(const struct rn_conn *conn);
struct rn_loop *rn_conn_loop(const struct rn_conn *conn);
struct rn_wheel *rn_conn_wheel(const struct rn_conn *conn);

struct rn_peer {
    bool local;      /* loopback or a unix socket */
    struct rn_ip ip; /* bits 0: a unix socket */
    uint16_t port;
    char text[64]; /* "192.0.2.7:5123", "[::1]:80", "unix" */

    /* The names in a verified client certificate, "CN:alice,DNS:alice.example", with
     * \xHH for commas and for bytes that are not printable ASCII. NULL: no certificate. */
    const char *certificate;
};
const struct rn_peer *rn_conn_peer(const struct rn_conn *conn);

/* Whether the peer speaks TLS. */
bool rn_conn_is_tls(const struct rn_conn *conn);

/* Append output here. It is sent in one write when `received` (or a timer) has
 * returned. Valid until this thread uses another connection. */
struct rn_buf *rn_conn_out(struct rn_conn *conn);

/* More output waits than a peer should leave unread. `received` may then return early,
 * with what it has answered consumed; net calls it again when there is room. Protocols
 * whose replies are much longer than requests ask after each reply. */
#define RN_CONN_FULL_BYTES ((size_t)256 << 10)
bool rn_conn_is_full(const struct rn_conn *conn);

/* How much output the peer has not taken, here and in the kernel. For protocols that may leave some
 * out. Costs a system call. */
size_t rn_conn_untaken(const struct rn_conn *conn);

/* How many bytes of incomplete messages the protocol buffers itself. They count towards
 * the server's input_max, like those that net buffers. */
void rn_conn_set_buffered(struct rn_conn *conn, size_t bytes);

/* `received` is not called until rn_conn_resume. net still notices when the peer closes. */
void rn_conn_pause(struct rn_conn *conn);
/* Calls `received` if there is input. Must not be called from within `received`. Does
 * nothing between RN_CONN_PENDING and rn_conn_consumed. */
void rn_conn_resume(struct rn_conn *conn);

#define RN_CONN_PENDING SIZE_MAX
/* The value that `received` would have returned. rn_conn_resume may follow. */
void rn_conn_consumed(struct rn_conn *conn, size_t used);

/* While references are held, the connection and its state exist and `closed` is not
 * called. A connection that ends meanwhile is closed at the last rn_conn_unref. */
void rn_conn_ref(struct rn_conn *conn);
void rn_conn_unref(struct rn_conn *conn);

/* Reads now what has arrived and calls `received`, instead of in the next round. Must
 * not be called from within a callback of this connection. */
void rn_conn_read_now(struct rn_conn *conn);

/* Has the protocol's `before_sleep` called at the end of this round: collects many
 * replies into one write. */
void rn_conn_call_before_sleep(struct rn_conn *conn);

/* Closes when the output has been sent; `received` is not called any more. */
void rn_conn_close(struct rn_conn *conn);

/* The server stops: the protocol should ask the peer to leave after its reply. Input
 * that was sent before must still be answered, see rn_conn_has_input. */
bool rn_conn_draining(const struct rn_conn *conn);
/* Whether there is input that `received` has not been given. Costs a system call. */
bool rn_conn_has_input(const struct rn_conn *conn);
/* The connection has ended, though `closed` may not have been called yet: nothing can be sent. */
bool rn_conn_is_gone(const struct rn_conn *conn);

#endif
