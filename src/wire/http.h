/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A strict parser of HTTP/1.1 requests. Requests with a chunked body or an unusual method are also
 * given to llhttp, and both parsers must agree; for all others, tests and a fuzz target check that
 * they do. A request that could be read in two ways is refused: both lengths, two lengths, a
 * length that is no number, a coding besides chunked, white space before a colon, folded lines,
 * bare CR or LF, NUL, a request line of four words, no Host or two. So are chunk extensions,
 * trailers and empty lines before a request.
 *
 * The work is proportional to the number of bytes, however they are split into packets.
 */
#ifndef RN_WIRE_HTTP_H
#define RN_WIRE_HTTP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/slice.h"
#include "wire/parse.h"

#define RN_HTTP_HEADERS_MAX 100
#define RN_HTTP_HEAD_MAX (16 * 1024)
#define RN_HTTP_TARGET_MAX (8 * 1024)
/* The longest request that is not refused, on the wire. */
#define RN_HTTP_BYTES_MAX(body_max) (RN_HTTP_HEAD_MAX + RN_HTTP_FRAMING_MAX + 2 * (body_max))
#define RN_HTTP_FRAMING_MAX (16 * 1024) /* framing of chunks, beyond one byte per byte of body */

/* What happens to the connection after the response. */
enum rn_http_connection {
    RN_HTTP_CLOSE,
    RN_HTTP_KEEP,     /* HTTP/1.1: the default, no header needed */
    RN_HTTP_KEEP_SAY, /* HTTP/1.0 that asked for it: the response must say so */
};

struct rn_http_header {
    struct rn_slice name; /* as sent */
    struct rn_slice value;
};

/* Slices point into the data; the body of a chunked request points into the scratch buffer. */
struct rn_http_request {
    struct rn_slice method, target; /* target as sent: /path?query, or absolute */
    struct rn_slice path, query;    /* parts of the target, not decoded; query without the ? */
    struct rn_slice host;           /* from an absolute target, else the Host header; with port */
    uint8_t minor;                  /* HTTP/1.minor */
    enum rn_http_connection keep_alive; /* not 0: keep the connection */
    bool expect_continue;
    bool has_origin; /* an Origin header: a browser sent it */
    uint32_t header_count;
    struct rn_http_header headers[RN_HTTP_HEADERS_MAX];
    struct rn_slice body;
    size_t bytes; /* its length on the wire */
};

/* State kept while one request arrives. Zeroed is ready. */
struct rn_http_parser {
    size_t need;  /* after MORE: call again when there are this many bytes */
    bool expects; /* the client waits for 100-continue: send it and clear this */

    bool chunked; /* private from here on */
    uint8_t minor;
    uint8_t facts;
    uint32_t header_count;
    size_t seen;         /* bytes read */
    size_t line;         /* where the current line begins */
    size_t head_bytes;   /* 0: the head is not complete */
    uint64_t body_bytes; /* Content-Length, or the sum of the chunks so far */
    uint64_t chunk_left;
    uint32_t chunk_state, chunk_digits;
};

struct rn_http_limits {
    size_t body_max;
};

/* What to answer to a BAD request. */
struct rn_http_error {
    uint16_t status; /* 400, 413, 414, 417, 431, 501, 505; 500: out of memory */
    const char *text;
};

/* `data` has `len` bytes from the beginning of a request: those of the last call, unchanged, and
 * more. DONE fills the request and clears the parser; otherwise the request has no meaning.
 * `scratch` is cleared, and holds the body of a chunked request. The next request begins at
 * data + request->bytes. */
enum rn_parse rn_http_parse(struct rn_http_parser *parser, const struct rn_http_limits *limits,
                            const char *data, size_t len, struct rn_buf *scratch,
                            struct rn_http_request *request, struct rn_http_error *error);

/* The value of the first header with that name (lower case); data NULL: there is none. */
struct rn_slice rn_http_find(const struct rn_http_request *request, const char *lower_name);

/* Takes the next name=value pair off a query and decodes it (%41, +) into `out`, which must have
 * room for the whole query at first and is advanced. False: no more pairs. Without a = the value's
 * data is NULL. A bad escape sets *bad, which is never cleared here, and is left as it is. */
bool rn_http_query_next(struct rn_slice *rest, char **out, struct rn_slice *name,
                        struct rn_slice *value, bool *bad);

/* Begins a response with its status line. The caller adds headers (name: value\r\n), then calls
 * rn_http_put_body, which leaves out the body for a HEAD request. Not for 1xx and 204, which must
 * not have a length. */
void rn_http_put_status(struct rn_buf *out, unsigned status);
/* Control bytes in the value, CR and LF above all, become spaces. */
void rn_http_put_header(struct rn_buf *out, const char *name, struct rn_slice value);
/* The content type is a constant, not checked; NULL: none. */
void rn_http_put_body(struct rn_buf *out, enum rn_http_connection connection, bool head,
                      const char *content_type, struct rn_slice body);
/* The answer to parser->expects. */
void rn_http_put_continue(struct rn_buf *out);

#endif
