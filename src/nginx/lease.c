/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places that rationd has given to a request: their lease is renewed as long as the
 * request lasts, and released when it ends, whichever way. What a killed worker held
 * comes free by itself.
 */
#include "nginx/link.h"
#include "nginx/module.h"
#include "wire/told.h"

#define RENEW_MIN_MS 100

struct rn_ngx_lease {
    struct rn_ngx_link *link;
    ngx_event_t timer;
    ngx_msec_t renew_ms; /* a third of it */
    ngx_str_t ticket;
};

static const struct rn_slice nothing = {NULL, 0};

void rn_ngx_lease_release(struct rn_ngx_link *link, struct rn_slice lease)
{
    rn_ngx_ticket_send(link, RN_SLICE("RATION.RELEASE"), lease, nothing);
}

/* If it has ended (rationd was restarted without its state, say), there is nothing that
 * could be done for a request that is under way: the reply does not matter. */
static void renew(ngx_event_t *event)
{
    struct rn_ngx_lease *lease = event->data;
    struct rn_slice command = rn_ngx_ticket_command(lease->link, RN_SLICE("RATION.RENEW"),
                                                    rn_ngx_slice(lease->ticket), nothing);

    if (command.len != 0)
        (void)rn_ngx_link_send(lease->link, command, NULL, NULL);
    ngx_add_timer(event, lease->renew_ms);
}

ngx_int_t rn_ngx_lease_hold(struct rn_ngx_context *context, struct rn_ngx_link *link,
                            const struct rn_told *told)
{
    ngx_pool_t *pool = context->request->pool;
    ngx_msec_t third = (ngx_msec_t)(told->lease_ns / 3000000);
    struct rn_ngx_lease *lease;

    if (!told->lease.data)
        return NGX_OK;
    lease = ngx_pcalloc(pool, sizeof *lease);
    if (lease)
        lease->ticket = rn_ngx_copy(pool, told->lease.data, told->lease.len);
    if (!lease || !lease->ticket.data) {
        rn_ngx_lease_release(link, told->lease);
        return NGX_ERROR;
    }
    lease->link = link;
    lease->renew_ms = third > RENEW_MIN_MS ? third : RENEW_MIN_MS;
    lease->timer.handler = renew;
    lease->timer.data = lease;
    lease->timer.log = ngx_cycle->log;
    lease->timer.cancelable = 1; /* the request itself keeps a worker from ending */
    ngx_add_timer(&lease->timer, lease->renew_ms);
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
