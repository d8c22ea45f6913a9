/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tickets of rationd: text that came with a decision and goes back on the same connection
 * later. A ticket says to rationd which charge, place or turn it is about.
 *
 * A lease is the ticket of places that rationd has given to a request. The worker renews it
 * as long as the request lasts and releases it at the end. Places of a killed worker come
 * free when the lease ends.
 */
#include "nginx/link.h"
#include "nginx/module.h"
#include "wire/parsed_decision.h"
#include "wire/resp.h"

#define RENEW_MIN_MS 100

struct rn_ngx_lease {
    struct rn_ngx_link *link;
    ngx_event_t timer;
    ngx_msec_t renew_ms; /* a third of its length */
    ngx_str_t ticket;
};

static const struct rn_slice nothing = {NULL, 0};

ngx_int_t rn_ngx_ticket_keep(struct rn_ngx_context *context, struct rn_ngx_link *link,
                             struct rn_slice text, struct rn_ngx_ticket **to)
{
    ngx_pool_t *pool = context->request->pool;
    struct rn_ngx_ticket *ticket;

    if (!text.data)
        return NGX_OK;
    ticket = ngx_palloc(pool, sizeof *ticket);
    if (!ticket)
        return NGX_ERROR;
    ticket->link = link;
    ticket->text = rn_ngx_copy(pool, text.data, text.len);
    if (ticket->text.data)
        *to = ticket;
    return ticket->text.data ? NGX_OK : NGX_ERROR;
}

struct rn_slice rn_ngx_ticket_command(struct rn_ngx_link *link, struct rn_slice name,
                                      struct rn_slice ticket, struct rn_slice more)
{
    struct rn_buf *out = &link->worker->command;

    rn_buf_clear(out);
    rn_resp_put_array(out, more.len != 0 ? 3 : 2);
    rn_resp_put_bulk(out, name);
    rn_resp_put_bulk(out, ticket);
    if (more.len != 0)
        rn_resp_put_bulk(out, more);
    if (out->failed)
        rn_buf_done(out);
    return rn_buf_slice(out);
}

void rn_ngx_ticket_send(struct rn_ngx_link *link, struct rn_slice name, struct rn_slice ticket,
                        struct rn_slice more)
{
    struct rn_slice command = rn_ngx_ticket_command(link, name, ticket, more);

    if (command.len != 0) /* else what it holds comes free when the ticket ends */
        rn_ngx_link_send_sometime(link, command);
}

void rn_ngx_lease_release(struct rn_ngx_link *link, struct rn_slice lease)
{
    rn_ngx_ticket_send(link, RN_SLICE("RATION.RELEASE"), lease, nothing);
}

/* The reply does not matter: if the lease has ended (rationd was restarted without its
 * state, say), nothing can be done for a request that is running. */
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
                            const struct rn_parsed_decision *parsed)
{
    ngx_pool_t *pool = context->request->pool;
    ngx_msec_t third = (ngx_msec_t)(parsed->lease_ns / 3000000);
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
