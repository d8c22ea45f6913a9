/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits of rationd's that are charged by outcome: it is told the status when the
 * request has been answered, as dues.c does for those of this nginx.
 */
#include "nginx/link.h"
#include "nginx/module.h"
#include "wire/resp.h"
#include "wire/told.h"

struct rn_ngx_charge {
    struct rn_ngx_link *link;
    ngx_str_t ticket;
};

ngx_int_t rn_ngx_charge_note(struct rn_ngx_visit *visit, struct rn_ngx_link *link,
                             const struct rn_told *told)
{
    ngx_pool_t *pool = visit->request->pool;
    struct rn_ngx_charge *charge;

    if (!told->charge.data)
        return NGX_OK;
    charge = ngx_palloc(pool, sizeof *charge);
    if (!charge)
        return NGX_ERROR;
    charge->link = link;
    charge->ticket = rn_ngx_copy(pool, told->charge.data, told->charge.len);
    if (charge->ticket.data)
        visit->charge = charge;
    return charge->ticket.data ? NGX_OK : NGX_ERROR;
}

void rn_ngx_charge_tell(struct rn_ngx_visit *visit, unsigned status)
{
    struct rn_ngx_charge *charge = visit->charge;
    struct rn_buf *out = &visit->worker->command;

    visit->charge = NULL;
    rn_buf_clear(out);
    rn_resp_put_array(out, 3);
    rn_resp_put_bulk(out, RN_SLICE("RATION.CHARGE"));
    rn_resp_put_bulk(out, rn_ngx_slice(charge->ticket));
    rn_buf_putf(out, "$3\r\n%03u\r\n", status % 1000);
    if (out->failed)
        rn_buf_done(out);
    else
        rn_ngx_link_send_sometime(charge->link, rn_buf_slice(out));
}
