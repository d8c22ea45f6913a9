/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rate limit headers. They are written when the decision is made, and added to the response
 * that the request gets in the end.
 */
#include "nginx/module.h"
#include "wire/answer.h"

static ngx_http_output_header_filter_pt next_filter;

ngx_int_t rn_ngx_headers_note(struct rn_ngx_context *context, const struct ration_outcome *outcome,
                              int64_t now_ns)
{
    struct rn_ngx_worker *worker = context->worker;
    struct rn_answer_extra extra = {.wall_ns = ration_wall(worker->limiter, now_ns)};

    rn_buf_clear(&worker->text);
    rn_answer_put_headers(&worker->text, outcome, &extra);
    if (worker->text.failed)
        return NGX_ERROR;
    if (worker->text.len == 0)
        return NGX_OK;
    context->headers = rn_ngx_copy(context->request->pool, worker->text.data, worker->text.len);
    return context->headers.data ? NGX_OK : NGX_ERROR;
}

RN_HOT static ngx_int_t filter(ngx_http_request_t *r)
{
    struct rn_ngx_context *context = r == r->main ? rn_ngx_context_find(r) : NULL;
    u_char *at = NULL, *end = NULL;

    if (context && context->headers.len != 0) {
        at = context->headers.data;
        end = at + context->headers.len;
    }
    while (at < end) { /* lines "Name: value\r\n" */
        u_char *colon = memchr(at, ':', (size_t)(end - at));
        u_char *line_end = memchr(at, '\r', (size_t)(end - at));
        ngx_table_elt_t *header = ngx_list_push(&r->headers_out.headers);

        if (!header)
            return NGX_ERROR;
        ngx_memzero(header, sizeof *header);
        header->hash = 1;
        header->key = (ngx_str_t){(size_t)(colon - at), at};
        header->value = (ngx_str_t){(size_t)(line_end - colon) - 2, colon + 2};
        at = line_end + 2;
    }
    return next_filter(r);
}

void rn_ngx_headers_init(void)
{
    next_filter = ngx_http_top_header_filter;
    ngx_http_top_header_filter = filter;
}
