/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drives a server with requests: one thread, many connections.
 *
 * Closed loop: each connection always has `pipeline` requests under way. Open
 * loop (interval_ns > 0): requests are due at fixed times, whatever the server
 * does; one that has to wait for a place on its connection is measured from
 * when it was due, so that a server that stalls cannot hide it.
 */
#ifndef RN_CLI_BENCH_LOAD_THREAD_H
#define RN_CLI_BENCH_LOAD_THREAD_H

#include "cli/bench/latency.h"
#include "cli/bench/request_writer.h"
#include "cli/client/endpoint.h"

/* The same for all threads. */
struct rn_bench_plan {
    const struct rn_endpoint *endpoint;
    const struct rn_bench_request *request;
    uint32_t pipeline;
    uint64_t keys;
    int64_t start_ns, end_ns; /* monotonic */
    int done_fd;              /* an eventfd: each thread adds 1 when it ends */
    bool stop;                /* atomic: end now */
};

struct rn_bench_thread {
    struct rn_bench_plan *plan;
    uint32_t connection_count;
    uint64_t requests;  /* at most; UINT64_MAX: until the end */
    double interval_ns; /* open loop: between two requests of this thread; else 0 */
    uint64_t seed;

    /* Atomic while it runs: */
    uint64_t answered, allowed, refused, errors;
    /* When it has ended: */
    uint64_t unsent;                   /* were due */
    uint64_t unanswered;               /* were sent, and no answer came, or the connection ended */
    int64_t last_ns;                   /* when the last answer came */
    char problem[RN_ENDPOINT_PROBLEM]; /* what a server objected first, or why nothing works; empty:
                                       nothing */
    bool broken;                       /* nothing works */
    struct rn_latency latency;

    int epoll_fd; /* private from here on */
    struct rn_bench_conn *conns;
    uint32_t live;
    uint64_t ended; /* connections */
    uint64_t due;   /* open loop: the next one, of the whole thread */
    uint64_t sent;
};

/* Connects. False: `problem` tells why not. rn_bench_thread_done in any case. */
bool rn_bench_thread_init(struct rn_bench_thread *thread);
void rn_bench_thread_done(struct rn_bench_thread *thread);
/* The thread, between plan->start_ns and soon after end_ns. */
void *rn_bench_thread_run(void *thread);

#endif
