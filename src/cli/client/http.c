/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sockets are non-blocking; every wait is a poll() with the deadline. Understands the HTTP that
 * rationd sends: a status, Content-Length, a body.
 */
#include "cli/client/http.h"

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "rules/report/report.h"

#define HEAD_MAX (64 << 10)
#define PIECE (64 << 10) /* bytes for each recv() */

static bool fail(struct rn_cli_http *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static bool fail(struct rn_cli_http *c, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(c->problem, sizeof c->problem, format, args);
    va_end(args);
    return false;
}

void rn_cli_http_init(struct rn_cli_http *c)
{
    *c = (struct rn_cli_http){.timeout_ns = 5 * RN_SECOND_NS, .wake_fd = -1, .stream = {.fd = -1}};
}

void rn_cli_http_done(struct rn_cli_http *c)
{
    rn_stream_close(&c->stream);
    rn_buf_done(&c->out);
    rn_buf_done(&c->in);
}

/* --- bytes ------------------------------------------------------------------------- */

/* Waits until the socket is ready for `events`. */
static bool wait_for(struct rn_cli_http *c, short events)
{
    struct pollfd fds[2] = {{.fd = c->stream.fd, .events = events},
                            {.fd = c->wake_fd, .events = POLLIN}};

    for (;;) {
        int64_t left_ns = c->deadline_ns - rn_clock_read_ns(CLOCK_MONOTONIC);
        int left_ms = left_ns <= 0 ? 0 : (int)(left_ns / 1000000) + 1;
        int ready = poll(fds, 2, left_ms);

        if (ready < 0 && errno == EINTR)
            continue;
        if (ready > 0 && fds[1].revents != 0)
            return fail(c, "interrupted");
        if (ready > 0)
            return true;
        return fail(c, "rationd at %s does not answer in time; --timeout waits longer",
                    c->address.text);
    }
}

/* `cannot reach rationd at 127.0.0.1:8082: connection refused`. */
static bool fail_to_reach(struct rn_cli_http *c, int error)
{
    char why[80];

    snprintf(why, sizeof why, "%s", strerror(error));
    if (why[0] >= 'A' && why[0] <= 'Z')
        why[0] = (char)(why[0] | 0x20);
    rn_stream_close(&c->stream);
    c->unreachable = true;
    return fail(c, "cannot reach rationd at %s: %s", c->address.text, why);
}

static bool connect_to(struct rn_cli_http *c)
{
    int error = 0;
    socklen_t len = sizeof error;

    c->stream.fd =
        socket(c->address.socket.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (c->stream.fd < 0)
        return fail_to_reach(c, errno);
    if (connect(c->stream.fd, (const struct sockaddr *)&c->address.socket, c->address.len) == 0)
        return true;
    if (errno != EINPROGRESS)
        return fail_to_reach(c, errno);
    if (!wait_for(c, POLLOUT))
        return false;
    getsockopt(c->stream.fd, SOL_SOCKET, SO_ERROR, &error, &len);
    return error == 0 || fail_to_reach(c, error);
}

static bool fail_to_talk(struct rn_cli_http *c)
{
    if (errno == EPROTO && c->stream.tls != NULL)
        return fail(c, "no TLS with %s: %s", c->address.text, rn_cli_tls_problem(c->stream.tls));
    return fail(c, "the connection to %s broke: %s", c->address.text, strerror(errno));
}

/* Does the TLS handshake, if the address asks for TLS. */
static bool secure(struct rn_cli_http *c)
{
    if (!c->address.tls)
        return true;
    c->stream.tls = rn_cli_tls_new(c->tls_config, c->stream.fd, c->address.host);
    if (c->stream.tls == NULL)
        return fail(c, "out of memory");
    while (rn_cli_tls_begin(c->stream.tls) != 0) {
        if (errno != EAGAIN)
            return fail_to_talk(c);
        if (!wait_for(c, rn_stream_wants(&c->stream, 0)))
            return false;
    }
    return true;
}

static bool send_all(struct rn_cli_http *c)
{
    for (size_t sent = 0; sent < c->out.len;) {
        ssize_t n = rn_stream_send(&c->stream, c->out.data + sent, c->out.len - sent);

        if (n >= 0)
            sent += (size_t)n;
        else if (errno == EPIPE || errno == ECONNRESET)
            return true; /* the server may have answered before: read that */
        else if (errno != EAGAIN && errno != EINTR)
            return fail_to_talk(c);
        else if (!wait_for(c, rn_stream_wants(&c->stream, POLLOUT)))
            return false;
    }
    return true;
}

/* Receives more of the answer. *ended: the server has closed the connection. */
static bool receive(struct rn_cli_http *c, bool *ended)
{
    char *room = rn_buf_reserve(&c->in, PIECE);
    ssize_t n;

    if (room == NULL)
        return fail(c, "out of memory");
    while ((n = rn_stream_receive(&c->stream, room, PIECE)) < 0) {
        if (errno == ECONNRESET) {
            n = 0;
            break;
        }
        if (errno != EAGAIN && errno != EINTR)
            return fail_to_talk(c);
        if (!wait_for(c, rn_stream_wants(&c->stream, POLLIN)))
            return false;
    }
    c->in.len += (size_t)n;
    *ended = n == 0;
    return true;
}

/* --- requests ---------------------------------------------------------------------- */

void rn_cli_http_put_escaped(struct rn_buf *out, struct rn_slice text)
{
    for (size_t i = 0; i < text.len; i++) {
        char c = text.data[i], lower = (char)(c | 0x20);

        if ((lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' ||
            c == '_' || c == '~')
            rn_buf_put_char(out, c);
        else
            rn_buf_putf(out, "%%%02X", (unsigned)(unsigned char)c);
    }
}

static void write_request(struct rn_cli_http *c, const struct rn_cli_http_request *r)
{
    bool unix_socket = c->address.socket.ss_family == AF_UNIX;
    struct rn_buf *out = &c->out;

    rn_buf_clear(out);
    rn_buf_putf(out, "%s %s HTTP/1.1\r\nHost: %s\r\nAccept: %s\r\nUser-Agent: ration\r\n",
                r->method, r->target, unix_socket ? "localhost" : c->address.text,
                r->accept != NULL ? r->accept : "application/json");
    if (c->token != NULL)
        rn_buf_putf(out, "Authorization: Bearer %s\r\n", c->token);
    if (r->if_match != NULL)
        rn_buf_putf(out, "If-Match: \"%s\"\r\n", r->if_match);
    if (r->body.data != NULL)
        rn_buf_putf(out, "Content-Length: %zu\r\n", r->body.len);
    rn_buf_put_literal(out, "\r\n");
    rn_buf_put_slice(out, r->body);
}

/* --- answers ----------------------------------------------------------------------- */

struct head {
    unsigned status;
    size_t bytes; /* of the head; the body follows */
    size_t body;  /* bytes of the body; SIZE_MAX: until the connection ends */
    bool close, chunked;
    char type[64];
};

static bool fail_to_understand(struct rn_cli_http *c)
{
    struct rn_slice begin = {c->in.data, c->in.len < 40 ? c->in.len : 40};

    if (rn_stream_is_alert(begin.data, begin.len))
        return fail(c, "what answers at %s speaks TLS; write https://%s", c->address.text,
                    c->address.text);
    return fail(c, "what answers at %s does not speak HTTP, it said %s; is another port meant?",
                c->address.text, rn_excerpt(begin).text);
}

/* One line, `name: value`. */
static void read_header(struct head *head, const char *line, size_t len)
{
    const char *colon = memchr(line, ':', len);
    size_t name = colon == NULL ? 0 : (size_t)(colon - line);
    char value[64];

    if (colon == NULL)
        return;
    colon += 1 + strspn(colon + 1, " \t");
    snprintf(value, sizeof value, "%.*s", (int)(line + len - colon), colon);
    if (name == 14 && strncasecmp(line, "content-length", 14) == 0)
        head->body = strtoull(value, NULL, 10);
    else if (name == 12 && strncasecmp(line, "content-type", 12) == 0)
        memcpy(head->type, value, sizeof value);
    else if (name == 17 && strncasecmp(line, "transfer-encoding", 17) == 0)
        head->chunked = true;
    else if (name == 10 && strncasecmp(line, "connection", 10) == 0)
        head->close = strncasecmp(value, "close", 5) == 0;
}

/* Parses a complete head: `HTTP/1.1 200 OK`, and headers. */
static bool read_head(struct rn_cli_http *c, const char *end, struct head *head)
{
    const char *at = c->in.data;

    *head = (struct head){.bytes = (size_t)(end - at) + 4, .body = SIZE_MAX};
    if (head->bytes < 16 || strncmp(at, "HTTP/1.", 7) != 0 || at[8] != ' ')
        return fail_to_understand(c);
    head->close = at[7] == '0';
    head->status = (unsigned)strtoul(at + 9, NULL, 10);
    if (head->status < 100 || head->status > 599)
        return fail_to_understand(c);
    while (at < end) {
        const char *line_end = memchr(at, '\n', (size_t)(end + 2 - at));

        read_header(head, at, (size_t)(line_end - at) - 1);
        at = line_end + 1;
    }
    if (head->status < 200 || head->status == 204 || head->status == 304)
        head->body = 0;
    return true;
}

static bool receive_head(struct rn_cli_http *c, struct head *head)
{
    for (;;) {
        const char *end = c->in.len == 0 ? NULL : memmem(c->in.data, c->in.len, "\r\n\r\n", 4);
        bool ended;

        if (end != NULL && !read_head(c, end, head))
            return false;
        if (end != NULL && head->status >= 200)
            return true;
        if (end != NULL) {
            rn_buf_drop(&c->in, head->bytes); /* 100 Continue and the like */
            continue;
        }
        if (c->in.len > HEAD_MAX ||
            (c->in.len > 0 && strncmp(c->in.data, "HTTP/1.", c->in.len < 7 ? c->in.len : 7) != 0))
            return fail_to_understand(c);
        if (!receive(c, &ended))
            return false;
        if (ended)
            return fail(c,
                        "what listens at %s closed the connection without an answer; is it "
                        "rationd, and is this the right port?",
                        c->address.text);
    }
}

static bool receive_body(struct rn_cli_http *c, const struct head *head,
                         struct rn_cli_http_response *answer)
{
    bool ended = false;

    if (head->chunked || (head->body != SIZE_MAX && head->body > RN_CLI_HTTP_BODY_MAX))
        return fail(c, "what answers at %s is not rationd; is another port meant?",
                    c->address.text);
    while (!ended && (head->body == SIZE_MAX || c->in.len - head->bytes < head->body)) {
        if (!receive(c, &ended))
            return false;
        if (c->in.len > head->bytes + RN_CLI_HTTP_BODY_MAX)
            return fail(c, "the answer of %s is too long", c->address.text);
    }
    if (ended && head->body != SIZE_MAX && c->in.len - head->bytes < head->body)
        return fail(c, "the connection to %s ended within the answer", c->address.text);
    answer->status = head->status;
    memcpy(answer->type, head->type, sizeof answer->type);
    answer->body = c->in.data + head->bytes;
    answer->body_len = head->body == SIZE_MAX ? c->in.len - head->bytes : head->body;
    if (ended || head->close)
        rn_stream_close(&c->stream);
    return true;
}

static bool ask_once(struct rn_cli_http *c, struct rn_cli_http_response *answer)
{
    struct head head = {.status = 0};

    rn_buf_clear(&c->in);
    if (c->stream.fd < 0 && (!connect_to(c) || !secure(c)))
        return false;
    return send_all(c) && receive_head(c, &head) && receive_body(c, &head, answer);
}

bool rn_cli_http_ask(struct rn_cli_http *c, const struct rn_cli_http_request *request,
                     struct rn_cli_http_response *answer)
{
    bool kept = c->stream.fd >= 0;

    c->unreachable = false;
    c->deadline_ns = rn_clock_read_ns(CLOCK_MONOTONIC) + c->timeout_ns;
    write_request(c, request);
    if (c->out.failed)
        return fail(c, "out of memory");
    if (ask_once(c, answer))
        return true;
    /* The server may have closed an idle connection. A GET can be sent again; any other request may
     * have been executed already. */
    rn_stream_close(&c->stream);
    if (kept && c->in.len == 0 && strcmp(request->method, "GET") == 0 && ask_once(c, answer))
        return true;
    rn_stream_close(&c->stream);
    return false;
}
