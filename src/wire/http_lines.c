/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The request line (RFC 9112 §3).
 */
#include "wire/http_internal.h"
#include "wire/http_text.h"

static void split_query(struct rn_http_request *request, struct rn_slice text)
{
    const char *mark = text.len > 0 ? memchr(text.data, '?', text.len) : NULL;

    request->path = text;
    request->query = (struct rn_slice){0};
    if (mark) {
        request->path = rn_http_between(text.data, mark);
        request->query = rn_http_between(mark + 1, text.data + text.len);
    }
}

/* http://host:port/path?query: the target's host replaces the Host header (RFC 9112 §3.2.2). */
static enum rn_parse read_absolute(struct rn_http_parser *parser, struct rn_http_request *request,
                                   struct rn_http_error *error)
{
    struct rn_slice target = request->target;
    const char *end = target.data + target.len, *p;

    if (target.len > 7 && rn_http_is_word((struct rn_slice){target.data, 7}, "http://", 7))
        p = target.data + 7;
    else if (target.len > 8 && rn_http_is_word((struct rn_slice){target.data, 8}, "https://", 8))
        p = target.data + 8;
    else
        return rn_http_refuse(error, 400, "the target must begin with / or with http://");
    request->host.data = p;
    while (p < end && *p != '/' && *p != '?')
        p++;
    request->host.len = (size_t)(p - request->host.data);
    if (!rn_http_text_is_host(request->host))
        return rn_http_refuse(error, 400, "the target has no host, or a bad one");
    parser->facts |= RN_HTTP_IS_ABSOLUTE;
    split_query(request, rn_http_between(p, end));
    if (request->path.len == 0)
        request->path = RN_SLICE("/");
    return RN_PARSE_DONE;
}

/* Whether a method is PATCH or one of RFC 9110; llhttp knows the others. */
static bool is_common(struct rn_slice method)
{
    switch (method.len) {
    case 3:
        return memcmp(method.data, "GET", 3) == 0 || memcmp(method.data, "PUT", 3) == 0;
    case 4:
        return memcmp(method.data, "POST", 4) == 0 || memcmp(method.data, "HEAD", 4) == 0;
    case 5:
        return memcmp(method.data, "PATCH", 5) == 0 || memcmp(method.data, "TRACE", 5) == 0;
    case 6:
        return memcmp(method.data, "DELETE", 6) == 0;
    case 7:
        return memcmp(method.data, "OPTIONS", 7) == 0;
    }
    return false;
}

static enum rn_parse read_target(struct rn_http_parser *parser, struct rn_http_request *request,
                                 struct rn_http_error *error)
{
    struct rn_slice target = request->target;

    if (target.len > RN_HTTP_TARGET_MAX)
        return rn_http_refuse(error, 414, "the target is longer than 8192 bytes");
    if (!is_common(request->method)) {
        if (rn_slice_is(request->method, "CONNECT"))
            return rn_http_refuse(error, 501, "CONNECT is not served");
        parser->facts |= RN_HTTP_IS_RARE;
    }
    if (target.data[0] == '/') {
        split_query(request, target);
        return RN_PARSE_DONE;
    }
    if (target.len != 1 || target.data[0] != '*')
        return read_absolute(parser, request, error);
    if (!rn_slice_is(request->method, "OPTIONS"))
        return rn_http_refuse(error, 400, "the target * is for OPTIONS only");
    split_query(request, target);
    return RN_PARSE_DONE;
}

static enum rn_parse read_version(struct rn_http_parser *parser, struct rn_slice text,
                                  struct rn_http_error *error)
{
    if (text.len != 8 || memcmp(text.data, "HTTP/", 5) != 0 || text.data[6] != '.' ||
        !rn_http_is_digit(text.data[5]) || !rn_http_is_digit(text.data[7]))
        return rn_http_refuse(error, 400, "the request line must end in a space and HTTP/1.1");
    if (text.data[5] != '1' || text.data[7] > '1')
        return rn_http_refuse(error, 505, "only HTTP/1.1 and HTTP/1.0 are served");
    parser->minor = (uint8_t)(text.data[7] - '0');
    return RN_PARSE_DONE;
}

/* The target ends at `p`, which is no space before a version. */
static enum rn_parse refuse_target(const char *p, const char *end, struct rn_http_error *error)
{
    if (p < end && *p == '#')
        return rn_http_refuse(error, 400, "the target has a fragment (#)");
    if (p < end && *p != ' ')
        return rn_http_refuse(error, 400, "a byte in the target is not visible ASCII: use %XX");
    return rn_http_refuse(error, 400, "the request line must be METHOD TARGET HTTP/1.1");
}

enum rn_parse rn_http_request_line(struct rn_http_parser *parser, struct rn_slice line,
                                   struct rn_http_request *request, struct rn_http_error *error)
{
    const char *p = line.data, *end = p + line.len, *target;

    if (line.len == 0)
        return rn_http_refuse(error, 400, "an empty line where a request must begin");
    p = rn_http_pass(p, RN_HTTP_METHOD);
    if (p == end || *p != ' ' || p == line.data)
        return rn_http_refuse(error, 400,
                              "the request line must begin with a method in capitals and a space");
    request->method = rn_http_between(line.data, p);
    target = ++p;
    p = rn_http_pass(p, RN_HTTP_TARGET);
    if (p == end || *p != ' ' || p == target)
        return refuse_target(p, end, error);
    request->target = rn_http_between(target, p);
    if (read_version(parser, rn_http_between(p + 1, end), error) == RN_PARSE_BAD)
        return RN_PARSE_BAD;
    return read_target(parser, request, error);
}
