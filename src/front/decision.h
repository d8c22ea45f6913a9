/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From what a caller asks to an outcome, the same for every protocol.
 */
#ifndef RN_FRONT_DECISION_H
#define RN_FRONT_DECISION_H

#include "front/params.h"

/* The longest that a reply is held, whatever rules and callers say. */
#define RN_REPLY_DELAY_MAX_NS INT64_C(60000000000)

/* For how long the outcome of a request can be told. */
#define RN_CHARGE_TICKET_NS INT64_C(300000000000)

enum rn_verb { RN_CHECK, RN_RESERVE, RN_ACQUIRE };

struct rn_decision {
    struct ration_outcome outcome;
    int64_t at_ns;             /* when it was decided */
    bool by_limit;             /* then these were charged: */
    struct ration_limit limit; /* what charge.ad_hoc points to */
    struct ration_charge charge;
    char ticket[RATION_TICKET_SIZE]; /* of a RESERVE or ACQUIRE; "": nothing is held */
    char due[RATION_TICKET_SIZE];    /* what is charged by outcome; "": nothing */
    char turn[RATION_TICKET_SIZE];   /* to leave before the delay is over; "": none, or held here */
};

/* 0, or RATION_EINVAL with `error` if the params makes no sense, or another code
 * (and its text in `error`) if no decision could be made. */
int rn_decision_make(struct ration *r, const struct rn_params *params, enum rn_verb verb,
                     struct rn_decision *out, struct ration_error *error);

/* How long to hold the reply: 0 to answer at once. */
int64_t rn_decision_reply_delay_ns(const struct rn_params *params, const struct rn_decision *d);

/* Whoever waited has gone: returns what can be returned. `d` may have moved since. */
void rn_decision_give_back(struct ration *r, struct rn_decision *d);

/* As an outcome of one limit that has no rule. */
void rn_decision_from_charge(struct ration_outcome *out, const struct ration_charge *c,
                             const struct ration_limit *limit);

#endif
