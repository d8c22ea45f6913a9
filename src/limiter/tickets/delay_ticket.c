/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns that are waited for elsewhere, known by a ticket: who leaves before gives back
 * what can be, as somebody who waited here would.
 */
#include <string.h>

#include "limiter/limiter.h"
#include "limiter/tickets/reservation.h"
#include "limiter/tickets/ticket.h"

/* The word of somebody who has left takes a while to come, and who waits began to
 * when he was told. */
#define GRACE_NS INT64_C(5000000000)

static int64_t lasts_ns(int64_t delay_ns)
{
    return delay_ns < RN_RESERVATION_MAX_NS - GRACE_NS ? delay_ns + GRACE_NS
                                                       : RN_RESERVATION_MAX_NS;
}

void rn_ticket_issue_delay(struct ration *r, const struct ration_outcome *out,
                           char ticket[RATION_TICKET_SIZE])
{
    struct rn_ticket t;

    ticket[0] = '\0';
    if (out->delay_ns <= 0 || out->receipt_count == 0)
        return;
    t.kind = RN_TICKET_DELAY;
    t.id = rn_limiter_new_id(r);
    t.at_ns = out->at_ns;
    t.timeout_ns = lasts_ns(out->delay_ns);
    t.receipt_count = out->receipt_count;
    memcpy(t.receipts, out->receipts, out->receipt_count * sizeof *out->receipts);
    rn_ticket_issue(r, &t, ticket);
}
