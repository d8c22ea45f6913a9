/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `ration bench`: bench.c runs the load, report.c prints the result. load_thread.c is one
 * thread, request_writer.c and response_reader.c are its protocol.
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
    double cpu_seconds; /* of this process */
};

/* Prints the result. Returns the exit status. */
int rn_bench_report(const struct rn_bench *bench);

#endif
