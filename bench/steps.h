/* SPDX-License-Identifier: Apache-2.0 */
/* Instructions, counted exactly: a child does the work and is single-stepped. */
#ifndef BENCH_STEPS_H
#define BENCH_STEPS_H

#include <stdint.h>

/* Instructions of one repetition, the mean of `count`. `work` is called with 10 first, so that
 * nothing is done for the first time, then stepped through with `count`. What calling it with 0
 * takes is subtracted. Interruptions can only add steps: a clock read in the vDSO begins again when
 * the kernel has changed the time meanwhile. So the fewest steps of several attempts count. */
double bench_steps(void (*work)(void *context, uint64_t count), void *context, uint64_t count);

#endif
