/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dues that are known by a ticket: charged, once, by anybody who shares the table
 * and learns the outcome. Until then nothing is kept but the ticket.
 */
#include <string.h>

#include "limiter/limiter.h"
#include "limiter/tickets/charge_later.h"
#include "limiter/tickets/reservation.h"
#include "limiter/tickets/ticket.h"

int ration_outcome_ticket(struct ration *r, const struct ration_outcome *out, int64_t timeout_ns,
                          char ticket[RATION_TICKET_SIZE])
{
    struct rn_ticket t;

    if (!rn_reservation_can_last(timeout_ns))
        return RATION_EINVAL;
    ticket[0] = '\0';
    if (out->due_count == 0)
        return 0;
    t.kind = RN_TICKET_DUE;
    t.id = rn_limiter_new_id(r);
    t.at_ns = out->at_ns;
    t.timeout_ns = timeout_ns;
    t.receipt_count = out->due_count;
    memcpy(t.receipts, out->dues, out->due_count * sizeof *out->dues);
    rn_ticket_issue(r, &t, ticket);
    return 0;
}

int ration_ticket_charge(struct ration *r, const char *ticket, size_t len, unsigned status,
                         int64_t now_ns, uint32_t *count)
{
    struct rn_ticket t;

    if (!rn_ticket_verify(r, ticket, len, &t) || t.kind != RN_TICKET_DUE)
        return RATION_EINVAL;
    now_ns = rn_limiter_now(r, now_ns);
    if (now_ns - t.at_ns >= t.timeout_ns)
        return RATION_EGONE;
    struct rn_charge_later due = {
        .items = t.receipts, .count = t.receipt_count, .id = t.id, .within_ns = t.timeout_ns};

    return rn_charge_later_run(r, &due, status, now_ns, count);
}
