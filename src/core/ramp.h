/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ramp: how the factor of a rule follows a signal, down at once and up in steps. From the values
 * of the signal to a percentage of the limit as written. Pure: the time is an argument, and all
 * memory is the caller's.
 *
 *   percent
 *     100 ──┐                     ┌── each step: `by` percent, `every` apart
 *           │               ┌─────┘
 *      to   └───────────────┘
 *           ^ beyond the    ^ calm for `for_ns`
 *             threshold
 *
 * What holds for every trace of values and times:
 * - A value beyond the threshold lowers at once, whatever came before.
 * - The first step upwards comes when the signal has been calm for `for_ns` without a break, the
 *   others at least `every_ns` apart. So a noisy signal makes it turn upwards at most once in
 *   `for_ns`.
 * - A stale signal (no value) counts as calm, and ends a surplus at once.
 * - The result is always a member of rn_ramp_ladder.
 */
#ifndef RN_CORE_RAMP_H
#define RN_CORE_RAMP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RN_RAMP_MAX_PERCENT 400
#define RN_RAMP_MIN_STEP 5 /* percent: bounds the length of a ladder */
/* The most different percentages of one adapt or one elastic, with 100. */
#define RN_RAMP_LADDER_MAX (1 + (RN_RAMP_MAX_PERCENT - 100) / RN_RAMP_MIN_STEP + 1)

/* Values of signals are whole millionths: of 1 for shares and numbers, of a second for durations.
 */
#define RN_SIGNAL_UNIT INT64_C(1000000)

/* `cpu above 80%`; below if not above. */
struct rn_ramp_condition {
    bool above;
    int64_t threshold;
};

/* Lowers to `percent` (1 to 99) while the condition holds, or raises to it (101 to 400). */
struct rn_ramp_plan {
    struct rn_ramp_condition when;
    int64_t calm_threshold; /* lowering only: on the other side of this the signal is calm */
    uint16_t percent;
    uint16_t by; /* percent of each step upwards, RN_RAMP_MIN_STEP or more */
    int64_t for_ns, every_ns;
};

struct rn_ramp_state {
    uint16_t percent;
    bool calm;             /* since calm_since_ns */
    bool raised;           /* at raised_ns */
    bool lost;             /* of rn_ramp_follow: the node that asked for this has fallen silent */
    int64_t calm_since_ns; /* for a surplus: since when the condition has held */
    int64_t raised_ns;
};

/* The percentages that a plan can produce, in ascending order, with 100; returns how many. */
size_t rn_ramp_ladder(const struct rn_ramp_plan *plan, uint16_t out[RN_RAMP_LADDER_MAX]);

/* Begins where another evaluator stopped, at a factor of `percent`: at the largest member of the
 * plan's ladder that is not above it. A surplus begins at 100. */
void rn_ramp_start(const struct rn_ramp_plan *plan, struct rn_ramp_state *state, unsigned percent);

/* Whether a value meets a condition. */
bool rn_ramp_holds(const struct rn_ramp_condition *condition, int64_t value);

/* The percentage from `now_ns` on; `value` NULL: the signal is stale. A clock that steps back
 * delays steps upwards, nothing else. */
unsigned rn_ramp_lower(const struct rn_ramp_plan *plan, struct rn_ramp_state *state, int64_t now_ns,
                       const int64_t *value);
/* The same for a surplus, 100 or more. `lowered`: an adapt lowers the same rule, which ends it. */
unsigned rn_ramp_raise(const struct rn_ramp_plan *plan, struct rn_ramp_state *state, int64_t now_ns,
                       const int64_t *value, bool lowered);
/* The percentage that other nodes ask for, at most 100. A lower one counts at once. So does a
 * higher one, as the controller of the node that asks has taken its time, unless a node has fallen
 * silent (`lost`, or `asked` NULL: nothing is known): then the steps of the plan lead to it. */
unsigned rn_ramp_follow(const struct rn_ramp_plan *plan, struct rn_ramp_state *state,
                        int64_t now_ns, const unsigned *asked, bool lost);

#endif
