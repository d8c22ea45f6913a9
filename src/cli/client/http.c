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
#define INTERIM_MAX 16
#define PIECE (64 << 10) /* bytes for each recv() */

bool rn_cli_http_fail(struct rn_cli_http *c, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(c->problem, sizeof c->problem, format, args);
    va_end(args);
    return false;
}

void rn_cli_http_init(struct rn_cli_http *c)
{
    *c = (struct rn_cli_http){.timeout_ns = 5 * RN_SECOND_NS,
                              .until = {.wake_fd = -1, .advice = "--timeout waits longer"},
                              .stream = {.fd = -1}};
}

void rn_cli_http_done(struct rn_cli_http *c)
{
    rn_stream_close(&c->stream);
    rn_buf_done(&c->out);
    rn_buf_done(&c->in);
}

/* --- bytes ------------------------------------------------------------------------- */

/* Receives more of the answer. *ended: the server has closed the connection. */
static bool receive(struct rn_cli_http *c, bool *ended)
{
    char *room = rn_buf_reserve(&c->in, PIECE);
    ssize_t n;

    if (room == NULL)
        return rn_cli_http_fail(c, "out of memory");
    while ((n = rn_stream_receive(&c->stream, room, PIECE)) < 0) {
        if (errno == ECONNRESET) {
            n = 0;
            break;
        }
        if (errno != EAGAIN && errno != EINTR)
            return rn_endpoint_fail(c->endpoint, &c->stream, c->problem);
        if (!rn_endpoint_wait(c->endpoint, &c->stream, rn_stream_wants(&c->stream, POLLIN),
                              &c->until, c->problem))
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
        return rn_cli_http_fail(c, "what answers at %s speaks TLS; write https://%s",
                                c->endpoint->address.text, c->endpoint->address.text);
    return rn_cli_http_fail(
        c, "what answers at %s does not speak HTTP, it said %s; is another port meant?",
        c->endpoint->address.text, rn_excerpt(begin).text);
}

/* Parses a complete head: `HTTP/1.1 200 OK`, and lines `name: value`. */
static bool read_head(struct rn_cli_http *c, const char *end, struct head *head)
{
    const char *at = c->in.data, *line_end;

    *head = (struct head){.bytes = (size_t)(end - at) + 4, .body = SIZE_MAX};
    if (head->bytes < 16 || strncmp(at, "HTTP/1.", 7) != 0 || at[8] != ' ')
        return fail_to_understand(c);
    head->close = at[7] == '0';
    head->status = (unsigned)strtoul(at + 9, NULL, 10);
    if (head->status < 100 || head->status > 599)
        return fail_to_understand(c);
    for (; at < end; at = line_end + 1) {
        const char *colon;
        char value[64];

        line_end = memchr(at, '\n', (size_t)(end + 2 - at));
        colon = memchr(at, ':', (size_t)(line_end - at));
        if (colon == NULL)
            continue;
        colon += 1 + strspn(colon + 1, " \t");
        snprintf(value, sizeof value, "%.*s", (int)(line_end - colon) - 1, colon);
        if (strncasecmp(at, "content-length:", 15) == 0)
            head->body = strtoull(value, NULL, 10);
        else if (strncasecmp(at, "content-type:", 13) == 0)
            memcpy(head->type, value, sizeof value);
        else if (strncasecmp(at, "transfer-encoding:", 18) == 0)
            head->chunked = true;
        else if (strncasecmp(at, "connection:", 11) == 0)
            head->close = strncasecmp(value, "close", 5) == 0;
    }
    if (head->status < 200 || head->status == 204 || head->status == 304)
        head->body = 0;
    return true;
}

static bool receive_head(struct rn_cli_http *c, struct head *head)
{
    unsigned interim = 0; /* 100 Continue and the like: without end, they would outlast deadlines */

    for (;;) {
        const char *end = c->in.len == 0 ? NULL : memmem(c->in.data, c->in.len, "\r\n\r\n", 4);
        bool ended;

        if (end != NULL && !read_head(c, end, head))
            return false;
        if (end != NULL && head->status >= 200)
            return true;
        if (end != NULL && interim++ < INTERIM_MAX) {
            rn_buf_drop(&c->in, head->bytes);
            continue;
        }
        if (end != NULL || c->in.len > HEAD_MAX ||
            (c->in.len > 0 && strncmp(c->in.data, "HTTP/1.", c->in.len < 7 ? c->in.len : 7) != 0))
            return fail_to_understand(c);
        if (!receive(c, &ended))
            return false;
        if (ended)
            return rn_cli_http_fail(
                c,
                "what listens at %s closed the connection without an answer; is it "
                "rationd, and is this the right port?",
                c->endpoint->address.text);
    }
}

static bool receive_body(struct rn_cli_http *c, const struct head *head,
                         struct rn_cli_http_response *answer)
{
    bool ended = false;

    if (head->chunked || (head->body != SIZE_MAX && head->body > RN_CLI_HTTP_BODY_MAX))
        return rn_cli_http_fail(c, "what answers at %s is not rationd; is another port meant?",
                                c->endpoint->address.text);
    while (!ended && (head->body == SIZE_MAX || c->in.len - head->bytes < head->body)) {
        if (!receive(c, &ended))
            return false;
        if (c->in.len > head->bytes + RN_CLI_HTTP_BODY_MAX)
            return rn_cli_http_fail(c, "the answer of %s is too long", c->endpoint->address.text);
    }
    if (ended && head->body != SIZE_MAX && c->in.len - head->bytes < head->body)
        return rn_cli_http_fail(c, "the connection to %s ended within the answer",
                                c->endpoint->address.text);
    answer->status = head->status;
    memcpy(answer->type, head->type, sizeof answer->type);
    answer->body = c->in.data + head->bytes;
    answer->body_len = head->body == SIZE_MAX ? c->in.len - head->bytes : head->body;
    if (ended || head->close)
        rn_stream_close(&c->stream);
    return true;
}

/* Connects unless a connection was kept, sends `out` and receives the answer. */
static bool ask_once(struct rn_cli_http *c, struct rn_cli_http_response *answer)
{
    struct head head = {.status = 0};

    rn_buf_clear(&c->in);
    if (c->stream.fd < 0 &&
        !rn_endpoint_connect(c->endpoint, &c->stream, &c->until, c->problem, &c->unreachable))
        return false;
    for (size_t sent = 0; sent < c->out.len;) {
        ssize_t n = rn_stream_send(&c->stream, c->out.data + sent, c->out.len - sent);

        if (n >= 0)
            sent += (size_t)n;
        else if (errno == EPIPE || errno == ECONNRESET)
            break; /* the server may have answered before: read that */
        else if (errno != EAGAIN && errno != EINTR)
            return rn_endpoint_fail(c->endpoint, &c->stream, c->problem);
        else if (!rn_endpoint_wait(c->endpoint, &c->stream, rn_stream_wants(&c->stream, POLLOUT),
                                   &c->until, c->problem))
            return false;
    }
    return receive_head(c, &head) && receive_body(c, &head, answer);
}

bool rn_cli_http_ask(struct rn_cli_http *c, const struct rn_cli_http_request *r,
                     struct rn_cli_http_response *answer)
{
    const struct rn_endpoint_address *address = &c->endpoint->address;
    bool kept = c->stream.fd >= 0, unix_socket = address->socket.ss_family == AF_UNIX;
    struct rn_buf *out = &c->out;

    c->unreachable = false;
    c->until.ns = rn_clock_read_ns(CLOCK_MONOTONIC) + c->timeout_ns;
    rn_buf_clear(out);
    rn_buf_putf(out, "%s %s HTTP/1.1\r\nHost: %s\r\nAccept: %s\r\nUser-Agent: ration\r\n",
                r->method, r->target, unix_socket ? "localhost" : address->text,
                r->accept != NULL ? r->accept : "application/json");
    if (c->token != NULL)
        rn_buf_putf(out, "Authorization: Bearer %s\r\n", c->token);
    if (r->if_match != NULL)
        rn_buf_putf(out, "If-Match: \"%s\"\r\n", r->if_match);
    if (r->body.data != NULL)
        rn_buf_putf(out, "Content-Length: %zu\r\n", r->body.len);
    rn_buf_put_literal(out, "\r\n");
    rn_buf_put_slice(out, r->body);
    if (out->failed)
        return rn_cli_http_fail(c, "out of memory");
    if (ask_once(c, answer))
        return true;
    /* The server may have closed an idle connection. A GET can be sent again; any other request may
     * have been executed already. */
    rn_stream_close(&c->stream);
    if (kept && c->in.len == 0 && strcmp(r->method, "GET") == 0 && ask_once(c, answer))
        return true;
    rn_stream_close(&c->stream);
    return false;
}
