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

static ngx_int_t wait_more(struct rn_ngx_visit *visit, int64_t now_ns)
{
    ngx_int_t code = rn_ngx_pause(visit);

    if (code == NGX_AGAIN)
        ngx_add_timer(&visit->timer, rn_ngx_milliseconds(visit->until_ns - now_ns));
    return code;
}

ngx_int_t rn_ngx_delay_begin(struct rn_ngx_visit *visit, int64_t now_ns)
{
    visit->outcome = ngx_palloc(visit->request->pool, sizeof *visit->outcome);
    if (!visit->outcome)
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    *visit->outcome = visit->worker->outcome;
    visit->waiting = true;
    visit->until_ns = now_ns + visit->delay_ns;
    visit->timer.handler = wake;
    visit->timer.data = visit;
    visit->timer.log = visit->request->connection->log;
    return wait_more(visit, now_ns);
}

ngx_int_t rn_ngx_delay_check(struct rn_ngx_visit *visit)
{
    int64_t now_ns = ration_now(visit->worker->limiter);

    if (now_ns < visit->until_ns)
        return wait_more(visit, now_ns);
    visit->waiting = false;
    return NGX_DECLINED;
}

void rn_ngx_delay_leave(struct rn_ngx_link *link, struct rn_slice turn)
{
    rn_ngx_ticket_send(link, RN_SLICE("RATION.REFUND"), turn, (struct rn_slice){NULL, 0});
}

void rn_ngx_delay_end(struct rn_ngx_visit *visit)
{
    if (visit->timer.timer_set)
        ngx_del_timer(&visit->timer);
    if (!visit->waiting)
        return;
    visit->waiting = false;
    /* What cannot be returned is burnt. */
    (void)ration_outcome_give_back(visit->worker->limiter, visit->outcome, RATION_NOW);
    if (visit->turn)
        rn_ngx_delay_leave(visit->turn->link, rn_ngx_slice(visit->turn->text));
}
