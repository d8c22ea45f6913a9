/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Inside net: advancing the timer wheel, for the loop that owns it. Time is an argument.
 *
 * A tick is written in base 64. A timer lies at the level of the highest digit in
 * which its tick differs from the current one, in the slot of that digit:
 *
 *   now   0 0 0 0 0 2 17 40
 *   tick  0 0 0 0 0 2 21 03   level 1, slot 21
 *
 * So all timers of a level are later than those of the levels below. A bit for each slot
 * says whether it is used, so the next slot is found without a search. When time reaches a
 * slot its timers move down, each at most RN_WHEEL_LEVELS times.
 */
#ifndef RN_NET_WHEEL_H
#define RN_NET_WHEEL_H

#include "net/timer.h"

#define RN_WHEEL_TICK_NS INT64_C(1000000)
#define RN_WHEEL_LEVELS 8 /* 2^48 ms: more than 63 bits of nanoseconds */
#define RN_WHEEL_SLOTS 64

struct rn_wheel {
    uint64_t tick; /* all timers up to this one have fired */
    int64_t now_ns;
    struct rn_timer *due; /* being fired */
    unsigned levels;      /* a bit for each level in use */
    uint64_t used[RN_WHEEL_LEVELS];
    struct rn_timer *slots[RN_WHEEL_LEVELS][RN_WHEEL_SLOTS];
};

void rn_wheel_init(struct rn_wheel *wheel, int64_t now_ns);

/* Fires all timers due at `now_ns`, which must not be before that of the last call. */
void rn_wheel_advance(struct rn_wheel *wheel, int64_t now_ns);

/* When to advance next; INT64_MAX: no timer is set. Often before the first timer, never
 * more than two ticks after it. */
int64_t rn_wheel_next_ns(const struct rn_wheel *wheel);

#endif
