/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How busy the processors are: those of the machine or, if a cgroup (v1 or v2) gives this process a
 * quota that is smaller, that quota.
 */
#ifndef RN_BASE_CPU_H
#define RN_BASE_CPU_H

#include <stdbool.h>
#include <stdint.h>

/* Counters that only grow: the share in use between two readings is the growth of `busy` over that
 * of `total`. */
struct rn_cpu_reading {
    bool of_cgroup; /* readings of different kinds cannot be compared */
    uint64_t busy, total;
};

/* Reads what the kernel tells under `root`, "" but in tests. `now_ns` is CLOCK_MONOTONIC. False:
 * nothing can be read. */
bool rn_cpu_read(const char *root, int64_t now_ns, struct rn_cpu_reading *out);

/* The share in use between two readings, in millionths from 0 to 1,000,000; -1: they cannot be
 * compared, or no time has passed. */
int64_t rn_cpu_share(const struct rn_cpu_reading *before, const struct rn_cpu_reading *after);

#endif
