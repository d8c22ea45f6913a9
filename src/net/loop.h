/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside net: a loop, the listening sockets it polls and the connections it
 * owns. Everything here is of one thread unless it says otherwise.
 *
 * Sockets are watched with uv_poll and read and written directly: a connection
 * then costs one read and one write per wake-up and no buffer while idle, and an
 * end of the connection can be noticed without reading on.
 */
#ifndef RN_NET_LOOP_H
#define RN_NET_LOOP_H

#include <stdatomic.h>
#include <uv.h>

#include "net/conn.h"
#include "net/conn_life.h"
#include "net/listener.h"
#include "net/wheel.h"

#define RN_READ_BYTES ((size_t)64 << 10)

struct rn_server;

/* A listening socket as one loop sees it. */
struct rn_acceptor {
    uv_poll_t poll;
    struct rn_timer resume; /* after a pause */
    bool waited;            /* for room, in vain so far */
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
    struct rn_conn *writer; /* whose output is in `out`; NULL: nobody's */
    struct rn_buf out;
    struct rn_buf tls_records; /* records made and not passed on yet: empty between calls */
    char *decrypted;           /* what records held: RN_DECRYPTED_BYTES; NULL: no TLS so far */
    size_t accepted;           /* of `conns`, those that came to us: what a drain waits for */
    bool accept_later;         /* does not accept yet */
    bool draining;
    _Atomic bool crowded;    /* another loop needs room for a connection */
    _Atomic size_t cut_from; /* there is too much unfinished input: end messages of so many
                                bytes and more; 0: nothing to do */
    int64_t in_vain_ns;      /* until then nobody looks for quiet connections again */
    void (*woken)(struct rn_loop *loop); /* after rn_loop_wake */
    char input[RN_READ_BYTES];
};

/* Returns 0 or a negative errno. */
int rn_loop_init(struct rn_loop *loop, struct rn_server *server, unsigned index);
/* Until a drain has ended. */
void rn_loop_run(struct rn_loop *loop);
/* Closes everything that is left; not while it runs. */
void rn_loop_done(struct rn_loop *loop);
/* Any thread. */
void rn_loop_wake(struct rn_loop *loop);

/* Stops accepting and closes connections that are idle, the others when they
 * become so. The loop ends with the last of them. */
void rn_loop_drain(struct rn_loop *loop);
/* Closes all accepted connections at once. */
void rn_loop_cut(struct rn_loop *loop);

/* Begins to accept on the socket, unless the loop accepts later; 0 or a negative errno. */
int rn_accept_open(struct rn_loop *loop, struct rn_listener *listener, struct rn_socket *socket);
/* A loop that accepts later begins now. */
void rn_accept_start_all(struct rn_loop *loop);
/* Accepts what has come already and then no more. */
void rn_accept_close_all(struct rn_loop *loop);

/* Takes the time of the loop's current round over. */
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

/* A connection on a socket that is taken over; NULL: out of memory, or the socket
 * cannot be watched. It is in the loop's list, and the protocol does not know of it. */
struct rn_conn *rn_conn_new(struct rn_loop *loop, struct rn_listener *listener, int fd,
                            const struct rn_peer *peer, bool secure);
/* Takes the socket over; closes it if that fails. With TLS the protocol is told
 * by rn_conn_open later. */
void rn_conn_start(struct rn_acceptor *acceptor, int fd, const struct rn_peer *peer);
/* Tells the protocol that there is a connection. */
void rn_conn_open(struct rn_conn *conn);
/* To be called when something has happened and nothing of the protocol is on the
 * stack: sends, closes, or decides what to wait for. The connection may be gone
 * afterwards. */
void rn_conn_settle(struct rn_conn *conn);
/* At once, whatever waits. It is gone afterwards. */
void rn_conn_cut(struct rn_conn *conn);
/* Says the last words for a limit and begins to close. */
void rn_conn_limit(struct rn_conn *conn, enum rn_conn_limit why);

static inline size_t rn_conn_unsent(const struct rn_conn *conn)
{
    return conn->waiting.len - conn->sent;
}

/* dialler.c: the socket of an outgoing connection has become writable. It is connected or
 * broken. */
void rn_dialler_connected(struct rn_conn *conn);

/* conn_input.c: reads what is there and calls the protocol. `ended`: the end is known
 * to be near, so read up to it. */
void rn_conn_input_read(struct rn_conn *conn, bool ended);
/* Calls the protocol with what was kept. */
void rn_conn_input_resume(struct rn_conn *conn);

/* conn_output.c: sends the loop's output, which is this connection's, and keeps what
 * the peer does not take. */
void rn_conn_output_flush(struct rn_conn *conn);
/* The same with records that TLS has made. */
void rn_conn_output_flush_tls(struct rn_conn *conn);
/* Sends what was kept. */
void rn_conn_output_resume(struct rn_conn *conn);

/* shed.c: closes quiet connections of the loop, those first where nothing has happened for
 * longest. Returns how many. */
unsigned rn_shed_quiet(struct rn_loop *loop);
/* Has the other loops do so, soon. */
void rn_shed_ask_others(struct rn_loop *loop);
/* Tells the server how much unfinished input the connection has; if that is too much in all,
 * closes connections of this loop, and has other loops do so. */
void rn_shed_count_input(struct rn_conn *conn, size_t bytes);
/* What other loops have asked for. */
void rn_shed_as_asked(struct rn_loop *loop);

/* conn_deadline.c */
void rn_conn_deadline_update(struct rn_conn *conn);
void rn_conn_deadline_fire(struct rn_timer *timer);

#endif
