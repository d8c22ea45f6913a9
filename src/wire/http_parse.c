/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses one request. Most are complete at the first call and are read once. A request that comes
 * in pieces is followed line by line and chunk by chunk; its head is parsed a second time when the
 * request is complete, to fill in the slices, which a connection does not store.
 */
#include <assert.h>

#include "wire/http_internal.h"

enum rn_parse rn_http_refuse(struct rn_http_error *error, unsigned status, const char *text)
{
    error->status = (uint16_t)status;
    error->text = text;
    return RN_PARSE_BAD;
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

/* Fills in what the lines did not, and clears the parser for the next request. */
static void finish(struct rn_http_parser *parser, struct rn_slice body,
                   struct rn_http_request *request)
{
    unsigned facts = parser->facts;

    request->minor = parser->minor;
    request->keep_alive = facts & RN_HTTP_SAYS_CLOSE        ? RN_HTTP_CLOSE
                          : parser->minor == 1              ? RN_HTTP_KEEP
                          : facts & RN_HTTP_SAYS_KEEP_ALIVE ? RN_HTTP_KEEP_SAY
                                                            : RN_HTTP_CLOSE;
    request->expect_continue = (facts & RN_HTTP_SAYS_EXPECT) != 0;
    request->has_origin = (facts & RN_HTTP_HAS_ORIGIN) != 0;
    request->header_count = parser->header_count;
    if (!(facts & (RN_HTTP_HAS_HOST | RN_HTTP_IS_ABSOLUTE)))
        request->host = (struct rn_slice){0};
    request->body = body;
    request->bytes = parser->seen;
    *parser = (struct rn_http_parser){0};
}

/* Reads the head, and checks what depends on several headers. llhttp takes longer for a head than
 * the rest of this parser, so it is asked only where it knows more: about chunked bodies and
 * unusual methods. Tests and a fuzz target check that it reads all other heads as we do. */
static enum rn_parse read_head(struct rn_http_parser *parser, const struct rn_http_limits *limits,
                               const char *data, size_t len, struct rn_http_request *request,
                               struct rn_http_error *error)
{
    enum rn_parse answer = rn_http_head_read(parser, data, len, request, error);

    if (answer != RN_PARSE_DONE)
        return answer;
    if (parser->minor == 1 && !(parser->facts & RN_HTTP_HAS_HOST))
        return rn_http_refuse(error, 400, "no Host header");
    if (parser->chunked && parser->facts & RN_HTTP_HAS_LENGTH)
        return rn_http_refuse(error, 400, "both Content-Length and Transfer-Encoding");
    if (parser->body_bytes > limits->body_max)
        return rn_http_refuse(error, 413, "the body is too long");
    if (parser->chunked || parser->facts & RN_HTTP_IS_RARE)
        return rn_http_cross_check_head(parser, data, error);
    return RN_PARSE_DONE;
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
    if (!fresh) { /* fill in the slices */
        struct rn_http_parser again = {0};

        answer = rn_http_head_read(&again, data, parser->head_bytes, request, error);
        assert(answer == RN_PARSE_DONE && again.head_bytes == parser->head_bytes);
    }
    body = (struct rn_slice){data + parser->head_bytes, (size_t)parser->body_bytes};
    if (parser->chunked) {
        if (rn_http_cross_check_chunked(parser, data, parser->seen, scratch, error) == RN_PARSE_BAD)
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
