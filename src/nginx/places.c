/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places of concurrency limits that this nginx has given to a request. The worker renews
 * their lease as long as the request lasts and releases them at the end. Places of a killed
 * worker come free when the lease ends.
 */
#include "limiter/limiter.h"
#include "nginx/module.h"

#define RENEW_MIN_MS 100

struct rn_ngx_places {
    struct rn_ngx_worker *worker;
    ngx_event_t timer;
    ngx_msec_t renew_ms; /* a third of the shortest lease */
    uint64_t lease;
    uint32_t count;
    struct ration_place places[RATION_LEASES_MAX];
};

static void change_all(struct rn_ngx_places *held, enum rn_op op)
{
    int64_t now_ns = ration_now(held->worker->limiter);

    for (uint32_t i = 0; i < held->count; i++) {
        const struct ration_place *place = &held->places[i];
        int code = rn_limiter_lease_change(held->worker->limiter, op, held->lease, place,
                                           op == RN_RENEW ? place->lease_ns : 0, now_ns);

        if (code != 0 && code != RATION_EGONE) {
            ngx_log_error(NGX_LOG_ERR, held->timer.log, 0, "ration: a place: %s",
                          ration_error_text(code));
        }
    }
}

static void renew(ngx_event_t *event)
{
    struct rn_ngx_places *held = event->data;

    change_all(held, RN_RENEW);
    ngx_add_timer(event, held->renew_ms);
}

ngx_int_t rn_ngx_places_hold(struct rn_ngx_context *context, struct ration_outcome *outcome)
{
    struct rn_ngx_places *held = ngx_pcalloc(context->request->pool, sizeof *held);
    int64_t shortest_ns = outcome->places[0].lease_ns;

    if (!held) {
        (void)ration_outcome_give_back(context->worker->limiter, outcome, RATION_NOW);
        return NGX_ERROR;
    }
    held->worker = context->worker;
    held->lease = outcome->lease;
    held->count = outcome->place_count;
    memcpy(held->places, outcome->places, sizeof held->places);
    for (uint32_t i = 1; i < outcome->place_count; i++)
        if (outcome->places[i].lease_ns < shortest_ns)
            shortest_ns = outcome->places[i].lease_ns;
    held->renew_ms = (ngx_msec_t)(shortest_ns / 3000000);
    if (held->renew_ms < RENEW_MIN_MS)
        held->renew_ms = RENEW_MIN_MS;
    held->timer.handler = renew;
    held->timer.data = held;
    held->timer.log = ngx_cycle->log;
    held->timer.cancelable = 1; /* the request itself keeps a worker from ending */
    ngx_add_timer(&held->timer, held->renew_ms);
    context->places = held;
    outcome->place_count = 0; /* they are released here and nowhere else */
    return NGX_OK;
}

void rn_ngx_places_end(struct rn_ngx_context *context)
{
    struct rn_ngx_places *held = context->places;

    context->places = NULL;
    if (held->timer.timer_set)
        ngx_del_timer(&held->timer);
    change_all(held, RN_RELEASE);
}
