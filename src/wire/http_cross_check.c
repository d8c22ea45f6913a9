/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A second opinion from llhttp, a widely used parser. It knows the methods and decodes chunks;
 * a request that it reads differently from us is refused.
 */
#include <llhttp.h>

#include "wire/http_internal.h"

struct check {
    llhttp_t llhttp; /* first: callbacks get its address */
    bool pause;      /* at the end of the head */
    bool saw_head;
    uint64_t length;
    uint16_t flags;
    struct rn_buf *body;
};

static int on_head(llhttp_t *llhttp)
{
    struct check *check = (struct check *)llhttp;

    check->saw_head = true;
    check->length = llhttp->content_length;
    check->flags = llhttp->flags;
    llhttp->upgrade = 0; /* rationd serves no other protocol on this connection */
    return check->pause ? HPE_PAUSED : 0;
}

static int on_body(llhttp_t *llhttp, const char *at, size_t len)
{
    rn_buf_put(((struct check *)llhttp)->body, at, len);
    return 0;
}

static int on_end(llhttp_t *llhttp)
{
    (void)llhttp;
    return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
    .on_headers_complete = on_head,
    .on_body = on_body,
    .on_message_complete = on_end,
};

static enum rn_parse disagree(llhttp_errno_t found, struct rn_http_error *error)
{
    /* HPE_INVALID_CONSTANT: a method of another protocol, such as RTSP. */
    if (found == HPE_INVALID_METHOD || found == HPE_INVALID_CONSTANT)
        return rn_http_refuse(error, 501, "unknown method");
    return rn_http_refuse(error, 400, "the request is ambiguous");
}

/* Runs to the end of the head or of the request, which must be at `bytes`. */
static enum rn_parse run(struct check *check, const struct rn_http_parser *parser, const char *data,
                         size_t bytes, struct rn_http_error *error)
{
    llhttp_errno_t found;

    llhttp_init(&check->llhttp, HTTP_REQUEST, &settings);
    found = llhttp_execute(&check->llhttp, data, bytes);
    if (found != HPE_PAUSED || !check->saw_head ||
        llhttp_get_error_pos(&check->llhttp) != data + bytes)
        return disagree(found, error);
    if (((check->flags & F_CHUNKED) != 0) != parser->chunked ||
        (!parser->chunked && check->length != parser->body_bytes) ||
        check->llhttp.http_minor != parser->minor)
        return disagree(HPE_OK, error);
    return RN_PARSE_DONE;
}

enum rn_parse rn_http_cross_check_head(const struct rn_http_parser *parser, const char *data,
                                       struct rn_http_error *error)
{
    struct check check;

    check.pause = true;
    check.saw_head = false;
    return run(&check, parser, data, parser->head_bytes, error);
}

enum rn_parse rn_http_cross_check_chunked(const struct rn_http_parser *parser, const char *data,
                                          size_t bytes, struct rn_buf *body,
                                          struct rn_http_error *error)
{
    struct check check = {.body = body};

    rn_buf_clear(body);
    if (run(&check, parser, data, bytes, error) == RN_PARSE_BAD)
        return RN_PARSE_BAD;
    if (body->failed)
        return rn_http_refuse(error, 500, "out of memory");
    return body->len == parser->body_bytes ? RN_PARSE_DONE : disagree(HPE_OK, error);
}
