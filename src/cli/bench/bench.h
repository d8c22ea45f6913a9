/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of `ration bench` share: bench.c (the run) and bench_report.c
 * (what came of it). thread.c is one thread of it, request.c and hearing.c what
 * is said on the wire.
 */
#ifndef RN_CLI_BENCH_BENCH_H
#define RN_CLI_BENCH_BENCH_H

#include "cli/bench/load_thread.h"
#include "cli/client/endpoint.h"

#define RN_BENCH_THREADS 64

struct rn_bench {
    const struct rn_options *options;
    struct rn_endpoint endpoint;
    struct rn_bench_request request;
    struct rn_bench_plan plan;
    uint32_t connections, thread_count;
    struct rn_bench_thread *threads[RN_BENCH_THREADS];
    double cpu_seconds; /* what we used ourselves */
};

/* Prints what was measured; the exit status. */
int rn_bench_report(const struct rn_bench *bench);

#endif
