/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places of concurrency limits that this nginx or rationd has given to a request. The worker
 * renews their lease as long as the request lasts and releases them at the end. Places of a
 * killed worker come free when the lease ends.
 */
#include "limiter/limiter.h"
#include "nginx/link.h"
#include "nginx/module.h"
#include "wire/parsed_decision.h"

#define RENEW_MIN_MS 100

/* Calls `renew` when a third of the lease has passed. */
static void start(ngx_event_t *timer, ngx_event_handler_pt renew, void *data, int64_t lease_ns,
                  ngx_msec_t *renew_ms)
{
    ngx_msec_t third = (ngx_msec_t)(lease_ns / 3000000);

    *renew_ms = third > RENEW_MIN_MS ? third : RENEW_MIN_MS;
    timer->handler = renew;
    timer->data = data;
    timer->log = ngx_cycle->log;
    timer->cancelable = 1; /* the request itself keeps a worker from ending */
    ngx_add_timer(timer, *renew_ms);
}

/* --- places of this nginx ------------------------------------------------------------------ */

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
    start(&held->timer, renew, held, shortest_ns, &held->renew_ms);
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

/* --- places of rationd, which a ticket names ------------------------------------------------- */

struct rn_ngx_lease {
    struct rn_ngx_link *link;
    ngx_event_t timer;
    ngx_msec_t renew_ms; /* a third of its length */
    ngx_str_t ticket;
};

void rn_ngx_lease_release(struct rn_ngx_link *link, struct rn_slice lease)
{
    rn_ngx_ticket_send(link, RN_SLICE("RATION.RELEASE"), lease, (struct rn_slice){NULL, 0});
}

/* The reply does not matter: if the lease has ended (rationd was restarted without its
 * state, say), nothing can be done for a request that is running. */
static void renew_lease(ngx_event_t *event)
{
    struct rn_ngx_lease *lease = event->data;
    struct rn_slice command =
        rn_ngx_ticket_command(lease->link, RN_SLICE("RATION.RENEW"), rn_ngx_slice(lease->ticket),
                              (struct rn_slice){NULL, 0});

    if (command.len != 0)
        (void)rn_ngx_link_send(lease->link, command, NULL, NULL);
    ngx_add_timer(event, lease->renew_ms);
}

ngx_int_t rn_ngx_lease_hold(struct rn_ngx_context *context, struct rn_ngx_link *link,
                            const struct rn_parsed_decision *parsed)
{
    ngx_pool_t *pool = context->request->pool;
    struct rn_ngx_lease *lease;

    if (!parsed->lease.data)
        return NGX_OK;
    lease = ngx_pcalloc(pool, sizeof *lease);
    if (lease)
        lease->ticket = rn_ngx_copy(pool, parsed->lease.data, parsed->lease.len);
    if (!lease || !lease->ticket.data) {
        rn_ngx_lease_release(link, parsed->lease);
        return NGX_ERROR;
    }
    lease->link = link;
    start(&lease->timer, renew_lease, lease, parsed->lease_ns, &lease->renew_ms);
    context->lease = lease;
    return NGX_OK;
}

void rn_ngx_lease_end(struct rn_ngx_context *context)
{
    struct rn_ngx_lease *lease = context->lease;

    context->lease = NULL;
    if (lease->timer.timer_set)
        ngx_del_timer(&lease->timer);
    rn_ngx_lease_release(lease->link, rn_ngx_slice(lease->ticket));
}
