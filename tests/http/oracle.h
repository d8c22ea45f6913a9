/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What llhttp on its own, in its strict mode, makes of a request, and what ours
 * makes of it, as text in the same form:
 *
 *     POST /path?query HTTP/1.1
 *     Name: value
 *
 *     body
 *
 * For whatever includes this: the unit test and the fuzz target.
 */
#ifndef TESTS_HTTP_ORACLE_H
#define TESTS_HTTP_ORACLE_H

#include <llhttp.h>

#include "wire/http.h"

struct oracle {
    llhttp_t llhttp;
    struct rn_buf target, lines, body;
    size_t value_start;
};

static int oracle_target(llhttp_t *llhttp, const char *at, size_t len)
{
    rn_buf_put(&((struct oracle *)llhttp)->target, at, len);
    return 0;
}

static int oracle_text(llhttp_t *llhttp, const char *at, size_t len)
{
    rn_buf_put(&((struct oracle *)llhttp)->lines, at, len);
    return 0;
}

static int oracle_name_end(llhttp_t *llhttp)
{
    struct oracle *oracle = (struct oracle *)llhttp;

    rn_buf_put_literal(&oracle->lines, ": ");
    oracle->value_start = oracle->lines.len;
    return 0;
}

static int oracle_value_end(llhttp_t *llhttp)
{
    struct oracle *oracle = (struct oracle *)llhttp;
    struct rn_buf *lines = &oracle->lines;

    /* White space behind a value is none of it (RFC 9110 §5.5). */
    while (lines->len > oracle->value_start &&
           (lines->data[lines->len - 1] == ' ' || lines->data[lines->len - 1] == '\t'))
        lines->len--;
    rn_buf_put_literal(lines, "\n");
    return 0;
}

static int oracle_head_end(llhttp_t *llhttp)
{
    llhttp->upgrade = 0;
    return 0;
}

static int oracle_body(llhttp_t *llhttp, const char *at, size_t len)
{
    rn_buf_put(&((struct oracle *)llhttp)->body, at, len);
    return 0;
}

static int oracle_end(llhttp_t *llhttp)
{
    (void)llhttp;
    return HPE_PAUSED;
}

/* The first request in the data: how long it is. 0: refused, or not complete. */
static size_t oracle_read(const char *data, size_t len, struct rn_buf *told)
{
    static const llhttp_settings_t settings = {
        .on_url = oracle_target,
        .on_header_field = oracle_text,
        .on_header_field_complete = oracle_name_end,
        .on_header_value = oracle_text,
        .on_header_value_complete = oracle_value_end,
        .on_headers_complete = oracle_head_end,
        .on_body = oracle_body,
        .on_message_complete = oracle_end,
    };
    struct oracle oracle = {.value_start = 0};
    size_t bytes = 0;

    llhttp_init(&oracle.llhttp, HTTP_REQUEST, &settings);
    if (llhttp_execute(&oracle.llhttp, data, len) == HPE_PAUSED) {
        bytes = (size_t)(llhttp_get_error_pos(&oracle.llhttp) - data);
        rn_buf_clear(told);
        rn_buf_putf(told, "%s ", llhttp_method_name((llhttp_method_t)oracle.llhttp.method));
        rn_buf_put_slice(told, rn_buf_slice(&oracle.target));
        rn_buf_putf(told, " HTTP/%d.%d\n", oracle.llhttp.http_major, oracle.llhttp.http_minor);
        rn_buf_put_slice(told, rn_buf_slice(&oracle.lines));
        rn_buf_put_literal(told, "\n");
        rn_buf_put_slice(told, rn_buf_slice(&oracle.body));
    }
    rn_buf_done(&oracle.target);
    rn_buf_done(&oracle.lines);
    rn_buf_done(&oracle.body);
    return bytes;
}

static void oracle_tell(const struct rn_http_request *request, struct rn_buf *told)
{
    rn_buf_clear(told);
    rn_buf_put_slice(told, request->method);
    rn_buf_put_literal(told, " ");
    rn_buf_put_slice(told, request->target);
    rn_buf_putf(told, " HTTP/1.%d\n", request->minor);
    for (uint32_t i = 0; i < request->header_count; i++) {
        rn_buf_put_slice(told, request->headers[i].name);
        rn_buf_put_literal(told, ": ");
        rn_buf_put_slice(told, request->headers[i].value);
        rn_buf_put_literal(told, "\n");
    }
    rn_buf_put_literal(told, "\n");
    rn_buf_put_slice(told, request->body);
}

/* Whether llhttp reads the same request from the same bytes. */
static bool oracle_agrees(const char *data, const struct rn_http_request *request)
{
    struct rn_buf ours = {0}, theirs = {0};
    bool agrees;

    oracle_tell(request, &ours);
    agrees = oracle_read(data, request->bytes, &theirs) == request->bytes &&
             rn_slice_equal(rn_buf_slice(&ours), rn_buf_slice(&theirs));
    rn_buf_done(&ours);
    rn_buf_done(&theirs);
    return agrees;
}

#endif
