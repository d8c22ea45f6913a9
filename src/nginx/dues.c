/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Limits that are charged by outcome. The log phase comes once for each request of a
 * client, when its answer has been sent, whatever error pages and redirects it took;
 * the status is the one that the access log has.
 */
#include "limiter/due.h"
#include "nginx/module.h"

struct rn_ngx_dues {
    size_t count;
    struct ration_receipt items[];
};

ngx_int_t rn_ngx_dues_note(struct rn_ngx_context *context, const struct ration_outcome *outcome)
{
    size_t bytes = outcome->due_count * sizeof *outcome->dues;

    context->dues = ngx_palloc(context->request->pool, sizeof *context->dues + bytes);
    if (!context->dues)
        return NGX_ERROR;
    context->dues->count = outcome->due_count;
    memcpy(context->dues->items, outcome->dues, bytes);
    return NGX_OK;
}

/* As the access log has it. */
static unsigned status_of(const ngx_http_request_t *r)
{
    return (unsigned)(r->err_status != 0 ? r->err_status : r->headers_out.status);
}

/* Once: the ticket says which limits of rationd's it is about. */
static RN_ASIDE void tell_rationd(struct rn_ngx_context *context, unsigned status)
{
    char digits[sizeof "000"];

    (void)snprintf(digits, sizeof digits, "%03u", status % 1000);
    rn_ngx_ticket_send(context->charge->link, RN_SLICE("RATION.CHARGE"),
                       rn_ngx_slice(context->charge->text), rn_slice_of(digits));
    context->charge = NULL;
}

RN_HOT ngx_int_t rn_ngx_dues_charge(ngx_http_request_t *r)
{
    struct rn_ngx_context *context = r == r->main ? rn_ngx_context_find(r) : NULL;
    const struct rn_ngx_dues *dues = context ? context->dues : NULL;
    int code;

    if (context && context->charge)
        tell_rationd(context, status_of(r));
    if (!dues)
        return NGX_OK;
    code = rn_due_charge(context->worker->limiter,
                         &(struct rn_due){.items = dues->items, .count = dues->count}, status_of(r),
                         RATION_NOW, NULL);
    if (code != 0 && code != RATION_EGONE) {
        ngx_log_error(NGX_LOG_ERR, r->connection->log, 0, "ration: an outcome: %s",
                      ration_error_text(code));
    }
    return NGX_OK;
}
