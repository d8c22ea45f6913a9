/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/bench/load_thread.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/clock.h"

#define IN_BYTES (64 << 10)
#define EVENTS 256
#define GRACE_NS (2 * RN_SECOND_NS) /* for answers that are under way at the end */

struct rn_bench_conn {
    struct rn_stream stream; /* fd -1: given up */
    uint32_t number;
    uint64_t sent; /* ever: its place in the schedule */
    /* Times of requests under way, the oldest first: a ring of plan->pipeline. */
    int64_t *times;
    uint32_t first, under_way;
    char *out;
    size_t out_len, out_at;
    char *in;
    size_t in_len;
    bool wants_out; /* the kernel took less than all */
    struct rn_bench_response listener;
};

static int64_t now_ns(void)
{
    return rn_clock_read_ns(CLOCK_MONOTONIC);
}

static void add(uint64_t *counter, uint64_t n)
{
    __atomic_store_n(counter, *counter + n, __ATOMIC_RELAXED);
}

/* --- connections ------------------------------------------------------------------- */

static bool connect_one(struct rn_bench_thread *d, struct rn_bench_conn *c)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};

    if (!rn_endpoint_connect(d->plan->endpoint, &c->stream, d->problem))
        return false;
    epoll_ctl(d->epoll_fd, EPOLL_CTL_ADD, c->stream.fd, &event);
    c->wants_out = false;
    c->first = c->under_way = 0;
    c->in_len = c->out_len = c->out_at = 0;
    c->listener = (struct rn_bench_response){.left = 0};
    d->live++;
    return true;
}

/* Why a connection has ended before all was answered, unless something is known already. */
static void keep_end(struct rn_bench_thread *d, const struct rn_bench_conn *c)
{
    const char *address = d->plan->endpoint->address.text;
    const char *why = c->stream.tls != NULL ? rn_cli_tls_problem(c->stream.tls) : "";

    if (c->under_way == 0 || d->problem[0] != '\0')
        return;
    if (why[0] != '\0')
        snprintf(d->problem, sizeof d->problem, "no TLS with %s: %s", address, why);
    else
        snprintf(d->problem, sizeof d->problem, "%s closed a connection before it had answered",
                 address);
}

static void disconnect(struct rn_bench_thread *d, struct rn_bench_conn *c)
{
    keep_end(d, c);
    rn_stream_close(&c->stream);
    d->live--;
    d->ended++;
    d->unanswered += c->under_way;
    c->under_way = 0;
}

bool rn_bench_thread_init(struct rn_bench_thread *d)
{
    size_t request = d->plan->request->request.len;

    d->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    d->conns = calloc(d->connection_count, sizeof *d->conns);
    if (d->conns == NULL || d->epoll_fd < 0) {
        snprintf(d->problem, sizeof d->problem, "%s", strerror(errno));
        return false;
    }
    for (uint32_t i = 0; i < d->connection_count; i++)
        d->conns[i].stream.fd = -1;
    for (uint32_t i = 0; i < d->connection_count; i++) {
        struct rn_bench_conn *c = &d->conns[i];

        c->number = i;
        c->times = malloc(d->plan->pipeline * sizeof *c->times);
        c->out = malloc(d->plan->pipeline * request);
        c->in = malloc(IN_BYTES);
        if (c->times == NULL || c->out == NULL || c->in == NULL) {
            snprintf(d->problem, sizeof d->problem, "out of memory");
            return false;
        }
        if (!connect_one(d, c))
            return false;
    }
    return true;
}

void rn_bench_thread_done(struct rn_bench_thread *d)
{
    for (uint32_t i = 0; d->conns != NULL && i < d->connection_count; i++) {
        struct rn_bench_conn *c = &d->conns[i];

        rn_stream_close(&c->stream);
        free(c->times);
        free(c->out);
        free(c->in);
    }
    free(d->conns);
    if (d->epoll_fd >= 0)
        close(d->epoll_fd);
}

/* --- sending ----------------------------------------------------------------------- */

/* xorshift64*: what is drawn need not be good, only cheap and different. */
static uint64_t draw_key(struct rn_bench_thread *d)
{
    uint64_t x = d->seed;

    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    d->seed = x;
    return ((x * UINT64_C(2685821657736338717)) >> 32) * d->plan->keys >> 32;
}

/* When request number `n` of the thread is due. */
static int64_t due_ns(const struct rn_bench_thread *d, uint64_t n)
{
    return d->plan->start_ns + (int64_t)((double)n * d->interval_ns);
}

/* Every connection_count-th request is this connection's. */
static int64_t conn_due_ns(const struct rn_bench_thread *d, const struct rn_bench_conn *c)
{
    return due_ns(d, c->number + c->sent * d->connection_count);
}

static void watch_out(struct rn_bench_thread *d, struct rn_bench_conn *c, bool wanted)
{
    struct epoll_event event = {.events = EPOLLIN | (wanted ? EPOLLOUT : 0u), .data.ptr = c};

    if (c->wants_out == wanted)
        return;
    c->wants_out = wanted;
    epoll_ctl(d->epoll_fd, EPOLL_CTL_MOD, c->stream.fd, &event);
}

/* False: the connection has ended. */
static bool flush(struct rn_bench_thread *d, struct rn_bench_conn *c)
{
    while (c->out_at < c->out_len) {
        ssize_t n = rn_stream_send(&c->stream, c->out + c->out_at, c->out_len - c->out_at);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno != EAGAIN)
            return false;
        if (n < 0)
            break;
        c->out_at += (size_t)n;
    }
    watch_out(d, c, c->out_at < c->out_len);
    if (c->out_at == c->out_len)
        c->out_at = c->out_len = 0;
    return true;
}

static void write_one(struct rn_bench_thread *d, struct rn_bench_conn *c, int64_t time_ns)
{
    uint32_t at = c->first + c->under_way;

    if (at >= d->plan->pipeline)
        at -= d->plan->pipeline;
    rn_bench_request_write(d->plan->request, draw_key(d), c->out + c->out_len);
    c->out_len += d->plan->request->request.len;
    c->times[at] = time_ns;
    c->under_way++;
    c->sent++;
    d->sent++;
}

/* As much as is due and there is room for, once all before has gone. */
static bool pump(struct rn_bench_thread *d, struct rn_bench_conn *c, int64_t now)
{
    if (c->out_len > 0)
        return true;
    while (c->under_way < d->plan->pipeline && d->sent < d->requests) {
        int64_t time_ns = d->interval_ns > 0 ? conn_due_ns(d, c) : now;

        if (time_ns > now || time_ns >= d->plan->end_ns)
            break;
        write_one(d, c, time_ns);
    }
    return c->out_len == 0 || flush(d, c);
}

/* --- receiving --------------------------------------------------------------------- */

/* The words of the first objection, for the report. */
static void keep_problem(struct rn_bench_thread *d, const char *data, size_t len)
{
    const char *body = memmem(data, len, "\r\n\r\n", 4);
    const char *from = body != NULL ? body + 4 : data;
    size_t rest = len - (size_t)(from - data);
    const char *end = memchr(from, '\r', rest);

    if (d->problem[0] == '\0')
        snprintf(d->problem, sizeof d->problem, "%.*s",
                 (int)(end != NULL ? end - from : (ptrdiff_t)rest), from);
}

static void count_answer(struct rn_bench_thread *d, struct rn_bench_conn *c,
                         enum rn_bench_result heard, int64_t now)
{
    rn_latency_add(&d->latency, now - c->times[c->first], 1);
    c->first = c->first + 1 == d->plan->pipeline ? 0 : c->first + 1;
    c->under_way--;
    add(&d->answered, 1);
    add(heard == RN_BENCH_ALLOWED   ? &d->allowed
        : heard == RN_BENCH_REFUSED ? &d->refused
                                    : &d->errors,
        1);
}

/* What answers is not a daemon, or not in plain. */
static void keep_stranger(struct rn_bench_thread *d, const struct rn_bench_conn *c)
{
    const char *address = d->plan->endpoint->address.text;
    bool http = d->plan->request->http;

    d->broken = true;
    if (rn_stream_is_alert(c->in, c->in_len))
        snprintf(d->problem, sizeof d->problem, "what answers at %s speaks TLS; write %s://%s",
                 address, http ? "https" : "rediss", address);
    else
        snprintf(d->problem, sizeof d->problem, "what answers at %s does not speak %s", address,
                 http ? "HTTP/1.1" : "RESP");
}

/* All that is complete. False: not understood. */
static bool hear(struct rn_bench_thread *d, struct rn_bench_conn *c, int64_t now)
{
    size_t at = 0, used;

    while (at < c->in_len) {
        enum rn_bench_result heard = rn_bench_response_read(d->plan->request, &c->listener,
                                                            c->in + at, c->in_len - at, &used);

        if (heard == RN_BENCH_ERROR)
            keep_problem(d, c->in + at, used);
        at += used;
        if (heard == RN_BENCH_MORE)
            break;
        if (heard == RN_BENCH_FOREIGN || c->under_way == 0) {
            keep_stranger(d, c);
            return false;
        }
        count_answer(d, c, heard, now);
        d->last_ns = now;
    }
    c->in_len -= at;
    if (at > 0 && c->in_len > 0)
        memmove(c->in, c->in + at, c->in_len);
    return c->in_len < IN_BYTES;
}

/* What has arrived: of TLS, more may be there than a poll knows of. */
static bool take_in(struct rn_bench_thread *d, struct rn_bench_conn *c)
{
    ssize_t n;

    do {
        n = rn_stream_receive(&c->stream, c->in + c->in_len, IN_BYTES - c->in_len);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            return false;
        c->in_len += n > 0 ? (size_t)n : 0;
        if (!hear(d, c, now_ns()))
            return false;
    } while (n > 0 && c->stream.tls != NULL && rn_cli_tls_has_more(c->stream.tls));
    return true;
}

/* False: the connection has ended, or should. */
static bool serve(struct rn_bench_thread *d, struct rn_bench_conn *c, uint32_t events)
{
    if ((events & EPOLLOUT) != 0 && !flush(d, c))
        return false;
    if ((events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0 && !take_in(d, c))
        return false;
    return pump(d, c, now_ns());
}

/* --- the thread -------------------------------------------------------------------- */

/* A server that ends connections is asked again, as a client would. */
static void renew(struct rn_bench_thread *d, struct rn_bench_conn *c)
{
    disconnect(d, c);
    if (d->answered == 0 && d->ended > d->connection_count)
        d->broken = true; /* it never answers */
    if (d->broken || now_ns() >= d->plan->end_ns)
        return;
    if (!connect_one(d, c) || !pump(d, c, now_ns()))
        d->broken = d->live == 0;
}

static bool is_sending(const struct rn_bench_thread *d, int64_t now)
{
    int64_t next = d->interval_ns > 0 ? due_ns(d, d->due) : now;

    return next < d->plan->end_ns && d->sent < d->requests && !d->broken &&
           !__atomic_load_n(&d->plan->stop, __ATOMIC_RELAXED);
}

static bool is_waiting(const struct rn_bench_thread *d, int64_t now)
{
    bool under_way = false;

    for (uint32_t i = 0; !under_way && i < d->connection_count; i++)
        under_way = d->conns[i].under_way > 0;
    return under_way && now < d->plan->end_ns + GRACE_NS && !d->broken &&
           !__atomic_load_n(&d->plan->stop, __ATOMIC_RELAXED);
}

/* Sends what has become due since, each on its connection. */
static void send_due(struct rn_bench_thread *d, int64_t now)
{
    for (; due_ns(d, d->due) <= now && due_ns(d, d->due) < d->plan->end_ns; d->due++) {
        struct rn_bench_conn *c = &d->conns[d->due % d->connection_count];

        if (c->stream.fd >= 0 && !pump(d, c, now))
            renew(d, c);
    }
}

/* Until something arrives, the next request is due, or a moment has passed. */
static void wait_for(const struct rn_bench_thread *d, int64_t now)
{
    struct pollfd fd = {.fd = d->epoll_fd, .events = POLLIN};
    int64_t until = now + RN_SECOND_NS / 10;
    struct timespec left = {0};

    if (d->interval_ns > 0 && due_ns(d, d->due) < until)
        until = due_ns(d, d->due);
    if (until > now)
        left = (struct timespec){(until - now) / RN_SECOND_NS, (until - now) % RN_SECOND_NS};
    ppoll(&fd, 1, &left, NULL);
}

static void turn(struct rn_bench_thread *d)
{
    struct epoll_event events[EVENTS];
    int count = epoll_wait(d->epoll_fd, events, EVENTS, d->interval_ns > 0 ? 0 : 100);

    for (int i = 0; i < count; i++) {
        struct rn_bench_conn *c = events[i].data.ptr;

        if (c->stream.fd >= 0 && !serve(d, c, events[i].events))
            renew(d, c);
    }
}

static void settle(struct rn_bench_thread *d)
{
    for (uint32_t i = 0; i < d->connection_count; i++)
        d->unanswered += d->conns[i].under_way;
    /* `due` has passed all that were, and each was to be sent. */
    if (d->interval_ns > 0 && d->due < d->requests)
        d->unsent = d->due > d->sent ? d->due - d->sent : 0;
    else if (d->interval_ns > 0)
        d->unsent = d->requests - d->sent;
}

void *rn_bench_thread_run(void *context)
{
    struct rn_bench_thread *d = context;
    int64_t now = now_ns();
    uint64_t one = 1;

    for (uint32_t i = 0; d->interval_ns == 0 && i < d->connection_count; i++)
        if (!pump(d, &d->conns[i], now))
            renew(d, &d->conns[i]);
    while (is_sending(d, now) || is_waiting(d, now)) {
        if (d->interval_ns > 0) {
            send_due(d, now);
            wait_for(d, now);
        }
        turn(d);
        now = now_ns();
    }
    settle(d);
    if (write(d->plan->done_fd, &one, sizeof one) < 0)
        d->broken = true;
    return NULL;
}
