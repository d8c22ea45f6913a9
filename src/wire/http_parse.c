/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request from its bytes. The common one is complete at the first look and is
 * read once. One that comes in pieces is followed line by line and chunk by chunk,
 * and its head is read a second time when everything is there, for the slices: they
 * have no place in a connection's memory.
 */
#include <assert.h>

#include "wire/http_internal.h"

enum rn_parse rn_http_refuse(struct rn_http_error *error, unsigned status, const char *text)
{
    error->status = (uint16_t)status;
    error->text = text;
    return RN_PARSE_BAD;
}

/* What can be said only when all headers are there. llhttp takes longer for a head
 * than everything else here, so it is asked where it has something to say: about a
 * body in chunks, and a method that is not an everyday one. That it reads all other
 * heads as we do is for tests and fuzzing to show. */
static enum rn_parse check_head(struct rn_http_parser *parser, const struct rn_http_limits *limits,
                                const char *data, struct rn_http_error *error)
{
    if (parser->minor == 1 && !(parser->facts & RN_HTTP_HAS_HOST))
        return rn_http_refuse(error, 400, "no Host header");
    if (parser->chunked && parser->facts & RN_HTTP_HAS_LENGTH)
        return rn_http_refuse(error, 400, "both Content-Length and Transfer-Encoding");
    if (parser->body_bytes > limits->body_max)
        return rn_http_refuse(error, 413, "the body is too long");
    if (parser->chunked || parser->facts & RN_HTTP_IS_RARE)
        return rn_http_judge_head(parser, data, error);
    return RN_PARSE_DONE;
}

static enum rn_parse read_body(struct rn_http_parser *parser, const struct rn_http_limits *limits,
                               const char *data, size_t len, struct rn_http_error *error)
{
    if (parser->chunked)
        return rn_http_chunks_read(parser, limits, data, len, error);
    parser->seen = parser->head_bytes + (size_t)parser->body_bytes;
    parser->need = parser->seen;
    return len < parser->need ? RN_PARSE_MORE : RN_PARSE_DONE;
}

static enum rn_http_connection connection_after(const struct rn_http_parser *parser)
{
    if (parser->facts & RN_HTTP_SAYS_CLOSE)
        return RN_HTTP_CLOSE;
    if (parser->minor == 1)
        return RN_HTTP_KEEP;
    return parser->facts & RN_HTTP_SAYS_KEEP_ALIVE ? RN_HTTP_KEEP_SAY : RN_HTTP_CLOSE;
}

/* The lines are there; everything else, and a parser for the next one. */
static void finish(struct rn_http_parser *parser, struct rn_slice body,
                   struct rn_http_request *request)
{
    request->minor = parser->minor;
    request->keep_alive = connection_after(parser);
    request->expect_continue = (parser->facts & RN_HTTP_SAYS_EXPECT) != 0;
    request->has_origin = (parser->facts & RN_HTTP_HAS_ORIGIN) != 0;
    request->header_count = parser->header_count;
    if (!(parser->facts & (RN_HTTP_HAS_HOST | RN_HTTP_IS_ABSOLUTE)))
        request->host = (struct rn_slice){0};
    request->body = body;
    request->bytes = parser->seen;
    *parser = (struct rn_http_parser){0};
}

static void read_head_again(const struct rn_http_parser *parser, const char *data,
                            struct rn_http_request *request)
{
    struct rn_http_parser again = {0};
    struct rn_http_error error;
    enum rn_parse answer = rn_http_head_read(&again, data, parser->head_bytes, request, &error);

    assert(answer == RN_PARSE_DONE && again.head_bytes == parser->head_bytes);
    (void)answer;
}

/* Until the head is complete and good. */
static enum rn_parse read_head(struct rn_http_parser *parser, const struct rn_http_limits *limits,
                               const char *data, size_t len, struct rn_http_request *request,
                               struct rn_http_error *error)
{
    enum rn_parse answer = rn_http_head_read(parser, data, len, request, error);

    if (answer == RN_PARSE_DONE)
        answer = check_head(parser, limits, data, error);
    return answer;
}

enum rn_parse rn_http_parse(struct rn_http_parser *parser, const struct rn_http_limits *limits,
                            const char *data, size_t len, struct rn_buf *scratch,
                            struct rn_http_request *request, struct rn_http_error *error)
{
    bool fresh = parser->seen == 0, had_head = parser->head_bytes > 0;
    struct rn_slice body;
    enum rn_parse answer;

    if (!had_head) {
        answer = read_head(parser, limits, data, len, request, error);
        if (answer != RN_PARSE_DONE)
            return answer;
    }
    answer = read_body(parser, limits, data, len, error);
    if (answer == RN_PARSE_MORE && !had_head)
        parser->expects = (parser->facts & RN_HTTP_SAYS_EXPECT) != 0;
    if (answer != RN_PARSE_DONE)
        return answer;
    if (!fresh)
        read_head_again(parser, data, request);
    body = (struct rn_slice){data + parser->head_bytes, (size_t)parser->body_bytes};
    if (parser->chunked) {
        if (rn_http_judge_chunked(parser, data, parser->seen, scratch, error) == RN_PARSE_BAD)
            return RN_PARSE_BAD;
        body = rn_buf_slice(scratch);
    }
    finish(parser, body, request);
    return RN_PARSE_DONE;
}

struct rn_slice rn_http_find(const struct rn_http_request *request, const char *lower_name)
{
    size_t len = strlen(lower_name);

    for (uint32_t i = 0; i < request->header_count; i++) {
        struct rn_slice name = request->headers[i].name;
        size_t at = 0;

        if (name.len != len)
            continue;
        while (at < len &&
               (name.data[at] >= 'A' && name.data[at] <= 'Z' ? name.data[at] | 0x20
                                                             : name.data[at]) == lower_name[at])
            at++;
        if (at == len)
            return request->headers[i].value;
    }
    return (struct rn_slice){0};
}
