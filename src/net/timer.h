/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Timers by the hundred thousand: setting and cancelling one costs a few
 * instructions and allocates nothing. A hierarchical wheel with ticks of a
 * millisecond. One thread.
 */
#ifndef RN_NET_TIMER_H
#define RN_NET_TIMER_H

#include <stdbool.h>
#include <stdint.h>

struct rn_wheel;

/* Lives in what it is to wake; zeroed before first use. */
struct rn_timer {
    struct rn_timer *next, **link; /* link NULL: not set */
    int64_t at_ns;
    void (*fire)(struct rn_timer *timer);
};

static inline bool rn_timer_is_set(const struct rn_timer *timer)
{
    return timer->link != 0;
}

/* Fires once, at `at_ns` of rn_wheel_now or up to two ticks later, never before.
 * A time that has passed counts as now. Setting one that is set moves it. A timer
 * may set itself again when it fires. */
void rn_timer_set(struct rn_wheel *wheel, struct rn_timer *timer, int64_t at_ns);
/* Does nothing for one that is not set. */
void rn_timer_cancel(struct rn_wheel *wheel, struct rn_timer *timer);

/* The time of the loop's current round, on CLOCK_MONOTONIC. */
int64_t rn_wheel_now(const struct rn_wheel *wheel);

#endif
