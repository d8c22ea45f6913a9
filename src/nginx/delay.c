/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests that wait for their place in a queue, or are slowed down: a timer
 * holds them, and no worker. nginx's clock is one of milliseconds and may be
 * behind, so the table's is asked whether the time has come.
 */
#include "nginx/module.h"

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
    /* What cannot be returned is burnt. */
    (void)ration_outcome_give_back(context->worker->limiter, context->outcome, RATION_NOW);
    if (context->turn)
        rn_ngx_delay_leave(context->turn->link, rn_ngx_slice(context->turn->text));
}
