/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks Prometheus servers for the values of signals with `source: prometheus`: one question at a
 * time for each signal, every so often, on the control loop. Only the addresses in the rules are
 * contacted. A question without a good answer leaves the signal as it is, so that it becomes stale.
 */
#ifndef RN_RATIOND_POLLER_H
#define RN_RATIOND_POLLER_H

#include "net/dialler.h"
#include "net/resolve.h"
#include "rules/signal.h"
#include "wire/prometheus.h"

struct ration;
struct rn_poller;

/* One signal. */
struct rn_poller_query {
    struct rn_poller *poller;
    struct rn_signal signal; /* with texts of its own: */
    char *texts;
    char address[300];
    struct rn_dialler *dialler;
    struct rn_conn *conn;         /* NULL: no connection */
    struct rn_resolve *resolving; /* NULL: no name is being looked up */
    int64_t due_ns, until_ns;     /* of the next question; of the answer to this one */
    bool asking, opened;
    struct rn_buf answer;
    uint64_t failures;
    char problem[RN_PROMETHEUS_PROBLEM]; /* the last one; empty: the last question was answered */
    const char *stopped;                 /* why this question was given up; NULL: it was not */
};

struct rn_poller {
    struct rn_loop *loop;
    struct ration *limiter;
    uint64_t version; /* of the rules that the queries are of, + 1 */
    struct rn_poller_query *queries;
    uint32_t count;
    bool dropping; /* questions end without a result */
};

/* Begins what is due, and ends what takes too long; every 100 ms or so. */
void rn_poller_tick(struct rn_poller *poller);
/* After the loop has ended. */
void rn_poller_done(struct rn_poller *poller);

/* For the page of metrics. */
void rn_poller_put_metrics(void *poller, struct rn_buf *out);

#endif
