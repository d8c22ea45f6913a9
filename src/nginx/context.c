/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nginx clears the contexts of modules at an internal redirect, but keeps the cleanup
 * handlers of the request's pool: there a context is found again.
 */
#include "nginx/module.h"

void rn_ngx_context_time(struct rn_ngx_context *context, ngx_event_handler_pt handler)
{
    ngx_memzero(&context->timer, sizeof context->timer);
    context->timer.handler = handler;
    context->timer.data = context;
    context->timer.log = context->request->connection->log;
    context->timed = true;
}

void rn_ngx_context_stop(struct rn_ngx_context *context)
{
    if (context->timed && context->timer.timer_set)
        ngx_del_timer(&context->timer);
}

RN_HOT static void end(void *data)
{
    struct rn_ngx_context *context = data;

    if (context->question == RN_NGX_ASKED)
        rn_ngx_ask_end(context);
    if (context->question == RN_NGX_IN_LINE)
        rn_ngx_rationd_line_end(context);
    if (context->waiter)
        rn_ngx_line_end(context);
    rn_ngx_context_stop(context);
    if (context->waiting)
        rn_ngx_delay_end(context);
    if (context->places)
        rn_ngx_places_end(context);
    if (context->lease)
        rn_ngx_lease_end(context);
}

RN_HOT struct rn_ngx_context *rn_ngx_context_find(ngx_http_request_t *r)
{
    struct rn_ngx_context *context = ngx_http_get_module_ctx(r->main, ngx_http_ration_module);

    if (context)
        return context;
    for (ngx_pool_cleanup_t *cleanup = r->pool->cleanup; cleanup; cleanup = cleanup->next) {
        if (cleanup->handler != end)
            continue;
        ngx_http_set_ctx(r->main, cleanup->data, ngx_http_ration_module);
        return cleanup->data;
    }
    return NULL;
}

RN_HOT struct rn_ngx_context *rn_ngx_context_new(ngx_http_request_t *r,
                                                 struct rn_ngx_worker *worker)
{
    ngx_pool_cleanup_t *cleanup = ngx_pool_cleanup_add(r->pool, sizeof(struct rn_ngx_context));
    struct rn_ngx_context *context;

    if (!cleanup)
        return NULL;
    context = cleanup->data;
    memset(context, 0, offsetof(struct rn_ngx_context, rule));
    context->rule[0] = '\0';
    context->request = r;
    context->worker = worker;
    cleanup->handler = end;
    ngx_http_set_ctx(r, context, ngx_http_ration_module);
    return context;
}
