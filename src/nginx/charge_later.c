/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits that are charged by the status of the response (`charge_on`). The log phase runs
 * once for each request of a client, after the response, whatever error pages and redirects
 * it took. The status is the one that the access log shows.
 */
#include "limiter/tickets/charge_later.h"
#include "nginx/module.h"

struct rn_ngx_charge_later {
    struct rn_ngx_outcome *noted; /* for signals; NULL: none is about such requests */
    int64_t at_ns;
    size_t count;
    struct ration_receipt items[];
};

ngx_int_t rn_ngx_charge_later_note(struct rn_ngx_context *context,
                                   const struct ration_outcome *outcome)
{
    size_t bytes = outcome->due_count * sizeof *outcome->dues;

    context->later = ngx_palloc(context->request->pool, sizeof *context->later + bytes);
    if (!context->later)
        return NGX_ERROR;
    context->later->noted = NULL;
    if (context->worker->observes && outcome->decision.allowed) {
        context->later->noted = rn_ngx_outcome_note(context, outcome);
        if (!context->later->noted)
            return NGX_ERROR;
    }
    context->later->at_ns = outcome->at_ns;
    context->later->count = outcome->due_count;
    memcpy(context->later->items, outcome->dues, bytes);
    return NGX_OK;
}

RN_HOT ngx_int_t rn_ngx_charge_later_run(ngx_http_request_t *r)
{
    struct rn_ngx_context *context = r == r->main ? rn_ngx_context_find(r) : NULL;
    ngx_uint_t status = r->err_status != 0 ? r->err_status : r->headers_out.status;
    int code;

    if (context && context->charge) { /* once: the ticket names the limits of rationd */
        char digits[sizeof "000"];

        (void)snprintf(digits, sizeof digits, "%03u", (unsigned)status % 1000);
        rn_ngx_ticket_send(context->charge->link, RN_SLICE("RATION.CHARGE"),
                           rn_ngx_slice(context->charge->text), rn_slice_of(digits));
        context->charge = NULL;
    }
    if (!context || !context->later)
        return NGX_OK;
    if (context->later->noted)
        rn_ngx_outcome_tell(context, context->later->noted, status);
    context->later->noted = NULL;
    if (context->later->count == 0)
        return NGX_OK;
    code = rn_charge_later_run(context->worker->limiter,
                               &(struct rn_charge_later){.items = context->later->items,
                                                         .count = context->later->count,
                                                         .at_ns = context->later->at_ns},
                               (unsigned)status, RATION_NOW, NULL);
    if (code != 0 && code != RATION_EGONE) {
        ngx_log_error(NGX_LOG_ERR, r->connection->log, 0, "ration: charging by status failed: %s",
                      ration_error_text(code));
    }
    return NGX_OK;
}
