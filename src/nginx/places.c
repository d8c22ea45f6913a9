/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places of concurrency limits. They are leased: what a killed worker held comes
 * free by itself. As long as a request lasts its lease is renewed, and its end,
 * whichever way it comes, is the end of the lease.
 */
#include "limiter/lease.h"
#include "nginx/module.h"

#define RENEW_MIN_MS 100

struct rn_ngx_stay {
    struct rn_ngx_worker *worker;
    ngx_event_t timer;
    ngx_msec_t renew_ms; /* a third of the shortest lease */
    uint64_t lease;
    uint32_t count;
    struct ration_place places[RATION_LEASES_MAX];
};

static void change_all(struct rn_ngx_stay *stay, enum rn_op op)
{
    int64_t now_ns = ration_now(stay->worker->limiter);

    for (uint32_t i = 0; i < stay->count; i++) {
        const struct ration_place *place = &stay->places[i];
        int code = rn_lease_change(stay->worker->limiter, op, stay->lease, place,
                                   op == RN_RENEW ? place->lease_ns : 0, now_ns);

        if (code != 0 && code != RATION_EGONE) {
            ngx_log_error(NGX_LOG_ERR, stay->timer.log, 0, "ration: a place: %s",
                          ration_error_text(code));
        }
    }
}

static void renew(ngx_event_t *event)
{
    struct rn_ngx_stay *stay = event->data;

    change_all(stay, RN_RENEW);
    ngx_add_timer(event, stay->renew_ms);
}

static ngx_msec_t renew_after(const struct ration_outcome *outcome)
{
    int64_t shortest_ns = outcome->places[0].lease_ns;
    ngx_msec_t ms;

    for (uint32_t i = 1; i < outcome->place_count; i++)
        if (outcome->places[i].lease_ns < shortest_ns)
            shortest_ns = outcome->places[i].lease_ns;
    ms = (ngx_msec_t)(shortest_ns / 3000000);
    return ms > RENEW_MIN_MS ? ms : RENEW_MIN_MS;
}

ngx_int_t rn_ngx_places_hold(struct rn_ngx_context *context, struct ration_outcome *outcome)
{
    struct rn_ngx_stay *stay;

    stay = ngx_pcalloc(context->request->pool, sizeof *stay);
    if (!stay) {
        (void)ration_outcome_give_back(context->worker->limiter, outcome, RATION_NOW);
        return NGX_ERROR;
    }
    stay->worker = context->worker;
    stay->lease = outcome->lease;
    stay->count = outcome->place_count;
    memcpy(stay->places, outcome->places, sizeof stay->places);
    stay->renew_ms = renew_after(outcome);
    stay->timer.handler = renew;
    stay->timer.data = stay;
    stay->timer.log = ngx_cycle->log;
    stay->timer.cancelable = 1; /* the request itself keeps a worker from ending */
    ngx_add_timer(&stay->timer, stay->renew_ms);
    context->stay = stay;
    outcome->place_count = 0; /* they are released here and nowhere else */
    return NGX_OK;
}

void rn_ngx_places_end(struct rn_ngx_context *context)
{
    struct rn_ngx_stay *stay = context->stay;

    context->stay = NULL;
    if (stay->timer.timer_set)
        ngx_del_timer(&stay->timer);
    change_all(stay, RN_RELEASE);
}
