/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/bench/bench.h"

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
#define CONNECT_NS (5 * RN_SECOND_NS)
#define GRACE_NS (2 * RN_SECOND_NS) /* wait this long for the last answers */

struct rn_bench_conn {
    struct rn_stream stream; /* fd -1: closed for good */
    uint32_t number;
    uint64_t sent;  /* requests ever sent: the position in the schedule */
    int64_t *times; /* of requests in flight, oldest first: a ring of plan->pipeline */
    uint32_t first, in_flight;
    char *out;
    size_t out_len, out_at;
    char *in;
    size_t in_len;
    bool wants_out; /* the kernel did not take all of `out` */
};

static int64_t now_ns(void)
{
    return rn_clock_read_ns(CLOCK_MONOTONIC);
}

/* Other threads read the counter while this one, alone, writes it. */
static void count(uint64_t *counter)
{
    __atomic_store_n(counter, *counter + 1, __ATOMIC_RELAXED);
}

/* --- connections ------------------------------------------------------------------- */

static bool connect_one(struct rn_bench_thread *d, struct rn_bench_conn *c)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    struct rn_endpoint_deadline until = {now_ns() + CONNECT_NS, -1, "does it speak TLS?"};
    bool unreachable;

    if (!rn_endpoint_connect(d->plan->endpoint, &c->stream, &until, d->problem, &unreachable))
        return false;
    epoll_ctl(d->epoll_fd, EPOLL_CTL_ADD, c->stream.fd, &event);
    c->wants_out = false;
    c->first = c->in_flight = 0;
    c->in_len = c->out_len = c->out_at = 0;
    d->live++;
    return true;
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

/* When request number `n` of the thread is due. */
static int64_t due_ns(const struct rn_bench_thread *d, uint64_t n)
{
    return d->plan->start_ns + (int64_t)((double)n * d->interval_ns);
}

/* Sends what it can and polls for the rest. False: the connection has ended. */
static bool flush(struct rn_bench_thread *d, struct rn_bench_conn *c)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
    bool wants_out;

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
    wants_out = c->out_at < c->out_len;
    if (wants_out != c->wants_out) {
        event.events |= wants_out ? EPOLLOUT : 0u;
        epoll_ctl(d->epoll_fd, EPOLL_CTL_MOD, c->stream.fd, &event);
        c->wants_out = wants_out;
    }
    if (!wants_out)
        c->out_at = c->out_len = 0;
    return true;
}

/* Once the output buffer is empty, writes all requests that are due and fit into the pipeline.
 * Open loop: every connection_count-th request of the thread is sent on this connection. */
static bool pump(struct rn_bench_thread *d, struct rn_bench_conn *c, int64_t now)
{
    const struct rn_bench_plan *plan = d->plan;
    uint64_t key;

    if (c->out_len > 0)
        return true;
    while (c->in_flight < plan->pipeline && d->sent < d->requests) {
        int64_t time_ns =
            d->interval_ns > 0 ? due_ns(d, c->number + c->sent * d->connection_count) : now;
        uint32_t at = c->first + c->in_flight;

        if (time_ns > now || time_ns >= plan->end_ns)
            break;
        /* xorshift64*: fast, and random enough to choose keys. */
        d->seed ^= d->seed >> 12;
        d->seed ^= d->seed << 25;
        d->seed ^= d->seed >> 27;
        key = ((d->seed * UINT64_C(2685821657736338717)) >> 32) * plan->keys >> 32;
        c->times[at < plan->pipeline ? at : at - plan->pipeline] = time_ns;
        rn_bench_request_write(plan->request, key, c->out + c->out_len);
        c->out_len += plan->request->request.len;
        c->in_flight++;
        c->sent++;
        d->sent++;
    }
    return c->out_len == 0 || flush(d, c);
}

/* --- receiving --------------------------------------------------------------------- */

/* The peer is not rationd, or speaks TLS. */
static void fail_as_foreign(struct rn_bench_thread *d, const struct rn_bench_conn *c)
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

/* Counts all complete answers in the input buffer. False: they are not answers. */
static bool read_answers(struct rn_bench_thread *d, struct rn_bench_conn *c, int64_t now)
{
    size_t at = 0, used;

    while (at < c->in_len) {
        const char *from = c->in + at;
        enum rn_bench_result result =
            rn_bench_response_read(d->plan->request, from, c->in_len - at, &used);

        at += used;
        if (result == RN_BENCH_ERROR && d->problem[0] == '\0') { /* for the report */
            const char *body = memmem(from, used, "\r\n\r\n", 4);
            const char *text = body != NULL ? body + 4 : from, *end = c->in + at;
            const char *line_end = memchr(text, '\r', (size_t)(end - text));

            snprintf(d->problem, sizeof d->problem, "%.*s",
                     (int)((line_end != NULL ? line_end : end) - text), text);
        }
        if (result == RN_BENCH_MORE)
            break;
        if (result == RN_BENCH_FOREIGN || c->in_flight == 0) {
            fail_as_foreign(d, c);
            return false;
        }
        rn_latency_add(&d->latency, now - c->times[c->first], 1);
        c->first = c->first + 1 == d->plan->pipeline ? 0 : c->first + 1;
        c->in_flight--;
        count(&d->answered);
        count(result == RN_BENCH_ALLOWED   ? &d->allowed
              : result == RN_BENCH_REFUSED ? &d->refused
                                           : &d->errors);
        d->last_ns = now;
    }
    c->in_len -= at;
    if (at > 0 && c->in_len > 0)
        memmove(c->in, c->in + at, c->in_len);
    return c->in_len < IN_BYTES;
}

/* Reads once; with TLS until no decrypted bytes are left, which epoll does not report. */
static bool receive(struct rn_bench_thread *d, struct rn_bench_conn *c)
{
    ssize_t n;

    do {
        n = rn_stream_receive(&c->stream, c->in + c->in_len, IN_BYTES - c->in_len);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
            return false;
        c->in_len += n > 0 ? (size_t)n : 0;
        if (!read_answers(d, c, now_ns()))
            return false;
    } while (n > 0 && c->stream.tls != NULL && rn_cli_tls_has_more(c->stream.tls));
    return true;
}

/* --- the thread -------------------------------------------------------------------- */

/* Records why the connection ended before all answers came, unless a problem is known; connects
 * again, as a client would. */
static void reconnect(struct rn_bench_thread *d, struct rn_bench_conn *c)
{
    const char *address = d->plan->endpoint->address.text;
    const char *why = c->stream.tls != NULL ? c->stream.tls->problem : "";

    if (c->in_flight > 0 && d->problem[0] == '\0' && why[0] != '\0')
        snprintf(d->problem, sizeof d->problem, "no TLS with %s: %s", address, why);
    else if (c->in_flight > 0 && d->problem[0] == '\0')
        snprintf(d->problem, sizeof d->problem, "%s closed a connection before it had answered",
                 address);
    rn_stream_close(&c->stream);
    d->live--;
    d->ended++;
    d->unanswered += c->in_flight;
    c->in_flight = 0;
    if (d->answered == 0 && d->ended > d->connection_count)
        d->broken = true; /* the server never answers */
    if (d->broken || now_ns() >= d->plan->end_ns)
        return;
    if (!connect_one(d, c) || !pump(d, c, now_ns()))
        d->broken = d->live == 0;
}

/* Whether requests are still to be sent, or answers to come. */
static bool goes_on(const struct rn_bench_thread *d, int64_t now)
{
    int64_t next = d->interval_ns > 0 ? due_ns(d, d->due) : now;
    bool in_flight = false;

    if (d->broken || __atomic_load_n(&d->plan->stop, __ATOMIC_RELAXED))
        return false;
    if (next < d->plan->end_ns && d->sent < d->requests)
        return true;
    for (uint32_t i = 0; !in_flight && i < d->connection_count; i++)
        in_flight = d->conns[i].in_flight > 0;
    return in_flight && now < d->plan->end_ns + GRACE_NS;
}

/* Open loop: sends the requests that are due, each on its connection; then waits until
 * something arrives, the next request is due, or 100 ms have passed. */
static void send_due(struct rn_bench_thread *d, int64_t now)
{
    struct pollfd fd = {.fd = d->epoll_fd, .events = POLLIN};
    int64_t until = now + RN_SECOND_NS / 10;
    struct timespec left = {0};

    for (; due_ns(d, d->due) <= now && due_ns(d, d->due) < d->plan->end_ns; d->due++) {
        struct rn_bench_conn *c = &d->conns[d->due % d->connection_count];

        if (c->stream.fd >= 0 && !pump(d, c, now))
            reconnect(d, c);
    }
    if (due_ns(d, d->due) < until)
        until = due_ns(d, d->due);
    if (until > now)
        left = (struct timespec){(until - now) / RN_SECOND_NS, (until - now) % RN_SECOND_NS};
    ppoll(&fd, 1, &left, NULL);
}

void *rn_bench_thread_run(void *context)
{
    struct rn_bench_thread *d = context;
    struct epoll_event events[EVENTS];
    int64_t now = now_ns();
    uint64_t one = 1;
    int ready;

    for (uint32_t i = 0; d->interval_ns == 0 && i < d->connection_count; i++)
        if (!pump(d, &d->conns[i], now))
            reconnect(d, &d->conns[i]);
    while (goes_on(d, now)) {
        if (d->interval_ns > 0)
            send_due(d, now);
        ready = epoll_wait(d->epoll_fd, events, EVENTS, d->interval_ns > 0 ? 0 : 100);
        for (int i = 0; i < ready; i++) {
            struct rn_bench_conn *c = events[i].data.ptr;

            if (c->stream.fd < 0)
                continue;
            if (((events[i].events & EPOLLOUT) != 0 && !flush(d, c)) ||
                ((events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0 && !receive(d, c)) ||
                !pump(d, c, now_ns()))
                reconnect(d, c);
        }
        now = now_ns();
    }
    for (uint32_t i = 0; i < d->connection_count; i++)
        d->unanswered += d->conns[i].in_flight;
    if (d->interval_ns > 0) { /* all requests before number `due` should have been sent */
        uint64_t wanted = d->due < d->requests ? d->due : d->requests;

        d->unsent = wanted > d->sent ? wanted - d->sent : 0;
    }
    if (write(d->plan->done_fd, &one, sizeof one) < 0)
        d->broken = true;
    return NULL;
}
