/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the end of a chunked body (RFC 9112 §7.1), and refuses a body that grows too long.
 * A size is hexadecimal digits only: no extensions, and no trailers after the last chunk.
 */
#include "wire/http_internal.h"

#define DIGITS_MAX 8 /* of a size */

enum state {
    SIZE, /* or its first digit */
    SIZE_LF,
    DATA, /* chunk_left bytes of it */
    DATA_CR,
    DATA_LF,
    LAST_CR, /* of the empty line behind the chunk of size 0 */
    LAST_LF,
    COMPLETE,
};

static enum rn_parse read_size(struct rn_http_parser *parser, const struct rn_http_limits *limits,
                               char c, struct rn_http_error *error)
{
    int digit = rn_parse_hex_digit(c);
    uint64_t wire = parser->seen - parser->head_bytes;

    if (digit >= 0) {
        if (parser->chunk_digits++ == DIGITS_MAX)
            return rn_http_refuse(error, 400, "a chunk size of more than 8 digits");
        parser->chunk_left = parser->chunk_left << 4 | (unsigned)digit;
        return RN_PARSE_DONE;
    }
    if (parser->chunk_digits == 0)
        return rn_http_refuse(error, 400, "a chunk must begin with its size in hexadecimal");
    if (c != '\r')
        return rn_http_refuse(error, 400,
                              c == ';' ? "chunk extensions are not served"
                                       : "a chunk size must end with CR LF");
    if (parser->chunk_left > limits->body_max - parser->body_bytes)
        return rn_http_refuse(error, 413, "the body is too long");
    if (wire - parser->body_bytes > RN_HTTP_FRAMING_MAX + parser->body_bytes)
        return rn_http_refuse(error, 413, "the chunks are too small for the body they make");
    parser->body_bytes += parser->chunk_left;
    parser->chunk_digits = 0;
    parser->chunk_state = SIZE_LF;
    return RN_PARSE_DONE;
}

static enum rn_parse expect(struct rn_http_parser *parser, bool met, enum state next,
                            const char *otherwise, struct rn_http_error *error)
{
    if (!met)
        return rn_http_refuse(error, 400, otherwise);
    parser->chunk_state = next;
    return RN_PARSE_DONE;
}

/* One byte that is not data. */
static enum rn_parse read_framing(struct rn_http_parser *parser,
                                  const struct rn_http_limits *limits, char c,
                                  struct rn_http_error *error)
{
    switch ((enum state)parser->chunk_state) {
    case SIZE:
        return read_size(parser, limits, c, error);
    case SIZE_LF:
        return expect(parser, c == '\n', parser->chunk_left > 0 ? DATA : LAST_CR,
                      "a chunk size must end with CR LF", error);
    case DATA_CR:
        return expect(parser, c == '\r', DATA_LF, "a chunk must end with CR LF", error);
    case DATA_LF:
        return expect(parser, c == '\n', SIZE, "a chunk must end with CR LF", error);
    case LAST_CR:
        return expect(parser, c == '\r', LAST_LF,
                      "an empty line must follow the last chunk: trailers are not served", error);
    case LAST_LF:
        return expect(parser, c == '\n', COMPLETE, "CR without LF behind the last chunk", error);
    case DATA:
    case COMPLETE:
        break;
    }
    return RN_PARSE_DONE;
}

enum rn_parse rn_http_chunks_read(struct rn_http_parser *parser,
                                  const struct rn_http_limits *limits, const char *data, size_t len,
                                  struct rn_http_error *error)
{
    while (parser->chunk_state != COMPLETE) {
        size_t have = len - parser->seen;

        if (have == 0) {
            /* Data still needs its own end of line and the five bytes that end the body. */
            parser->need =
                len + (parser->chunk_state == DATA ? (size_t)parser->chunk_left + 2 + 5 : 1);
            return RN_PARSE_MORE;
        }
        if (parser->chunk_state == DATA) {
            size_t step = have < parser->chunk_left ? have : (size_t)parser->chunk_left;

            parser->seen += step;
            parser->chunk_left -= step;
            if (parser->chunk_left == 0)
                parser->chunk_state = DATA_CR;
        } else if (read_framing(parser, limits, data[parser->seen++], error) == RN_PARSE_BAD) {
            return RN_PARSE_BAD;
        }
    }
    return RN_PARSE_DONE;
}
