/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Timers, hundreds of thousands of them: setting and cancelling costs a few instructions and
 * allocates nothing. A hierarchical timing wheel with ticks of a millisecond. Belongs to
 * one thread.
 */
#ifndef RN_NET_TIMER_H
#define RN_NET_TIMER_H

#include <stdbool.h>
#include <stdint.h>

struct rn_wheel;

/* Part of its owner's struct; must be zero before first use. */
struct rn_timer {
    struct rn_timer *next, **link; /* link NULL: not set */
    int64_t at_ns;
    void (*fire)(struct rn_timer *timer);
};

static inline bool rn_timer_is_set(const struct rn_timer *timer)
{
    return timer->link != 0;
}

/* Fires once, at `at_ns` on the clock of rn_wheel_now or up to two ticks later, never
 * before. A time in the past counts as now. Setting a timer again moves it. A timer may set
 * itself when it fires. */
void rn_timer_set(struct rn_wheel *wheel, struct rn_timer *timer, int64_t at_ns);
/* Does nothing if the timer is not set. */
void rn_timer_cancel(struct rn_wheel *wheel, struct rn_timer *timer);

/* The time of the loop's current round, on CLOCK_MONOTONIC. */
int64_t rn_wheel_now(const struct rn_wheel *wheel);

#endif
