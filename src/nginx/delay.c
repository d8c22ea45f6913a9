/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that wait: for an answer of rationd, for their place in a queue, or because
 * they are slowed down. A waiting request occupies no worker. nginx's clock counts
 * milliseconds and may be late, so the table's clock says when a delay is over.
 */
#include "nginx/module.h"

ngx_int_t rn_ngx_pause(struct rn_ngx_context *context)
{
    ngx_http_request_t *r = context->request;

    if (ngx_handle_read_event(r->connection->read, 0) != NGX_OK)
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    r->read_event_handler = ngx_http_test_reading;
    r->write_event_handler = ngx_http_request_empty_handler;
    return NGX_AGAIN;
}

void rn_ngx_resume(struct rn_ngx_context *context)
{
    ngx_http_request_t *r = context->request;
    ngx_connection_t *connection = r->connection;

    ngx_http_set_log_request(connection->log, r);
    if (ngx_handle_read_event(connection->read, 0) != NGX_OK) {
        ngx_http_finalize_request(r, NGX_HTTP_INTERNAL_SERVER_ERROR);
    } else {
        r->read_event_handler = ngx_http_block_reading;
        r->write_event_handler = ngx_http_core_run_phases;
        ngx_http_core_run_phases(r);
    }
    ngx_http_run_posted_requests(connection);
}

static void wake(ngx_event_t *event)
{
    rn_ngx_resume(event->data);
}

static ngx_int_t wait_more(struct rn_ngx_context *context, int64_t now_ns)
{
    ngx_int_t code = rn_ngx_pause(context);

    if (code == NGX_AGAIN)
        ngx_add_timer(&context->timer, rn_ngx_milliseconds(context->until_ns - now_ns));
    return code;
}

ngx_int_t rn_ngx_delay_begin(struct rn_ngx_context *context, int64_t now_ns)
{
    context->outcome = ngx_palloc(context->request->pool, sizeof *context->outcome);
    if (!context->outcome)
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    *context->outcome = context->worker->outcome;
    context->waiting = true;
    context->until_ns = now_ns + context->delay_ns;
    rn_ngx_context_time(context, wake);
    return wait_more(context, now_ns);
}

ngx_int_t rn_ngx_delay_check(struct rn_ngx_context *context)
{
    int64_t now_ns = ration_now(context->worker->limiter);

    if (now_ns < context->until_ns)
        return wait_more(context, now_ns);
    context->waiting = false;
    return NGX_DECLINED;
}

void rn_ngx_delay_leave(struct rn_ngx_link *link, struct rn_slice turn)
{
    rn_ngx_ticket_send(link, RN_SLICE("RATION.REFUND"), turn, (struct rn_slice){NULL, 0});
}

void rn_ngx_delay_end(struct rn_ngx_context *context)
{
    context->waiting = false;
    /* What cannot be given back stays charged. */
    (void)ration_outcome_give_back(context->worker->limiter, context->outcome, RATION_NOW);
    if (context->turn)
        rn_ngx_delay_leave(context->turn->link, rn_ngx_slice(context->turn->text));
}
