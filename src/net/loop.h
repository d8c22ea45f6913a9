/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside net: a loop, the listening sockets that it polls and the connections that it owns.
 * All of it belongs to one thread unless stated otherwise.
 *
 * Sockets are polled with uv_poll, and we read and write them ourselves: a connection costs
 * one read and one write per event and no buffer while idle, and we notice that the peer
 * has closed without reading on.
 */
#ifndef RN_NET_LOOP_H
#define RN_NET_LOOP_H

#include <uv.h>

#include "net/conn.h"
#include "net/conn_life.h"
#include "net/listener.h"
#include "net/server.h"
#include "net/wheel.h"

#define RN_READ_BYTES ((size_t)64 << 10)

struct rn_server;

/* A loop accepting on a listening socket. */
struct rn_acceptor {
    uv_poll_t poll;
    struct rn_timer resume; /* after a pause */
    unsigned waits;         /* for room, without success so far */
    struct rn_listener *listener;
    struct rn_socket *socket;
    struct rn_loop *loop;
    struct rn_acceptor *next;
};

struct rn_loop {
    uv_loop_t uv;
    uv_prepare_t prepare;
    uv_timer_t timer;
    uv_async_t wake;
    struct rn_wheel wheel;
    int64_t armed_ns; /* when `timer` fires; INT64_MAX: not set */
    struct rn_server *server;
    unsigned index;
    struct rn_acceptor *acceptors;
    struct rn_conn *conns, *touched;
    struct rn_conn *writer; /* whose output is in `out`; may be NULL */
    struct rn_buf out;
    struct rn_buf tls_records; /* to be sent; empty between calls */
    char *decrypted;           /* RN_DECRYPTED_BYTES; NULL: no TLS so far */
    size_t accepted;           /* how many of `conns` are not outgoing: a drain waits for these */
    bool accept_later;         /* does not accept yet */
    bool draining;
    _Atomic bool asked_sign; /* of life, for the watchdog of systemd */
    _Atomic bool crowded;    /* another loop needs room for a connection */
    _Atomic size_t cut_from; /* too much incomplete input: end messages from this size on;
                                0: nothing to do */
    int64_t in_vain_ns;      /* do not look for quiet connections before this time */
    bool defers;             /* closed none, as other loops have quieter connections */
    void (*woken)(struct rn_loop *loop); /* after rn_loop_wake, */
    void (*wake_call)(void *arg);        /* and then this, if any */
    void *wake_arg;
    char input[RN_READ_BYTES];
};

/* Returns 0 or a negative errno. */
int rn_loop_init(struct rn_loop *loop, struct rn_server *server, unsigned index);
/* Returns when a drain has ended. */
void rn_loop_run(struct rn_loop *loop);
/* Closes everything that is left. Must not be called while it runs. */
void rn_loop_done(struct rn_loop *loop);

/* Stops accepting and closes connections as they become idle. The loop ends with the last
 * of them. */
void rn_loop_drain(struct rn_loop *loop);
/* Closes all accepted connections at once. */
void rn_loop_cut(struct rn_loop *loop);

/* Accepts on the socket, if not accept_later. Returns 0 or a negative errno. */
int rn_accept_open(struct rn_loop *loop, struct rn_listener *listener, struct rn_socket *socket);
/* The end of accept_later. */
void rn_accept_start_all(struct rn_loop *loop);
/* Accepts the clients that wait already, then no more. Those of stored sockets are left for the
 * next process of this service. */
void rn_accept_close_all(struct rn_loop *loop);

/* Sets the wheel's time to that of the loop's current round. */
static inline void rn_loop_update(struct rn_loop *loop)
{
    loop->wheel.now_ns = (int64_t)uv_now(&loop->uv) * RN_WHEEL_TICK_NS;
}

struct rn_conn {
    uv_poll_t poll;
    int fd;
    uint8_t events;         /* what is polled */
    enum rn_conn_life life; /* changed by rn_conn_enter alone */
    enum {
        RN_CONN_READING,
        RN_CONN_PAUSED,            /* rn_conn_pause */
        RN_CONN_PAUSED_WITH_INPUT, /* and more has arrived since */
    } input;
    bool outgoing;       /* we began it: net/dialler.h */
    bool known;          /* to the protocol, whose `closed` must still be called */
    bool heard;          /* something has arrived on it */
    bool ended;          /* the peer sends nothing more */
    bool unread;         /* closed before all that was sent has been read */
    bool output_full;    /* more output waits than the peer reads */
    bool busy;           /* in a call of the protocol */
    bool pending;        /* `received` has returned RN_CONN_PENDING ... */
    bool sleep_call;     /* `before_sleep` must be called */
    bool touched;        /* in the loop's list `touched` */
    size_t pending_used; /* ... and had consumed so much of `in` before */
    uint32_t refs;
    const struct rn_protocol *protocol;
    struct rn_listener *listener;
    struct rn_tally *tally;
    struct rn_loop *loop;
    struct rn_conn *next, **link, *next_touched;
    struct rn_tls_conn *tls; /* NULL: no TLS */
    struct rn_timer deadline;
    int64_t begun_ns;    /* the first byte of an incomplete message; 0: there is none.
                            Of a handshake, the beginning of the connection */
    int64_t active_ns;   /* last traffic */
    int64_t progress_ns; /* when output was last moved, while some waits */
    struct rn_buf in;    /* what has not been consumed */
    size_t buffered;     /* see rn_conn_set_buffered */
    size_t counted;      /* bytes of unfinished input that the server knows of */
    struct rn_buf waiting;
    size_t sent; /* of `waiting` */
    struct rn_peer peer;
    _Alignas(16) char state[];
};

/* The only way to change `life`. The step must be in the diagram of net/conn_life.h. */
void rn_conn_enter(struct rn_conn *conn, enum rn_conn_life life);
/* Nothing can be sent or read any more. Repeating it changes nothing. */
void rn_conn_break(struct rn_conn *conn);

/* Takes over the socket. NULL: out of memory, or it cannot be polled. The connection is in
 * the loop's list; the protocol does not know of it. */
struct rn_conn *rn_conn_new(struct rn_loop *loop, struct rn_listener *listener, int fd,
                            const struct rn_peer *peer, bool secure);
/* Begins an accepted connection; closes the socket if that fails. */
void rn_conn_start(struct rn_acceptor *acceptor, int fd, const struct rn_peer *peer);
/* Tells the protocol of the connection: at once, or after the TLS handshake. */
void rn_conn_open(struct rn_conn *conn);
/* Sends, closes, or decides what to poll. Call after each event, with no callback of the
 * protocol on the stack. The connection may be freed afterwards. */
void rn_conn_settle(struct rn_conn *conn);
/* Closes at once, whatever output waits. Without references the connection is freed. */
void rn_conn_cut(struct rn_conn *conn);
/* Lets the protocol reply why, and begins to close. */
void rn_conn_close_because(struct rn_conn *conn, enum rn_conn_close_reason why);

static inline size_t rn_conn_unsent(const struct rn_conn *conn)
{
    return conn->waiting.len - conn->sent;
}

/* dialler.c: the socket of an outgoing connection has become writable. It is connected or
 * broken. */
void rn_dialler_connected(struct rn_conn *conn);

/* conn_input.c: reads and calls the protocol. `ended`: the peer has closed, so read to the
 * end. */
void rn_conn_input_read(struct rn_conn *conn, bool ended);
/* Calls the protocol with input that was kept. */
void rn_conn_input_resume(struct rn_conn *conn);

/* conn_output.c: sends the loop's output, which is this connection's, and keeps what the
 * socket does not take. */
void rn_conn_output_flush(struct rn_conn *conn);
/* The same with TLS records. */
void rn_conn_output_flush_tls(struct rn_conn *conn);
/* Sends output that was kept. */
void rn_conn_output_resume(struct rn_conn *conn);

/* shed.c: closes the quietest connections of the loop. Returns how many. Not `any`: only those
 * that are about as quiet as the quietest of other loops. */
unsigned rn_shed_quiet(struct rn_loop *loop, bool any);
/* Asks the other loops to do so. */
void rn_shed_ask_others(struct rn_loop *loop);
/* Counts the incomplete input of the connection; if the server has too much, closes
 * connections of this loop and asks other loops to. */
void rn_shed_count_input(struct rn_conn *conn, size_t bytes);
/* Does what other loops have asked for. */
void rn_shed_as_asked(struct rn_loop *loop);

/* conn_deadline.c */
void rn_conn_deadline_update(struct rn_conn *conn);
void rn_conn_deadline_fire(struct rn_timer *timer);

#endif
