/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tickets of rationd: text that came with a decision and goes back on the same connection
 * later. A ticket says to rationd which charge, place or turn it is about.
 */
#include "nginx/link.h"
#include "nginx/module.h"
#include "wire/resp.h"

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
