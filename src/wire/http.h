/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HTTP/1.1 requests, strictly. Lines are read here; requests with a chunked body or
 * an unusual method are then read by llhttp, too, and both must agree (for all
 * others tests and a fuzz target see to it that they do). What could be read in two
 * ways (both lengths, two lengths, a length that is no number, a coding
 * besides chunked, white space before a colon, folded lines, bare CR or LF, NUL, a
 * request line of four words, no Host or two, ...) is refused, never guessed. So is
 * what nobody needs: chunk extensions, trailers, empty lines before a request.
 *
 * The work is proportional to the bytes, however small the pieces they come in.
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
/* A request on the wire is never longer than this and still wanted. */
#define RN_HTTP_BYTES_MAX(body_max) (RN_HTTP_HEAD_MAX + RN_HTTP_FRAMING_MAX + 2 * (body_max))
#define RN_HTTP_FRAMING_MAX (16 * 1024) /* of chunks, beyond as many bytes as they carry */

/* What becomes of the connection after the answer. */
enum rn_http_connection {
    RN_HTTP_CLOSE,
    RN_HTTP_KEEP,     /* HTTP/1.1: goes without saying */
    RN_HTTP_KEEP_SAY, /* HTTP/1.0 that asked: the answer must say so */
};

struct rn_http_header {
    struct rn_slice name; /* as sent */
    struct rn_slice value;
};

/* Slices point into the data, the body of a chunked one into the scratch. */
struct rn_http_request {
    struct rn_slice method, target;     /* target as sent: /path?query, or absolute */
    struct rn_slice path, query;        /* of the target, not decoded; query without the ? */
    struct rn_slice host;               /* of an absolute target, else the Host header; with port */
    uint8_t minor;                      /* HTTP/1.minor */
    enum rn_http_connection keep_alive; /* as a condition: not to be closed */
    bool expect_continue;
    bool has_origin; /* an Origin header: a browser sent it */
    uint32_t header_count;
    struct rn_http_header headers[RN_HTTP_HEADERS_MAX];
    struct rn_slice body;
    size_t bytes; /* how long it is on the wire */
};

/* What is remembered between pieces of one request. Zeroed is ready. */
struct rn_http_parser {
    size_t need;  /* MORE: bytes that there must be before it is worth asking again */
    bool expects; /* 100-continue is due: answer it and clear this */

    bool chunked; /* private from here on */
    uint8_t minor;
    uint8_t facts;
    uint32_t header_count;
    size_t seen;         /* bytes looked at */
    size_t line;         /* where the line that is being read begins */
    size_t head_bytes;   /* 0: the head is not complete */
    uint64_t body_bytes; /* announced, or in chunks so far */
    uint64_t chunk_left;
    uint32_t chunk_state, chunk_digits;
};

struct rn_http_limits {
    size_t body_max;
};

/* What to answer to a BAD one. */
struct rn_http_error {
    uint16_t status; /* 400, 413, 414, 417, 431, 501, 505; 500: out of memory */
    const char *text;
};

/* `len` bytes from the beginning of a request: those seen before, unchanged, and
 * more. DONE fills the request and clears the parser; else what the request holds
 * means nothing. `scratch` is the caller's and emptied here; needed for chunked
 * bodies only. The next request begins at data + request->bytes. */
enum rn_parse rn_http_parse(struct rn_http_parser *parser, const struct rn_http_limits *limits,
                            const char *data, size_t len, struct rn_buf *scratch,
                            struct rn_http_request *request, struct rn_http_error *error);

/* The first header of that name (lower case); data NULL: there is none. */
struct rn_slice rn_http_find(const struct rn_http_request *request, const char *lower_name);

/* One after the other: name=value pairs of a query, decoded (%41, +) into `out`,
 * which must have room for `rest->len` bytes at first and is advanced. False: no
 * more. Without a = the value's data is NULL. A pair with a bad escape sets *bad,
 * which nothing clears, and is given as it was sent. */
bool rn_http_query_next(struct rn_slice *rest, char **out, struct rn_slice *name,
                        struct rn_slice *value, bool *bad);

/* HTTP/1.1 200 OK and Content-Length to follow: begins an answer. The caller puts
 * headers (name: value\r\n), then calls rn_http_put_body. A body of a HEAD request
 * is left out. Not for 1xx and 204, which must not have a length. */
void rn_http_put_status(struct rn_buf *out, unsigned status);
/* Control bytes in the value, CR and LF above all, become spaces. */
void rn_http_put_header(struct rn_buf *out, const char *name, struct rn_slice value);
/* The content type is one of ours, or NULL. */
void rn_http_put_body(struct rn_buf *out, enum rn_http_connection connection, bool head,
                      const char *content_type, struct rn_slice body);
/* What parser->expects asks for. */
void rn_http_put_continue(struct rn_buf *out);

#endif
