/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Header lines (RFC 9112 §5), and the headers that say how the request is framed.
 */
#include "wire/http_internal.h"
#include "wire/http_text.h"

#define LENGTH_MAX (UINT64_C(1) << 53) /* exact as a double, too */

static enum rn_parse read_length(struct rn_http_parser *parser, struct rn_slice value,
                                 struct rn_http_error *error)
{
    uint64_t n = 0;

    if (parser->facts & RN_HTTP_HAS_LENGTH)
        return rn_http_refuse(error, 400, "more than one Content-Length");
    for (size_t i = 0; i < value.len && n <= LENGTH_MAX; i++) {
        if (!rn_http_is_digit(value.data[i]))
            return rn_http_refuse(error, 400, "Content-Length must be digits");
        n = n * 10 + (uint64_t)(value.data[i] - '0');
    }
    if (value.len == 0 || (value.len > 1 && value.data[0] == '0'))
        return rn_http_refuse(error, 400, "Content-Length must be digits, the first of them not 0");
    if (n > LENGTH_MAX)
        return rn_http_refuse(error, 400, "Content-Length is beyond 2^53");
    parser->facts |= RN_HTTP_HAS_LENGTH;
    parser->body_bytes = n;
    return RN_PARSE_DONE;
}

/* Reads a list of words. Words other than these concern proxies only. */
static void read_connection(struct rn_http_parser *parser, struct rn_slice value)
{
    const char *p = value.data, *end = p + value.len;

    while (p < end) {
        const char *comma = memchr(p, ',', (size_t)(end - p));
        struct rn_slice word = rn_http_trim(p, comma ? comma : end);

        if (RN_HTTP_IS(word, "close"))
            parser->facts |= RN_HTTP_SAYS_CLOSE;
        else if (RN_HTTP_IS(word, "keep-alive"))
            parser->facts |= RN_HTTP_SAYS_KEEP_ALIVE;
        p = comma ? comma + 1 : end;
    }
}

/* Reads the headers that say where the request ends. */
static enum rn_parse heed_framing(struct rn_http_parser *parser,
                                  const struct rn_http_header *header, struct rn_http_error *error)
{
    const char *before = header->name.data + header->name.len + 1;
    const char *after = header->value.data + header->value.len;
    bool has_tab = false; /* around the value, where parsers such as llhttp differ */

    while (before < header->value.data)
        has_tab |= *before++ == '\t';
    while (*after != '\r')
        has_tab |= *after++ == '\t';
    if (has_tab)
        return rn_http_refuse(error, 400, "a tab around Content-Length or Transfer-Encoding");
    if (header->name.len == 14)
        return read_length(parser, header->value, error);
    if (parser->chunked)
        return rn_http_refuse(error, 400, "more than one Transfer-Encoding");
    if (!rn_slice_equal(header->value, RN_SLICE("chunked")))
        return rn_http_refuse(error, 501, "Transfer-Encoding must be chunked and nothing else");
    if (parser->minor == 0)
        return rn_http_refuse(error, 400, "Transfer-Encoding in HTTP/1.0");
    parser->chunked = true;
    return RN_PARSE_DONE;
}

/* Reads the headers that matter to this parser; all others are for the caller. */
static enum rn_parse heed(struct rn_http_parser *parser, const struct rn_http_header *header,
                          struct rn_http_request *request, struct rn_http_error *error)
{
    struct rn_slice name = header->name, value = header->value;

    switch (name.len) {
    case 4:
        if (!RN_HTTP_IS(name, "host"))
            break;
        if (parser->facts & RN_HTTP_HAS_HOST)
            return rn_http_refuse(error, 400, "more than one Host");
        if (!rn_http_text_is_host(value))
            return rn_http_refuse(error, 400, "Host must be a name or address, and perhaps a port");
        parser->facts |= RN_HTTP_HAS_HOST;
        if (!(parser->facts & RN_HTTP_IS_ABSOLUTE))
            request->host = value;
        break;
    case 6:
        if (RN_HTTP_IS(name, "origin"))
            parser->facts |= RN_HTTP_HAS_ORIGIN;
        if (!RN_HTTP_IS(name, "expect"))
            break;
        if (!RN_HTTP_IS(value, "100-continue"))
            return rn_http_refuse(error, 417, "Expect can be 100-continue only");
        if (parser->minor == 1) /* RFC 9110 §10.1.1: ignored in HTTP/1.0 */
            parser->facts |= RN_HTTP_SAYS_EXPECT;
        break;
    case 10:
        if (RN_HTTP_IS(name, "connection"))
            read_connection(parser, value);
        break;
    case 14:
        if (RN_HTTP_IS(name, "content-length"))
            return heed_framing(parser, header, error);
        break;
    case 17:
        if (RN_HTTP_IS(name, "transfer-encoding"))
            return heed_framing(parser, header, error);
    }
    return RN_PARSE_DONE;
}

/* The name ends at `p`, which is no colon. */
static enum rn_parse refuse_name(struct rn_slice line, const char *p, struct rn_http_error *error)
{
    const char *end = line.data + line.len;

    if (p == end)
        return rn_http_refuse(error, 400, "a header line without a colon");
    if (p == line.data && (*p == ' ' || *p == '\t'))
        return rn_http_refuse(error, 400, "a header line begins with white space");
    if (p == line.data && *p == ':')
        return rn_http_refuse(error, 400, "a header without a name");
    if (*p == ' ' || *p == '\t')
        return rn_http_refuse(error, 400, "white space in a header's name, or before its colon");
    return rn_http_refuse(error, 400, "a byte that no header's name may have");
}

enum rn_parse rn_http_header_line(struct rn_http_parser *parser, struct rn_slice line,
                                  struct rn_http_request *request, struct rn_http_error *error)
{
    const char *end = line.data + line.len, *p = rn_http_pass(line.data, RN_HTTP_TOKEN);
    struct rn_http_header *header;

    if (p == end || *p != ':' || p == line.data)
        return refuse_name(line, p, error);
    if (parser->header_count == RN_HTTP_HEADERS_MAX)
        return rn_http_refuse(error, 431, "more than 100 headers");
    header = &request->headers[parser->header_count++];
    header->name = rn_http_between(line.data, p);
    header->value = rn_http_trim(p + 1, end);
    return heed(parser, header, request, error);
}
