/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A second opinion from llhttp, a widely used parser. It knows the methods and decodes chunks;
 * a request that it reads differently from us is refused.
 */
#include <llhttp.h>

#include "wire/http_internal.h"

struct judge {
    llhttp_t llhttp; /* first: callbacks get its address */
    bool pause;      /* at the end of the head */
    bool saw_head;
    uint64_t length;
    uint16_t flags;
    struct rn_buf *body;
};

static int on_head(llhttp_t *llhttp)
{
    struct judge *judge = (struct judge *)llhttp;

    judge->saw_head = true;
    judge->length = llhttp->content_length;
    judge->flags = llhttp->flags;
    llhttp->upgrade = 0; /* rationd serves no other protocol on this connection */
    return judge->pause ? HPE_PAUSED : 0;
}

static int on_body(llhttp_t *llhttp, const char *at, size_t len)
{
    rn_buf_put(((struct judge *)llhttp)->body, at, len);
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
static enum rn_parse run(struct judge *judge, const struct rn_http_parser *parser, const char *data,
                         size_t bytes, struct rn_http_error *error)
{
    llhttp_errno_t found;

    llhttp_init(&judge->llhttp, HTTP_REQUEST, &settings);
    found = llhttp_execute(&judge->llhttp, data, bytes);
    if (found != HPE_PAUSED || !judge->saw_head ||
        llhttp_get_error_pos(&judge->llhttp) != data + bytes)
        return disagree(found, error);
    if (((judge->flags & F_CHUNKED) != 0) != parser->chunked ||
        (!parser->chunked && judge->length != parser->body_bytes) ||
        judge->llhttp.http_minor != parser->minor)
        return disagree(HPE_OK, error);
    return RN_PARSE_DONE;
}

enum rn_parse rn_http_judge_head(const struct rn_http_parser *parser, const char *data,
                                 struct rn_http_error *error)
{
    struct judge judge;

    judge.pause = true;
    judge.saw_head = false;
    return run(&judge, parser, data, parser->head_bytes, error);
}

enum rn_parse rn_http_judge_chunked(const struct rn_http_parser *parser, const char *data,
                                    size_t bytes, struct rn_buf *body, struct rn_http_error *error)
{
    struct judge judge = {.body = body};

    rn_buf_clear(body);
    if (run(&judge, parser, data, bytes, error) == RN_PARSE_BAD)
        return RN_PARSE_BAD;
    if (body->failed)
        return rn_http_refuse(error, 500, "out of memory");
    return body->len == parser->body_bytes ? RN_PARSE_DONE : disagree(HPE_OK, error);
}
