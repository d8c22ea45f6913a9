/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a decision adds to responses. Rate limit headers are written when the decision is made,
 * and added to the response that the request gets in the end. The response to a refused
 * request is an error_page if there is one for the status, else a body for programs.
 */
#include "nginx/module.h"
#include "wire/answer.h"

#define PROBLEM "application/problem+json"

/* --- headers ------------------------------------------------------------------------------- */

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

/* --- refusals ------------------------------------------------------------------------------ */

static bool has_error_page(ngx_http_request_t *r, ngx_uint_t status)
{
    ngx_http_core_loc_conf_t *core = ngx_http_get_module_loc_conf(r, ngx_http_core_module);
    ngx_http_err_page_t *pages = core->error_pages ? core->error_pages->elts : NULL;

    for (ngx_uint_t i = 0; pages && i < core->error_pages->nelts; i++)
        if ((ngx_uint_t)pages[i].status == status)
            return true;
    return false;
}

/* Weights (q=) are ignored: a client that lists the type understands it. */
static bool accepts_problem(ngx_http_request_t *r)
{
    for (ngx_list_part_t *part = &r->headers_in.headers.part; part; part = part->next) {
        ngx_table_elt_t *headers = part->elts;

        for (ngx_uint_t i = 0; i < part->nelts; i++)
            if (rn_slice_equal(
                    (struct rn_slice){(const char *)headers[i].lowcase_key, headers[i].key.len},
                    RN_SLICE("accept")) &&
                memmem(headers[i].value.data, headers[i].value.len, PROBLEM, sizeof PROBLEM - 1))
                return true;
    }
    return false;
}

ngx_int_t rn_ngx_refuse(struct rn_ngx_context *context, const struct ration_outcome *outcome,
                        int64_t now_ns)
{
    static ngx_str_t json = ngx_string("application/json"), problem_json = ngx_string(PROBLEM);
    ngx_http_request_t *r = context->request;
    enum rn_ngx_body how = (enum rn_ngx_body)rn_ngx_location_of(r)->body;
    struct rn_buf *text = &context->worker->text;
    struct rn_answer_extra extra = {.wall_ns = ration_wall(context->worker->limiter, now_ns)};
    ngx_http_complex_value_t body;

    if (how == RN_NGX_BODY_OFF || has_error_page(r, outcome->status))
        return outcome->status;
    bool problem = how == RN_NGX_BODY_PROBLEM || (how == RN_NGX_BODY_AUTO && accepts_problem(r));

    rn_buf_clear(text);
    rn_answer_put_body(text, outcome, &extra, problem);
    ngx_memzero(&body, sizeof body);
    if (!text->failed)
        body.value = rn_ngx_copy(r->pool, text->data, text->len);
    if (!body.value.data)
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    ngx_http_finalize_request(
        r, ngx_http_send_response(r, outcome->status, problem ? &problem_json : &json, &body));
    return NGX_DONE;
}
