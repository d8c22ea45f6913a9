/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ration bench`: bench.c runs the load, report.c prints the result. request_writer.c and
 * response_reader.c are the protocol of load_thread.c, which sends requests over many connections.
 *
 * Closed loop: each connection always has `pipeline` requests in flight. Open loop
 * (interval_ns > 0): requests are due at fixed times, whatever the server does. The latency
 * of a request that waits for room on its connection counts from when it was due, so that a
 * stalled server cannot hide the stall.
 */
#ifndef RN_CLI_BENCH_BENCH_H
#define RN_CLI_BENCH_BENCH_H

#include "cli/bench/latency.h"
#include "cli/bench/request_writer.h"
#include "cli/client/endpoint.h"

#define RN_BENCH_THREADS 64

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
    uint64_t requests;  /* to send; UINT64_MAX: until the end */
    double interval_ns; /* open loop: between two requests of this thread; else 0 */
    uint64_t seed;

    /* Atomic while it runs: */
    uint64_t answered, allowed, refused, errors;
    /* When it has ended: */
    uint64_t unsent;                   /* requests that were due and not sent */
    uint64_t unanswered;               /* requests sent without an answer */
    int64_t last_ns;                   /* time of the last answer */
    char problem[RN_ENDPOINT_PROBLEM]; /* the first error; empty: none */
    bool broken;                       /* the run cannot go on; `problem` says why */
    struct rn_latency latency;

    int epoll_fd; /* private from here on */
    struct rn_bench_conn *conns;
    uint32_t live;
    uint64_t ended; /* connections */
    uint64_t due;   /* open loop: number of the next request of the thread */
    uint64_t sent;
};

/* Connects. False: `problem` says why not. rn_bench_thread_done in any case. */
bool rn_bench_thread_init(struct rn_bench_thread *thread);
void rn_bench_thread_done(struct rn_bench_thread *thread);
/* The thread's function. Returns soon after plan->end_ns. */
void *rn_bench_thread_run(void *thread);

struct rn_bench {
    const struct rn_options *options;
    struct rn_endpoint endpoint;
    struct rn_bench_request request;
    struct rn_bench_plan plan;
    uint32_t connections, thread_count;
    struct rn_bench_thread *threads[RN_BENCH_THREADS];
    double cpu_seconds; /* of this process */
};

/* Prints the result. Returns the exit status. */
int rn_bench_report(const struct rn_bench *bench);

#endif
