/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A real server in a thread, with a protocol of lines, and clients on plain
 * sockets.
 *
 *   hello        answered with the same line
 *   hold MS      answered with "held" after that time
 *   stop MS      holds, then "go on" from a timer without an answer
 *   big N        answered with a line of N bytes
 *   quit         answered with "bye", then closed
 *   where        the number of the loop
 *   peer         the address of the client
 *   cert         the names in its certificate
 */
#ifndef RN_TESTS_NET_ECHO_H
#define RN_TESTS_NET_ECHO_H

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

#include "net/address.h"
#include "net/server.h"

#define MS INT64_C(1000000)
#define HANG_MS 30000

/* What all connections of a protocol report; any thread. */
struct echo_seen {
    _Atomic int opened, closed, received;
    _Atomic int limited[6];
    _Atomic int closed_held; /* closed while held */
};

struct echo {
    struct rn_timer timer; /* first */
    struct rn_conn *conn;
    bool silent, holding;
};

static inline void echo_timer(struct rn_timer *timer)
{
    struct echo *echo = (struct echo *)timer;

    echo->holding = false;
    if (!echo->silent)
        rn_buf_put_literal(rn_conn_out(echo->conn), "held\n");
    rn_conn_resume(echo->conn);
}

static inline void echo_hold(struct echo *echo, int ms, bool silent)
{
    struct rn_wheel *wheel = rn_conn_wheel(echo->conn);

    echo->silent = silent;
    echo->holding = true;
    rn_conn_pause(echo->conn);
    rn_timer_set(wheel, &echo->timer, rn_wheel_now(wheel) + ms * MS);
}

static inline void echo_big(struct rn_conn *conn, size_t size)
{
    char *to = rn_buf_reserve(rn_conn_out(conn), size);

    memset(to, 'x', size);
    to[size - 1] = '\n';
    rn_conn_out(conn)->len += size;
}

static inline void echo_line(struct rn_conn *conn, const char *line, size_t len)
{
    struct echo *echo = rn_conn_state(conn);
    char text[64];

    snprintf(text, sizeof text, "%.*s", (int)(len < 63 ? len : 63), line);
    if (strncmp(text, "hold ", 5) == 0 || strncmp(text, "stop ", 5) == 0) {
        echo_hold(echo, atoi(text + 5), text[0] == 's');
    } else if (strncmp(text, "big ", 4) == 0) {
        echo_big(conn, (size_t)atol(text + 4));
    } else if (strncmp(text, "sleep ", 6) == 0) { /* the whole loop */
        usleep((useconds_t)atoi(text + 6) * 1000);
    } else if (strcmp(text, "quit\n") == 0) {
        rn_buf_put_literal(rn_conn_out(conn), "bye\n");
        rn_conn_close(conn);
    } else if (strcmp(text, "where\n") == 0) {
        rn_buf_putf(rn_conn_out(conn), "%u\n", rn_loop_index(rn_conn_loop(conn)));
    } else if (strcmp(text, "peer\n") == 0) {
        rn_buf_putf(rn_conn_out(conn), "%s\n", rn_conn_peer(conn)->text);
    } else if (strcmp(text, "cert\n") == 0) {
        const char *names = rn_conn_peer(conn)->certificate;
        rn_buf_putf(rn_conn_out(conn), "%s\n", names ? names : "none");
    } else {
        rn_buf_put(rn_conn_out(conn), line, len);
    }
}

static inline size_t echo_received(struct rn_conn *conn, char *data, size_t len)
{
    struct echo_seen *seen = rn_conn_context(conn);
    struct echo *echo = rn_conn_state(conn);
    size_t used = 0;
    char *end;

    seen->received++;
    assert_false(echo->holding);
    while (!echo->holding && !rn_conn_is_full(conn) &&
           (end = memchr(data + used, '\n', len - used))) {
        echo_line(conn, data + used, (size_t)(end + 1 - data) - used);
        used = (size_t)(end + 1 - data);
        if (used >= 5 && memcmp(data + used - 5, "quit\n", 5) == 0)
            return used;
    }
    return used;
}

static inline void echo_opened(struct rn_conn *conn)
{
    struct echo *echo = rn_conn_state(conn);

    ((struct echo_seen *)rn_conn_context(conn))->opened++;
    echo->conn = conn;
    echo->timer.fire = echo_timer;
}

static inline void echo_closing(struct rn_conn *conn, enum rn_conn_close_reason why)
{
    static const char *const words[] = {"too long\n", "too slow\n", "idle\n",
                                        "draining\n", "crowded\n",  "swamped\n"};

    ((struct echo_seen *)rn_conn_context(conn))->limited[why]++;
    rn_buf_put_slice(rn_conn_out(conn), rn_slice_of(words[why]));
}

static inline void echo_closed(struct rn_conn *conn)
{
    struct echo_seen *seen = rn_conn_context(conn);
    struct echo *echo = rn_conn_state(conn);

    rn_timer_cancel(rn_conn_wheel(conn), &echo->timer);
    seen->closed_held += echo->holding;
    seen->closed++;
}

static const struct rn_protocol echo_protocol = {.name = "echo",
                                                 .state_bytes = sizeof(struct echo),
                                                 .message_max = 4096,
                                                 .opened = echo_opened,
                                                 .received = echo_received,
                                                 .closing = echo_closing,
                                                 .closed = echo_closed};

/* A server that runs in its own thread. */
struct running {
    struct rn_server *server;
    struct rn_protocol protocol;
    struct echo_seen seen;
    struct rn_server_calls calls;
    pthread_t thread;
    _Atomic bool ready, ended;
    _Atomic int hangups, stops, ticks, result;
};

static inline void count_ready(void *arg)
{
    ((struct running *)arg)->ready = true;
}

static inline void count_hangup(void *arg)
{
    ((struct running *)arg)->hangups++;
}

static inline void count_stop(void *arg)
{
    ((struct running *)arg)->stops++;
}

static inline void *run_server(void *arg)
{
    struct running *r = arg;
    struct ration_error error;

    r->result = rn_server_run(r->server, &r->calls, &error);
    r->ended = true;
    return NULL;
}

static inline void nap(void)
{
    usleep(1000);
}

/* Waits until the condition holds; fails when it seems never to. */
#define wait_for(condition)                                                                        \
    do {                                                                                           \
        int naps_ = 0;                                                                             \
        while (!(condition)) {                                                                     \
            assert_true(naps_++ < HANG_MS);                                                        \
            nap();                                                                                 \
        }                                                                                          \
    } while (0)

static inline void prepare_server(struct running *r, struct rn_server_options options)
{
    struct ration_error error = {0};

    memset(r, 0, sizeof *r);
    r->protocol = echo_protocol;
    r->calls = (struct rn_server_calls){
        .arg = r, .ready = count_ready, .hangup = count_hangup, .stopping = count_stop};
    if (options.workers == 0)
        options.workers = 2;
    if (options.drain_ns == 0)
        options.drain_ns = HANG_MS * MS;
    assert_int_equal(rn_server_new(&options, &r->server, &error), 0);
}

static inline void listen_on(struct running *r, const char *name, const char *address)
{
    struct ration_error error = {0};

    if (rn_server_listen(r->server, name, address, RN_ON_WORKERS, &r->protocol, &r->seen, &error) !=
        0)
        fail_msg("%s", error.text);
}

static inline void start_server(struct running *r)
{
    pthread_create(&r->thread, NULL, run_server, r);
    wait_for(r->ready);
}

/* With one TCP listener, "tcp". */
static inline void start_echo(struct running *r, struct rn_server_options options)
{
    prepare_server(r, options);
    listen_on(r, "tcp", "127.0.0.1:0");
    start_server(r);
}

static inline void join_server(struct running *r)
{
    wait_for(r->ended);
    pthread_join(r->thread, NULL);
    assert_int_equal(r->result, 0);
    assert_int_equal(r->seen.opened, r->seen.closed);
    rn_server_free(r->server);
}

static inline void stop_server(struct running *r)
{
    rn_server_stop(r->server);
    join_server(r);
}

static inline struct rn_server_counts counts_of(const struct running *r, const char *name)
{
    struct rn_server_counts counts;

    rn_server_counts(r->server, name, &counts);
    return counts;
}

/* --- clients ---------------------------------------------------------------- */

static inline int try_dial(const char *address)
{
    struct rn_address to;

    assert_int_equal(rn_address_parse(address, &to, NULL), 0);
    int fd = socket(to.to.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct timeval hang = {HANG_MS / 1000, 0};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &hang, sizeof hang);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &hang, sizeof hang);
    if (connect(fd, &to.to.any, to.len) == 0)
        return fd;
    close(fd);
    return -1;
}

static inline int dial(const struct running *r, const char *name)
{
    int fd = try_dial(rn_server_address(r->server, name));

    assert_true(fd >= 0);
    return fd;
}

/* recv and send on a socket with a time limit end with EINTR, without any signal, where libuv (1.45
 * and later) uses io_uring: its work in the kernel interrupts threads of the process. */
static inline ssize_t receive(int fd, void *data, size_t len, int flags)
{
    ssize_t n;

    do {
        n = recv(fd, data, len, flags);
    } while (n < 0 && errno == EINTR);
    return n;
}

static inline ssize_t deliver(int fd, const void *data, size_t len, int flags)
{
    ssize_t n;

    do {
        n = send(fd, data, len, flags | MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    return n;
}

static inline void say_bytes(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t n = deliver(fd, data, len, 0);
        assert_true(n > 0);
        data += n;
        len -= (size_t)n;
    }
}

static inline void say(int fd, const char *text)
{
    say_bytes(fd, text, strlen(text));
}

/* Exactly this comes next. */
static inline void expect(int fd, const char *text)
{
    char got[4096] = "";
    size_t want = strlen(text), have = 0;

    assert_true(want < sizeof got);
    while (have < want) {
        ssize_t n = receive(fd, got + have, want - have, 0);
        if (n <= 0)
            fail_msg("expected \"%s\", got \"%s\" and then %s", text, got,
                     n == 0 ? "the end" : strerror(errno));
        have += (size_t)n;
    }
    assert_string_equal(got, text);
}

/* The connection ends, after at most what has been expected already. */
static inline void expect_end(int fd)
{
    char byte;
    ssize_t n = receive(fd, &byte, 1, 0);

    if (n > 0 || (n < 0 && errno != ECONNRESET))
        fail_msg("expected the end, got %s", n > 0 ? "a byte" : strerror(errno));
}

#endif
