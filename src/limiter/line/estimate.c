/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Least waits. Let the line hold units u1, u2, ... in order, and S be the sum up to some request.
 * Nobody overtakes, so that it goes last of S units. Others may be charged besides, which only
 * makes it later; what is given back ends an estimate (rn_lines_poke).
 *
 *   bucket, queue      Refused with retry r, a bucket has exactly the units h of the refused at
 *                      now + r, and gains one every unit_ns: S go by now + r + (S - h) unit.
 *                      Admitted, it has debt d: S fit when d + S unit <= full, that is, S fit
 *                      at now + d + R unit - full + (S - R) unit for any R; R = units left
 *   bucket in steps    At the step in which h fit there are at most h + step_units - 1, one step
 *                      before there were fewer than h. Then step_units with each step
 *   fixed window       Refused: a whole amount from the end of the window on, then another with
 *                      each window, none shorter than the period but for the rounding of ends
 *                      (ROUNDING_NS); of a calendar none lasts less than half of
 *                      period_ns, the longest. Admitted: what is left, then the same
 *   sliding log,       In any time t at most cap + amount t / period units are admitted
 *   sub-windows        (core/envelope.c): S go by r + (S - cap) period / amount
 *   two windows        The same with 2 cap
 *   places             Freed at any time: nothing is known
 *   own algorithm      Refused with retry r: no cost as large goes before now + r. Admitted:
 *                      nothing is known
 */
#include "limiter/line/estimate.h"

__extension__ typedef unsigned __int128 rn_estimate_wide;

#define FAR_NS (INT64_MAX / 4)
/* Packed ends of windows are rounded by less. */
#define ROUNDING_NS INT64_C(1000000)

static const struct rn_estimate unknown = {.at_ns = RN_ESTIMATE_UNKNOWN};

static int64_t shortest_window(const struct rn_limit *limit)
{
    int64_t ns = limit->calendar_id != 0 ? limit->period_ns / 2 : limit->period_ns;

    return limit->form == RN_FORM_WINDOW ? ns - ROUNDING_NS : ns;
}

static struct rn_estimate windows_from(const struct rn_limit *limit, int64_t at_ns, uint64_t room,
                                       int64_t refill_ns)
{
    return (struct rn_estimate){.at_ns = at_ns,
                                .refill_ns = refill_ns,
                                .room = room,
                                .amount = limit->amount,
                                .period_ns = shortest_window(limit),
                                .whole = true,
                                .exact = true};
}

static struct rn_estimate within_envelope(const struct rn_limit *limit, int64_t at_ns,
                                          uint64_t room)
{
    return (struct rn_estimate){.at_ns = at_ns,
                                .refill_ns = at_ns,
                                .room = room,
                                .amount = limit->amount,
                                .period_ns = limit->period_ns};
}

static struct rn_estimate even_bucket(const struct rn_limit *limit, int64_t at_ns, uint64_t room)
{
    return (struct rn_estimate){.at_ns = at_ns,
                                .refill_ns = at_ns,
                                .room = room,
                                .amount = 1,
                                .period_ns = limit->unit_ns,
                                .exact = true};
}

static struct rn_estimate stepped_bucket(const struct rn_limit *limit, int64_t at_ns, uint64_t room,
                                         int64_t refill_ns)
{
    return (struct rn_estimate){.at_ns = at_ns,
                                .refill_ns = refill_ns,
                                .room = limit->percent == 0 ? room : limit->written_cap,
                                .amount = limit->step_units,
                                .period_ns = limit->step_ns,
                                .whole = true,
                                .exact = limit->percent == 0};
}

struct rn_estimate rn_estimate_refused(const struct rn_limit *limit,
                                       const struct ration_verdict *verdict, uint64_t before,
                                       uint64_t units, int64_t now_ns)
{
    int64_t at = now_ns + (verdict->retry_after_ns < FAR_NS ? verdict->retry_after_ns : FAR_NS);

    switch (limit->form) {
    case RN_FORM_GCRA:
        return even_bucket(limit, at, before + units);
    case RN_FORM_FINE: /* rounded up to whole nanoseconds, and unit_ns down */
        return even_bucket(limit, at - 1, before + units);
    case RN_FORM_STEP:
        return stepped_bucket(limit, at, before + units + limit->step_units - 1,
                              at + limit->step_ns);
    case RN_FORM_WINDOW:
    case RN_FORM_WIDE:
        return windows_from(limit, at, before, at);
    case RN_FORM_LOG:
    case RN_FORM_SUBS:
        return within_envelope(limit, at, before + limit->cap);
    case RN_FORM_COUNTER:
        return within_envelope(limit, at, before + 2 * limit->cap);
    case RN_FORM_OWN:
        return (struct rn_estimate){.at_ns = at};
    case RN_FORM_PLACES:
    case RN_FORM_ADAPTIVE:
    case RN_FORM_NONE:
        break;
    }
    return unknown;
}

/* The end of a window is that of all that is spent, unless something is owed: then the time to
 * reset includes another window, which no calendar makes shorter than nine tenths of the longest.
 */
static struct rn_estimate windows_left(const struct rn_limit *limit,
                                       const struct ration_verdict *verdict, int64_t now_ns)
{
    bool is_owed = verdict->reset_after_ns >
                   (limit->calendar_id != 0 ? limit->period_ns / 10 * 9 : limit->period_ns);
    int64_t end = now_ns + (is_owed ? 0 : verdict->reset_after_ns);
    struct rn_estimate estimate = windows_from(limit, now_ns, verdict->remaining, end);

    estimate.exact = !is_owed;
    return estimate;
}

struct rn_estimate rn_estimate_admitted(const struct rn_limit *limit,
                                        const struct ration_verdict *verdict, int64_t now_ns)
{
    int64_t fine = limit->form == RN_FORM_FINE;
    uint64_t left = verdict->remaining;

    switch (limit->form) {
    case RN_FORM_GCRA:
    case RN_FORM_FINE:
        return even_bucket(limit,
                           now_ns + verdict->reset_after_ns - fine - limit->full_ns +
                               (int64_t)left * limit->unit_ns,
                           left);
    case RN_FORM_STEP:
        return stepped_bucket(limit, now_ns, left, (now_ns / limit->step_ns + 1) * limit->step_ns);
    case RN_FORM_WINDOW:
    case RN_FORM_WIDE:
        return windows_left(limit, verdict, now_ns);
    case RN_FORM_LOG:
    case RN_FORM_SUBS:
        return within_envelope(limit, now_ns, limit->cap);
    case RN_FORM_COUNTER:
        return within_envelope(limit, now_ns, 2 * limit->cap);
    case RN_FORM_PLACES:
    case RN_FORM_ADAPTIVE:
    case RN_FORM_NONE:
    case RN_FORM_OWN:
        break;
    }
    return unknown;
}

/* The level of an even bucket is known at any time. */
bool rn_estimate_move(struct rn_estimate *e, uint64_t units)
{
    if (e->at_ns == RN_ESTIMATE_UNKNOWN || !e->exact || e->whole)
        return false;
    uint64_t fewer = e->room > units ? e->room - units : 0;

    e->at_ns = e->refill_ns = rn_estimate_at(e, units) - (int64_t)fewer * e->period_ns;
    e->room = units;
    return true;
}

int64_t rn_estimate_at(const struct rn_estimate *e, uint64_t units)
{
    if (e->at_ns == RN_ESTIMATE_UNKNOWN || units <= e->room || e->amount == 0)
        return e->at_ns;
    uint64_t more = units - e->room;
    rn_estimate_wide ns = e->whole
                              ? (rn_estimate_wide)((more - 1) / e->amount) * (uint64_t)e->period_ns
                              : (rn_estimate_wide)more * (uint64_t)e->period_ns / e->amount;
    int64_t from = e->refill_ns;

    return ns > (uint64_t)FAR_NS ? FAR_NS * 2 : from + (int64_t)ns;
}
