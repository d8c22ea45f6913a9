/* SPDX-License-Identifier: Apache-2.0 */
/* The time of a loop, and timers relative to it. */
#ifndef RN_REDIS_TIMING_H
#define RN_REDIS_TIMING_H

#include "net/server.h"

static inline int64_t rn_timing_now(struct rn_loop *loop)
{
    return rn_wheel_now(rn_loop_wheel(loop));
}

/* Sets the timer to fire in `ns`. */
static inline void rn_timing_in(struct rn_loop *loop, struct rn_timer *timer, int64_t ns)
{
    rn_timer_set(rn_loop_wheel(loop), timer, rn_timing_now(loop) + ns);
}

/* Sets the timer to fire at `at_ns`, unless it is set for an earlier time. */
static inline void rn_timing_by(struct rn_loop *loop, struct rn_timer *timer, int64_t at_ns)
{
    if (!rn_timer_is_set(timer) || at_ns < timer->at_ns)
        rn_timer_set(rn_loop_wheel(loop), timer, at_ns);
}

#endif
