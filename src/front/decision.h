/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A decision on the parameters of a request, the same for every protocol.
 */
#ifndef RN_FRONT_DECISION_H
#define RN_FRONT_DECISION_H

#include <ration/wait.h>

#include "front/params.h"

/* The longest delay of a reply, whatever rules and callers say. */
#define RN_REPLY_DELAY_MAX_NS INT64_C(60000000000)

/* For how long the outcome of a request can be reported. */
#define RN_CHARGE_TICKET_NS INT64_C(300000000000)

enum rn_verb { RN_CHECK, RN_RESERVE, RN_ACQUIRE };

struct rn_decision {
    struct ration_outcome outcome;
    int64_t at_ns;             /* when it was made */
    bool by_limit;             /* then `charge` was charged */
    struct ration_limit limit; /* what charge.ad_hoc points to */
    struct ration_charge charge;
    char lease_ticket[RATION_TICKET_SIZE];  /* of a reservation or of places; "": none */
    char charge_ticket[RATION_TICKET_SIZE]; /* of a charge by outcome; "": none */
    char queue_ticket[RATION_TICKET_SIZE];  /* to leave the queue of a delay; "": none, or the
                                             * reply is delayed here */
};

/* 0, or RATION_EINVAL with `error` if the parameters make no sense, or another code
 * (and its text in `error`) if no decision could be made. With a waiter (may be NULL) also
 * RATION_EWAITS: it stands in line. */
int rn_decision_make(struct ration *r, const struct rn_params *params, enum rn_verb verb,
                     struct ration_waiter *waiter, struct rn_decision *out,
                     struct ration_error *error);

/* How long to delay the reply; 0: not at all. */
int64_t rn_decision_reply_delay_ns(const struct rn_params *params, const struct rn_decision *d);

/* The caller has left before its reply: gives back what can be. `d` may have moved since. */
void rn_decision_give_back(struct ration *r, struct rn_decision *d);

/* A decision in as few bytes as it needs: about 1 KB for one limit, where the struct has 20 KB. For
 * replies that leave later. `to` has room for rn_decision_packed_bytes. */
size_t rn_decision_packed_bytes(const struct rn_decision *d);
void rn_decision_pack(const struct rn_decision *d, char *to);
void rn_decision_unpack(struct rn_decision *d, const char *packed);

/* The outcome of one charge without a rule. */
void rn_decision_from_charge(struct ration_outcome *out, const struct ration_charge *c,
                             const struct ration_limit *limit);

#endif
