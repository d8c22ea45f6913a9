/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of the HTTP parser: http_parse.c calls the others. http_head.c finds the lines of a
 * head, http_lines.c and http_headers.c parse them, http_chunks.c follows a chunked body,
 * http_cross_check.c asks llhttp.
 *
 * Each file reads the bytes in order and refuses the first bad one, so that the answer does not
 * depend on how the request is split into packets.
 */
#ifndef RN_WIRE_HTTP_INTERNAL_H
#define RN_WIRE_HTTP_INTERNAL_H

#include "wire/http.h"

/* Bits of parser->facts: which headers were seen, and what they said. */
enum rn_http_fact {
    RN_HTTP_HAS_HOST = 1,
    RN_HTTP_HAS_LENGTH = 2,
    RN_HTTP_SAYS_CLOSE = 4,
    RN_HTTP_SAYS_KEEP_ALIVE = 8,
    RN_HTTP_SAYS_EXPECT = 16,
    RN_HTTP_IS_ABSOLUTE = 32, /* the target names the host */
    RN_HTTP_IS_RARE = 64,     /* the method is not PATCH or one of RFC 9110 */
    RN_HTTP_HAS_ORIGIN = 128,
};

/* Always RN_PARSE_BAD. */
enum rn_parse rn_http_refuse(struct rn_http_error *error, unsigned status, const char *text);

/* Continues at parser->seen. DONE sets head_bytes. The request gets the lines that end during
 * this call: all of them if the parser was zeroed. */
enum rn_parse rn_http_head_read(struct rn_http_parser *parser, const char *data, size_t len,
                                struct rn_http_request *request, struct rn_http_error *error);

/* Lines come without CR LF, which follow in memory, and have no control bytes but tabs. DONE or
 * BAD. */
enum rn_parse rn_http_request_line(struct rn_http_parser *parser, struct rn_slice line,
                                   struct rn_http_request *request, struct rn_http_error *error);
enum rn_parse rn_http_header_line(struct rn_http_parser *parser, struct rn_slice line,
                                  struct rn_http_request *request, struct rn_http_error *error);

/* Continues after the head. DONE: parser->seen is after the last byte. */
enum rn_parse rn_http_chunks_read(struct rn_http_parser *parser,
                                  const struct rn_http_limits *limits, const char *data, size_t len,
                                  struct rn_http_error *error);

/* Whether llhttp reads the head as we did. DONE or BAD. */
enum rn_parse rn_http_cross_check_head(const struct rn_http_parser *parser, const char *data,
                                       struct rn_http_error *error);
/* The same for a whole chunked request of `bytes`; its body is put into `body`. */
enum rn_parse rn_http_cross_check_chunked(const struct rn_http_parser *parser, const char *data,
                                          size_t bytes, struct rn_buf *body,
                                          struct rn_http_error *error);

#endif
