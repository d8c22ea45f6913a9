/* SPDX-License-Identifier: Apache-2.0 */
/* Instructions, counted exactly: a child does the work and is single-stepped. */
#ifndef BENCH_STEPS_H
#define BENCH_STEPS_H

#include <stdint.h>

/* Instructions that one repetition takes, on average: `work` is stepped through
 * `count` and 3 * `count` times, and what both have in common is taken off. It
 * runs a little before, so that nothing is done for the first time. */
double bench_steps(void (*work)(void *context, uint64_t count), void *context, uint64_t count);

#endif
