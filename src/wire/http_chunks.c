/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a chunked body ends (RFC 9112 §7.1), and whether it is worth waiting for.
 * Sizes are hexadecimal digits and nothing else: no extensions, and no trailers
 * behind the last chunk.
 */
#include "wire/hex.h"
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

/* The size is complete. */
static enum rn_parse begin_chunk(struct rn_http_parser *parser, const struct rn_http_limits *limits,
                                 struct rn_http_error *error)
{
    uint64_t wire = parser->seen - parser->head_bytes;

    if (parser->chunk_left > limits->body_max - parser->body_bytes)
        return rn_http_refuse(error, 413, "the body is too long");
    if (wire - parser->body_bytes > RN_HTTP_FRAMING_MAX + parser->body_bytes)
        return rn_http_refuse(error, 413, "the chunks are too small for the body they make");
    parser->body_bytes += parser->chunk_left;
    parser->chunk_digits = 0;
    parser->chunk_state = SIZE_LF;
    return RN_PARSE_DONE;
}

static enum rn_parse read_size(struct rn_http_parser *parser, const struct rn_http_limits *limits,
                               char c, struct rn_http_error *error)
{
    int digit = rn_hex_digit(c);

    if (digit >= 0) {
        if (parser->chunk_digits++ == DIGITS_MAX)
            return rn_http_refuse(error, 400, "a chunk size of more than 8 digits");
        parser->chunk_left = parser->chunk_left << 4 | (unsigned)digit;
        return RN_PARSE_DONE;
    }
    if (parser->chunk_digits == 0)
        return rn_http_refuse(error, 400, "a chunk must begin with its size in hexadecimal");
    if (c == '\r')
        return begin_chunk(parser, limits, error);
    if (c == ';')
        return rn_http_refuse(error, 400, "chunk extensions are not served");
    return rn_http_refuse(error, 400, "a chunk size must end with CR LF");
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

/* As much of the data as is there. */
static void pass_data(struct rn_http_parser *parser, size_t len)
{
    size_t there = len - parser->seen;
    size_t step = there < parser->chunk_left ? there : (size_t)parser->chunk_left;

    parser->seen += step;
    parser->chunk_left -= step;
    if (parser->chunk_left == 0)
        parser->chunk_state = DATA_CR;
}

/* How many bytes at least are missing: behind data an end of line, and the end of
 * everything, of five bytes. */
static size_t least_more(const struct rn_http_parser *parser)
{
    return parser->chunk_state == DATA ? (size_t)parser->chunk_left + 2 + 5 : 1;
}

enum rn_parse rn_http_chunks_read(struct rn_http_parser *parser,
                                  const struct rn_http_limits *limits, const char *data, size_t len,
                                  struct rn_http_error *error)
{
    while (parser->chunk_state != COMPLETE) {
        if (parser->seen == len) {
            parser->need = len + least_more(parser);
            return RN_PARSE_MORE;
        }
        if (parser->chunk_state == DATA) {
            pass_data(parser, len);
            continue;
        }
        if (read_framing(parser, limits, data[parser->seen++], error) == RN_PARSE_BAD)
            return RN_PARSE_BAD;
    }
    return RN_PARSE_DONE;
}
