/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of `ration bench` share: bench.c (the run) and bench_report.c
 * (what came of it). drive.c is one thread of it, speech.c and hearing.c what
 * is said on the wire.
 */
#ifndef RN_CLI_BENCH_BENCH_H
#define RN_CLI_BENCH_BENCH_H

#include "cli/bench/load_thread.h"
#include "cli/client/endpoint.h"

#define RN_BENCH_THREADS 64

struct rn_bench {
    const struct rn_options *options;
    struct rn_reach reach;
    struct rn_speech speech;
    struct rn_drive_plan plan;
    uint32_t connections, drive_count;
    struct rn_drive *drives[RN_BENCH_THREADS];
    double cpu_seconds; /* what we used ourselves */
};

/* Prints what was measured; the exit status. */
int rn_bench_report(const struct rn_bench *bench);

#endif
