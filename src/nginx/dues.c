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

ngx_int_t rn_ngx_dues_note(struct rn_ngx_visit *visit, const struct ration_outcome *outcome)
{
    size_t bytes = outcome->due_count * sizeof *outcome->dues;

    if (outcome->due_count == 0)
        return NGX_OK;
    visit->dues = ngx_palloc(visit->request->pool, sizeof *visit->dues + bytes);
    if (!visit->dues)
        return NGX_ERROR;
    visit->dues->count = outcome->due_count;
    memcpy(visit->dues->items, outcome->dues, bytes);
    return NGX_OK;
}

/* As the access log has it. */
static unsigned status_of(const ngx_http_request_t *r)
{
    return (unsigned)(r->err_status != 0 ? r->err_status : r->headers_out.status);
}

/* Once: the ticket says which limits of rationd's it is about. */
static void tell_rationd(struct rn_ngx_visit *visit, unsigned status)
{
    char digits[sizeof "000"];

    if (!visit->charge)
        return;
    (void)snprintf(digits, sizeof digits, "%03u", status % 1000);
    rn_ngx_ticket_send(visit->charge->link, RN_SLICE("RATION.CHARGE"),
                       rn_ngx_slice(visit->charge->text), rn_slice_of(digits));
    visit->charge = NULL;
}

ngx_int_t rn_ngx_dues_charge(ngx_http_request_t *r)
{
    struct rn_ngx_visit *visit = r == r->main ? rn_ngx_visit_find(r) : NULL;
    const struct rn_ngx_dues *dues = visit ? visit->dues : NULL;
    int code;

    if (visit)
        tell_rationd(visit, status_of(r));
    if (!dues)
        return NGX_OK;
    code = rn_due_charge(visit->worker->limiter,
                         &(struct rn_due){.items = dues->items, .count = dues->count}, status_of(r),
                         RATION_NOW, NULL);
    if (code != 0 && code != RATION_EGONE) {
        ngx_log_error(NGX_LOG_ERR, r->connection->log, 0, "ration: an outcome: %s",
                      ration_error_text(code));
    }
    return NGX_OK;
}
