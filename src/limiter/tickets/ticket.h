/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A reservation, a lease or receipts as signed text. Only the processes of one table, or the nodes
 * of one fleet, can make it.
 *
 *   body    version, kind, id, what was charged, places: see ticket.c
 *   mac     8 bytes, SipHash of the body under one of the limiter's keys: ticket_keys.h
 *
 * both in the alphabet of base64url without padding. There is one text for each
 * ticket: bits that do not count must be zero.
 */
#ifndef RN_LIMITER_TICKETS_TICKET_H
#define RN_LIMITER_TICKETS_TICKET_H

#include <ration/rules.h>

#include "base/siphash.h"
#include "base/slice.h"

/* The longest body: that of RATION_CHARGES_MAX charges. */
#define RN_TICKET_BODY_MAX (RATION_TICKET_SIZE / 4 * 3 - 3 - 8)

enum rn_ticket_kind {
    RN_TICKET_RESERVATION = 1,
    RN_TICKET_LEASE = 2,
    RN_TICKET_DUE = 3,
    RN_TICKET_DELAY = 4,
};

struct rn_ticket {
    enum rn_ticket_kind kind;
    uint64_t id; /* of the reservation or the lease */

    /* All but LEASE */
    int64_t at_ns;      /* when it was decided, */
    int64_t timeout_ns; /* and for how long it can be settled */
    uint32_t receipt_count;
    struct ration_receipt receipts[RATION_CHARGES_MAX];

    /* RESERVATION */
    uint64_t reserved;        /* the largest cost */
    uint64_t lease;           /* of its places, if any */
    bool given;               /* the limit came with the call: there is one receipt, of it, */
    struct ration_limit spec; /* and it is this */

    uint32_t place_count;
    struct ration_place places[RATION_LEASES_MAX];
};

void rn_ticket_write(const struct rn_ticket *ticket, const struct rn_hash_key *key,
                     char out[RATION_TICKET_SIZE]);
/* False: not a ticket, or not signed with one of these keys. */
bool rn_ticket_parse(struct rn_slice text, const struct rn_hash_key *keys, size_t count,
                     struct rn_ticket *ticket);

/* The same with the keys of the limiter. */
void rn_ticket_issue(const struct ration *r, const struct rn_ticket *ticket,
                     char out[RATION_TICKET_SIZE]);
bool rn_ticket_verify(const struct ration *r, const char *text, size_t len,
                      struct rn_ticket *ticket);

/* A ticket of the kind DUE or DELAY, with a new id. */
void rn_ticket_issue_receipts(struct ration *r, enum rn_ticket_kind kind, int64_t at_ns,
                              int64_t timeout_ns, const struct ration_receipt *receipts,
                              uint32_t count, char out[RATION_TICKET_SIZE]);

/* reservation.c: what a request that must wait was charged. If the client leaves,
 * ration_ticket_refund gives that back, once, as long as the request waits and a moment beyond.
 * Until then nothing is stored but the ticket. Empty if there is nothing to give back: the request
 * does not wait, or was charged nothing. */
void rn_ticket_issue_delay(struct ration *r, const struct ration_outcome *out,
                           char ticket[RATION_TICKET_SIZE]);

/* Only the body, for tests. Returns its length. */
size_t rn_ticket_write_body(const struct rn_ticket *ticket, unsigned char out[RN_TICKET_BODY_MAX]);
bool rn_ticket_parse_body(const unsigned char *body, size_t len, struct rn_ticket *ticket);

#endif
