/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A reply that leaves when its delay has passed (the queue of a leaky bucket, a throttled
 * client). A timer waits, no thread. The connection is not read meanwhile.
 */
#ifndef RN_FRONT_AWAIT_DELAYED_REPLY_H
#define RN_FRONT_AWAIT_DELAYED_REPLY_H

#include "front/decision.h"
#include "net/conn.h"
#include "wire/http.h"

/* How to write a decision. */
struct rn_decision_format {
    /* HTTP */
    bool problem; /* application/problem+json */
    enum rn_http_connection keep_alive;
    bool head;
    bool empty;           /* an admission has no body: forward-auth */
    bool no_5xx;          /* a refusal or failure with such a status is a 403 */
    uint16_t deny_status; /* 0: as the outcome says */
    /* RESP */
    uint8_t version;
    bool full; /* with all that a gateway needs */
};

struct rn_delayed_reply {
    struct rn_timer timer;
    struct rn_conn *conn;
    struct ration *limiter;
    struct rn_delayed_reply **slot;
    int64_t delay_ns;
    struct rn_decision_format format;
    /* Writes the reply to rn_conn_out. */
    void (*write)(struct rn_delayed_reply *delayed, const struct rn_decision *decision);
    char decision[]; /* packed */
};

/* Pauses the connection for delay_ns. *slot, in its state, points to the reply until that is
 * written. False: out of memory; answer at once. */
bool rn_delayed_reply_start(struct rn_delayed_reply **slot, struct rn_conn *conn,
                            const struct rn_decision *decision, int64_t delay_ns,
                            const struct rn_decision_format *format,
                            void (*write)(struct rn_delayed_reply *delayed,
                                          const struct rn_decision *decision));

/* The connection has ended: gives back what can be, now or when the shared store has
 * answered. NULL is fine. */
void rn_delayed_reply_drop(struct rn_delayed_reply *delayed);

#endif
