/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers. The length is always said, so that an answer's end is never the
 * connection's.
 */
#include "wire/http.h"

/* By status: the line without HTTP/1.1 and CR LF. */
#define LINE(status, reason) [status] = RN_SLICE_INIT(#status " " reason)
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

const char *rn_http_reason(unsigned status)
{
    return status < STATUSES && lines[status].data ? lines[status].data + 4 : "Unknown";
}

void rn_http_put_status(struct rn_buf *out, unsigned status)
{
    rn_buf_put_literal(out, "HTTP/1.1 ");
    if (status < STATUSES && lines[status].data) {
        rn_buf_put_slice(out, lines[status]);
    } else {
        rn_buf_put_u64(out, status);
        rn_buf_put_literal(out, " Unknown");
    }
    rn_buf_put_literal(out, "\r\n");
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

void rn_http_put_body(struct rn_buf *out, enum rn_http_connection connection, bool head,
                      const char *content_type, struct rn_slice body)
{
    if (content_type)
        rn_http_put_header(out, "Content-Type", rn_slice_of(content_type));
    if (connection == RN_HTTP_CLOSE)
        rn_buf_put_literal(out, "Connection: close\r\n");
    else if (connection == RN_HTTP_KEEP_SAY)
        rn_buf_put_literal(out, "Connection: keep-alive\r\n");
    rn_buf_put_literal(out, "Content-Length: ");
    rn_buf_put_u64(out, body.len);
    rn_buf_put_literal(out, "\r\n\r\n");
    if (!head)
        rn_buf_put_slice(out, body);
}

void rn_http_put_continue(struct rn_buf *out)
{
    rn_buf_put_literal(out, "HTTP/1.1 100 Continue\r\n\r\n");
}
