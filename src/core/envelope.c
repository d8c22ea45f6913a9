/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Envelopes, with N the amount and W the period:
 *
 *   bucket, queue         cap + N t / W
 *   bucket in steps       one step more at once: the grid may lie between any two
 *   sliding log           any half-open time W holds N: N + N t / W
 *   sub-windows           the same; K of them last at least W
 *   fixed window          the end of one and the begin of the next: 2 N + N t / W,
 *                         for a calendar with the shortest of its windows as W
 *   two-window counter    no window holds more than N: the same
 *
 * What a limit must have to cover an envelope E + R t:
 *
 *   bucket, queue         E <= cap, R <= rate
 *   bucket in steps       between two of k grid lines less than k + 1 steps pass:
 *                         E + R step <= cap, R <= rate
 *   fixed window          E + R W <= N, for a calendar with its longest window. One
 *                         that starts at the first request and has rounded ends
 *                         cannot count for a moment before each: it covers nothing
 *   log                   the same, for the time that its rounding may add
 *   sub-windows           K + 1 of them are counted: E + R (K + 1) w <= N
 *   two-window counter    at e into a window, cur <= E + R e and
 *                         prev + cur <= E + R (W + e). Its sum is, with
 *                         f = (W - e) / W, f (prev + cur) + (1 - f) cur
 *                         <= E + f R W + R e = E + R W, to be at most N
 */
#include "core/envelope.h"

#include "core/forms.h"

/* No mark lasts longer: rates closer than that are no larger and smaller one. */
#define SETTLES_MAX_NS (2 * RATION_PERIOD_MAX_NS)

/* The shortest and the longest window, where no time zone changes its mind. */
static void window_lengths(const struct rn_limit *l, int64_t *shortest, int64_t *longest)
{
    *shortest = *longest = l->period_ns;
    if (l->calendar_id != 0 && !l->calendar)
        *longest = l->longest_ns;
    for (uint32_t i = 1; l->calendar && i < l->calendar->count; i++) {
        int64_t length = l->calendar->ends[i] - l->calendar->ends[i - 1];

        *shortest = length < *shortest ? length : *shortest;
        *longest = length > *longest ? length : *longest;
    }
}

struct rn_envelope rn_envelope_smooth(const struct rn_limit *l)
{
    return (struct rn_envelope){.burst = l->cap, .amount = l->amount, .period_ns = l->period_ns};
}

struct rn_envelope rn_envelope_stepped(const struct rn_limit *l)
{
    struct rn_envelope e = rn_envelope_smooth(l);

    e.burst += l->step_units;
    return e;
}

struct rn_envelope rn_envelope_doubled(const struct rn_limit *l)
{
    struct rn_envelope e = rn_envelope_smooth(l);

    e.burst *= 2;
    return e;
}

struct rn_envelope rn_envelope_windowed(const struct rn_limit *l)
{
    struct rn_envelope e = rn_envelope_doubled(l);
    int64_t longest;

    window_lengths(l, &e.period_ns, &longest);
    return e;
}

/* Products stay below 2^111: amounts below 2^51, times below 2^60. */
static bool fits(const struct rn_envelope *e, int64_t span_ns, uint64_t units)
{
    return e->burst <= units && (rn_u128)e->amount * (uint64_t)span_ns <=
                                    (rn_u128)(units - e->burst) * (uint64_t)e->period_ns;
}

int64_t rn_envelope_settles_window(const struct rn_limit *outer, const struct rn_limit *inner)
{
    struct rn_envelope e = rn_limit_envelope(inner);
    bool fixed = inner->form == RN_FORM_WINDOW || inner->form == RN_FORM_WIDE, covers;
    int64_t shortest, longest;

    if (outer->from_first && outer->form == RN_FORM_WINDOW)
        return RN_NEVER;
    window_lengths(outer, &shortest, &longest);
    /* Each window of the one consists of whole windows of the other. */
    if (fixed && !outer->from_first && !inner->from_first && outer->calendar_id == 0 &&
        inner->calendar_id == 0 && outer->period_ns % inner->period_ns == 0)
        covers = (rn_u128)inner->amount * (uint64_t)(outer->period_ns / inner->period_ns) <=
                 outer->amount;
    else
        covers = fits(&e, longest, outer->amount);
    return covers ? longest + RN_WINDOW_QUANTUM_NS : RN_NEVER;
}

/* A bucket forgets nothing while it is in debt: what others left in it has to be
 * outrun. After t, debt <= cap + burst + R t - rate t, which is at most cap from
 * t = burst / (rate - R) on. */
int64_t rn_envelope_settles_bucket(const struct rn_limit *outer, const struct rn_limit *inner)
{
    struct rn_envelope e = rn_limit_envelope(inner);
    rn_u128 rate = (rn_u128)outer->amount * (uint64_t)e.period_ns;
    rn_u128 needed = (rn_u128)e.amount * (uint64_t)outer->period_ns;
    uint64_t burst = e.burst + outer->step_units;

    if (!fits(&e, outer->step_ns, outer->cap) || rate <= needed)
        return RN_NEVER;
    rn_u128 per_unit =
        (rn_u128)(uint64_t)outer->period_ns * (uint64_t)e.period_ns / (rate - needed) + 1;

    if (per_unit > (uint64_t)SETTLES_MAX_NS / burst)
        return RN_NEVER;
    return (int64_t)((uint64_t)per_unit * burst);
}

int64_t rn_envelope_settles_span(const struct rn_limit *outer, const struct rn_limit *inner,
                                 int64_t span_ns, int64_t memory_ns)
{
    struct rn_envelope e = rn_limit_envelope(inner);

    return fits(&e, span_ns, outer->amount) ? memory_ns : RN_NEVER;
}

int64_t rn_envelope_memory_ns(const struct rn_limit *l)
{
    if (l->algorithm == RATION_TOKEN_BUCKET || l->algorithm == RATION_LEAKY_BUCKET)
        return l->full_ns + (int64_t)l->cap + l->step_ns; /* a fraction of a ns each: FINE */
    return 2 * (l->longest_ns > l->period_ns ? l->longest_ns : l->period_ns);
}
