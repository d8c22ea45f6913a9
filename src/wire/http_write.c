/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes responses. Each has a Content-Length, so that no response ends by closing the connection.
 */
#include "wire/http.h"

#include "wire/format.h"

/* The status lines, by status. */
#define LINE(status, reason) [status] = RN_SLICE_INIT("HTTP/1.1 " #status " " reason "\r\n")
static const struct rn_slice lines[600] = {
    LINE(100, "Continue"),
    LINE(200, "OK"),
    LINE(201, "Created"),
    LINE(202, "Accepted"),
    LINE(204, "No Content"),
    LINE(301, "Moved Permanently"),
    LINE(302, "Found"),
    LINE(304, "Not Modified"),
    LINE(307, "Temporary Redirect"),
    LINE(308, "Permanent Redirect"),
    LINE(400, "Bad Request"),
    LINE(401, "Unauthorized"),
    LINE(402, "Payment Required"),
    LINE(403, "Forbidden"),
    LINE(404, "Not Found"),
    LINE(405, "Method Not Allowed"),
    LINE(406, "Not Acceptable"),
    LINE(408, "Request Timeout"),
    LINE(409, "Conflict"),
    LINE(410, "Gone"),
    LINE(411, "Length Required"),
    LINE(412, "Precondition Failed"),
    LINE(413, "Content Too Large"),
    LINE(414, "URI Too Long"),
    LINE(415, "Unsupported Media Type"),
    LINE(417, "Expectation Failed"),
    LINE(418, "I'm a Teapot"),
    LINE(421, "Misdirected Request"),
    LINE(422, "Unprocessable Content"),
    LINE(425, "Too Early"),
    LINE(426, "Upgrade Required"),
    LINE(428, "Precondition Required"),
    LINE(429, "Too Many Requests"),
    LINE(431, "Request Header Fields Too Large"),
    LINE(451, "Unavailable For Legal Reasons"),
    LINE(500, "Internal Server Error"),
    LINE(501, "Not Implemented"),
    LINE(502, "Bad Gateway"),
    LINE(503, "Service Unavailable"),
    LINE(504, "Gateway Timeout"),
    LINE(505, "HTTP Version Not Supported"),
    LINE(507, "Insufficient Storage"),
};
#undef LINE

#define STATUSES (sizeof lines / sizeof lines[0])

void rn_http_put_status(struct rn_buf *out, unsigned status)
{
    if (status < STATUSES && lines[status].data)
        rn_buf_put_slice(out, lines[status]);
    else
        rn_buf_putf(out, "HTTP/1.1 %u Unknown\r\n", status);
}

void rn_http_put_header(struct rn_buf *out, const char *name, struct rn_slice value)
{
    size_t name_len = strlen(name);
    char *at = rn_buf_reserve(out, name_len + value.len + 4);

    if (!at)
        return;
    memcpy(at, name, name_len);
    at += name_len;
    *at++ = ':';
    *at++ = ' ';
    for (size_t i = 0; i < value.len; i++) {
        unsigned char c = (unsigned char)value.data[i];

        *at++ = c < 0x20 || c == 0x7f ? ' ' : (char)c;
    }
    *at++ = '\r';
    *at++ = '\n';
    out->len = (size_t)(at - out->data);
}

/* Room for the lines that rn_http_put_body writes, without the type. */
#define LINES_MAX 128

void rn_http_put_body(struct rn_buf *out, enum rn_http_connection connection, bool head,
                      const char *content_type, struct rn_slice body)
{
    size_t type_len = content_type ? strlen(content_type) : 0;
    char *to = rn_buf_reserve(out, LINES_MAX + type_len + body.len);

    if (!to)
        return;
    if (content_type) {
        to = RN_FORMAT_LITERAL(to, "Content-Type: ");
        to = rn_format_bytes(to, content_type, type_len);
        to = RN_FORMAT_LITERAL(to, "\r\n");
    }
    if (connection == RN_HTTP_CLOSE)
        to = RN_FORMAT_LITERAL(to, "Connection: close\r\n");
    else if (connection == RN_HTTP_KEEP_SAY)
        to = RN_FORMAT_LITERAL(to, "Connection: keep-alive\r\n");
    to = RN_FORMAT_LITERAL(to, "Content-Length: ");
    to = rn_format_u64(to, body.len);
    to = RN_FORMAT_LITERAL(to, "\r\n\r\n");
    if (!head && body.len > 0)
        to = rn_format_bytes(to, body.data, body.len);
    rn_format_done(out, to);
}

void rn_http_put_continue(struct rn_buf *out)
{
    rn_buf_put_literal(out, "HTTP/1.1 100 Continue\r\n\r\n");
}
