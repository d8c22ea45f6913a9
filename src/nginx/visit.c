/* SPDX-License-Identifier: Apache-2.0 */
/*
 * nginx forgets the contexts of modules at an internal redirect, but not what is
 * to be done at the end of a request: that is where a visit is found again.
 */
#include "nginx/module.h"

void rn_ngx_visit_time(struct rn_ngx_visit *visit, ngx_event_handler_pt handler)
{
    ngx_memzero(&visit->timer, sizeof visit->timer);
    visit->timer.handler = handler;
    visit->timer.data = visit;
    visit->timer.log = visit->request->connection->log;
    visit->timed = true;
}

void rn_ngx_visit_stop(struct rn_ngx_visit *visit)
{
    if (visit->timed && visit->timer.timer_set)
        ngx_del_timer(&visit->timer);
}

RN_HOT static void end(void *data)
{
    struct rn_ngx_visit *visit = data;

    if (visit->question == RN_NGX_ASKED)
        rn_ngx_ask_end(visit);
    rn_ngx_visit_stop(visit);
    if (visit->waiting)
        rn_ngx_delay_end(visit);
    if (visit->stay)
        rn_ngx_places_end(visit);
    if (visit->lease)
        rn_ngx_lease_end(visit);
}

RN_HOT struct rn_ngx_visit *rn_ngx_visit_find(ngx_http_request_t *r)
{
    struct rn_ngx_visit *visit = ngx_http_get_module_ctx(r->main, ngx_http_ration_module);

    if (visit)
        return visit;
    for (ngx_pool_cleanup_t *cleanup = r->pool->cleanup; cleanup; cleanup = cleanup->next) {
        if (cleanup->handler != end)
            continue;
        ngx_http_set_ctx(r->main, cleanup->data, ngx_http_ration_module);
        return cleanup->data;
    }
    return NULL;
}

RN_HOT struct rn_ngx_visit *rn_ngx_visit_new(ngx_http_request_t *r, struct rn_ngx_worker *worker)
{
    ngx_pool_cleanup_t *cleanup = ngx_pool_cleanup_add(r->pool, sizeof(struct rn_ngx_visit));
    struct rn_ngx_visit *visit;

    if (!cleanup)
        return NULL;
    visit = cleanup->data;
    memset(visit, 0, offsetof(struct rn_ngx_visit, rule));
    visit->rule[0] = '\0';
    visit->request = r;
    visit->worker = worker;
    cleanup->handler = end;
    ngx_http_set_ctx(r, visit, ngx_http_ration_module);
    return visit;
}
