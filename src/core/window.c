/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fixed window: when it ends and how much of it is spent. A window that has
 * begun keeps its end, even if the wall clock is set meanwhile. It
 * ends a period after the first charge, at the next multiple of the period, or
 * where the limit's calendar says.
 *
 *   WINDOW   end / 320 µs, rounded up (44 bits) | count (20 bits)
 *   WIDE     [0] end in ns   [1] count
 *            owing: [0] end of the next window   [1] count   [2] owed   [3] end
 *
 * What a late debit finds no room for is owed: the next window begins with it spent.
 *
 * In the last 320 µs of a packed window it may have ended already. If it is
 * aligned to the epoch that can be computed; if not, nothing is admitted until
 * the rounded end, for a unit charged to the wrong window would be one too many
 * in the right one.
 */
#include "core/forms.h"

struct rn_window rn_window_unpack(uint64_t word)
{
    return (struct rn_window){
        .end_ns = (int64_t)(word >> RN_WINDOW_COUNT_BITS) * RN_WINDOW_QUANTUM_NS,
        .count = word & ((UINT64_C(1) << RN_WINDOW_COUNT_BITS) - 1),
    };
}

uint64_t rn_window_pack(struct rn_window window)
{
    return (uint64_t)(window.end_ns / RN_WINDOW_QUANTUM_NS) << RN_WINDOW_COUNT_BITS | window.count;
}

/* The calendar's window that holds a wall time; false if the limit has no
 * calendar or it does not cover that time. One that lasts longer than a state
 * may is not trusted. */
static bool find_in_calendar(const struct rn_limit *limit, int64_t wall_ns, int64_t *begin_ns,
                             int64_t *end_ns)
{
    const struct rn_calendar *c = limit->calendar;

    if (c == NULL || c->count < 2 || wall_ns < c->ends[0] || wall_ns >= c->ends[c->count - 1])
        return false;

    uint32_t low = 0, high = c->count - 1; /* ends[low] <= wall_ns < ends[high] */

    while (high - low > 1) {
        uint32_t middle = low + (high - low) / 2;

        if (c->ends[middle] <= wall_ns)
            low = middle;
        else
            high = middle;
    }
    *begin_ns = c->ends[low];
    *end_ns = c->ends[high];
    return *end_ns - *begin_ns <= limit->longest_ns;
}

/* The aligned window that holds a wall time. */
static void find_window(const struct rn_limit *limit, int64_t wall_ns, int64_t *begin_ns,
                        int64_t *end_ns)
{
    if (find_in_calendar(limit, wall_ns, begin_ns, end_ns))
        return;
    *begin_ns = rn_floor_div(wall_ns, limit->period_ns) * limit->period_ns;
    *end_ns = *begin_ns + limit->period_ns;
}

int64_t rn_limit_window_left(const struct rn_limit *limit, int64_t wall_ns)
{
    int64_t begin, end;

    find_window(limit, wall_ns, &begin, &end);
    return end - wall_ns;
}

static int64_t new_end(const struct rn_limit *limit, const struct rn_ask *ask)
{
    int64_t begin, end;

    if (limit->from_first)
        return ask->now_ns + limit->period_ns;
    find_window(limit, ask->now_ns + ask->wall_offset_ns, &begin, &end);
    return end - ask->wall_offset_ns;
}

/* Since the window began, if its end is still the calendar's; else since the
 * earliest it can have. */
static int64_t age_of(const struct rn_limit *limit, int64_t end_ns, const struct rn_ask *ask)
{
    int64_t now = ask->now_ns, wall = now + ask->wall_offset_ns, begin, end;

    if (end_ns <= now)
        return RN_NEVER;
    if (find_in_calendar(limit, wall, &begin, &end)) {
        int64_t late = end_ns - (end - ask->wall_offset_ns);

        if (late >= 0 && late < RN_WINDOW_QUANTUM_NS)
            return wall - begin;
    }
    return rn_max_i64(now - (end_ns - limit->period_ns), 0);
}

static int64_t round_up(int64_t end_ns, int64_t quantum)
{
    return rn_ceil_div(end_ns, quantum) * quantum;
}

/* Gives back what is owed first. */
static bool give_back(struct rn_window *w, const struct rn_ask *ask)
{
    uint64_t owed = rn_min_u64(w->owed, ask->cost);

    if ((ask->op == RN_GIVE_BACK && w->end_ns != ask->mark) || (w->count == 0 && w->owed == 0) ||
        ask->cost == 0)
        return false;
    w->owed -= owed;
    w->count -= rn_min_u64(w->count, ask->cost - owed);
    return true;
}

/* The end of the window that follows. */
static int64_t next_end(const struct rn_limit *limit, const struct rn_window *w, int64_t quantum,
                        const struct rn_ask *ask)
{
    int64_t begin, end;

    if (limit->from_first)
        return w->end_ns + round_up(limit->period_ns, quantum);
    find_window(limit, w->end_ns + ask->wall_offset_ns, &begin, &end);
    return round_up(end - ask->wall_offset_ns, quantum);
}

/* How much the rounding has added to the end of a window: known if it is
 * aligned, for then a boundary lies that much before. -1 if it is not, or if
 * the wall clock has been set since. */
static int64_t rounding(const struct rn_limit *limit, const struct rn_window *w, int64_t quantum,
                        const struct rn_ask *ask)
{
    int64_t wall = w->end_ns + ask->wall_offset_ns, begin, end;

    find_window(limit, wall, &begin, &end);
    return !limit->from_first && wall - begin < quantum ? wall - begin : -1;
}

/* Time until the window ends: exactly, where that can be told. */
static int64_t time_left(const struct rn_limit *limit, const struct rn_window *w, int64_t quantum,
                         const struct rn_ask *ask)
{
    return w->end_ns - rn_max_i64(rounding(limit, w, quantum, ask), 0) - ask->now_ns;
}

/* Where `now` is in relation to the window in the state. */
enum place {
    INSIDE,
    UNCLEAR, /* within the rounding of its end: either */
    AFTER,
};

static enum place locate(const struct rn_limit *limit, const struct rn_window *w, int64_t quantum,
                         const struct rn_ask *ask)
{
    int64_t now = ask->now_ns;

    if (w->end_ns <= now)
        return AFTER;
    if (w->end_ns - now >= quantum)
        return INSIDE;
    int64_t added = rounding(limit, w, quantum, ask);

    return added < 0 ? UNCLEAR : w->end_ns - added <= now ? AFTER : INSIDE;
}

/* Whether now is in the window after this one, which then begins with what is owed. `end`:
 * of the aligned window that now is in. */
static bool follows(const struct rn_limit *limit, const struct rn_window *w, int64_t quantum,
                    const struct rn_ask *ask, int64_t end)
{
    if (w->owed == 0)
        return false;
    int64_t next = next_end(limit, w, quantum, ask);

    return limit->from_first ? next > ask->now_ns : next == end;
}

/* Brings the window up to now; returns whether it had to be brought back from
 * too far ahead. An aligned window may be the next one if the clock went back a
 * little: to cut it short would be to begin that one twice. */
static bool advance(const struct rn_limit *limit, struct rn_window *w, int64_t quantum,
                    const struct rn_ask *ask, enum place place)
{
    int64_t now = ask->now_ns, horizon = limit->longest_ns + quantum;

    if (place == AFTER) {
        int64_t end = limit->from_first ? 0 : round_up(new_end(limit, ask), quantum);

        /* Ends follow each other a period apart; if less, the wall clock was
         * set back, and it is the same window again. */
        if (w->end_ns > 0 && end - w->end_ns < limit->period_ns / 8 * 7 && !limit->from_first)
            w->end_ns = end;
        else
            *w = follows(limit, w, quantum, ask, end)
                     ? (struct rn_window){next_end(limit, w, quantum, ask), w->owed, 0}
                     : (struct rn_window){0};
        return false;
    }
    if (w->end_ns - now <= (limit->from_first ? horizon : 2 * horizon))
        return false;
    w->end_ns = round_up(new_end(limit, ask), quantum);
    return true;
}

static uint64_t left_in(const struct rn_limit *limit, const struct rn_window *w, enum place place)
{
    uint64_t left = limit->amount > w->count ? limit->amount - w->count : 0;

    return place != UNCLEAR && left > w->owed ? left - w->owed : 0;
}

/* Until a cost fits that does not now: in the next window, or, if too much of that is
 * owed, in the one after. */
static int64_t wait_ns(const struct rn_limit *limit, const struct rn_window *w, int64_t quantum,
                       const struct rn_ask *ask)
{
    if (ask->cost > limit->amount)
        return rn_limit_beyond_ns(limit, ask->cost);
    if (w->owed <= limit->amount - ask->cost)
        return time_left(limit, w, quantum, ask);
    struct rn_window next = {.end_ns = next_end(limit, w, quantum, ask)};

    return time_left(limit, &next, quantum, ask);
}

/* While it is unclear whether the window has ended, nothing is admitted, spent or not. */
static int64_t reset_ns(const struct rn_limit *limit, const struct rn_window *w, int64_t quantum,
                        const struct rn_ask *ask, enum place place)
{
    bool spent = w->count != 0 || w->owed != 0 || place == UNCLEAR;
    struct rn_window last = *w;

    if (w->owed != 0)
        last.end_ns = next_end(limit, w, quantum, ask);
    return spent ? time_left(limit, &last, quantum, ask) : 0;
}

/* Returns whether the window changed. Its end stays a multiple of `quantum`. */
static bool apply(const struct rn_limit *limit, struct rn_window *w, int64_t quantum,
                  const struct rn_ask *ask, struct rn_answer *answer)
{
    enum place place = locate(limit, w, quantum, ask);
    bool write = advance(limit, w, quantum, ask, place);

    if (place == AFTER && w->end_ns != 0) /* it begins with what was owed */
        place = locate(limit, w, quantum, ask);
    uint64_t left = left_in(limit, w, place);

    answer->delay_ns = answer->retry_after_ns = 0;
    if (ask->op == RN_GIVE_BACK || ask->op == RN_CREDIT) {
        answer->allowed = give_back(w, ask);
        write |= answer->allowed;
    } else {
        answer->allowed = ask->cost <= left;
        if (!answer->allowed)
            answer->retry_after_ns = wait_ns(limit, w, quantum, ask);
        if (ask->cost != 0 && rn_op_charges(ask->op, answer->allowed)) {
            if (w->end_ns == 0)
                w->end_ns = round_up(new_end(limit, ask), quantum);
            w->count += rn_min_u64(ask->cost, left);
            w->owed += rn_owe(ask, left, limit->cap - rn_min_u64(w->owed, limit->cap), answer);
            write = true;
        }
    }
    answer->remaining = left_in(limit, w, place);
    answer->reset_after_ns = reset_ns(limit, w, quantum, ask, place);
    answer->mark = w->end_ns;
    return write;
}

static enum rn_outcome apply_packed(const struct rn_limit *limit, uint64_t *state, uint32_t words,
                                    const struct rn_ask *ask, struct rn_answer *answer)
{
    struct rn_window w = rn_window_unpack(*state);
    bool write = apply(limit, &w, RN_WINDOW_QUANTUM_NS, ask, answer);

    (void)words;
    if (!write)
        return RN_KEEP;
    if (w.owed != 0)
        return RN_GROW;
    *state = rn_window_pack(w);
    return RN_WRITE;
}

/* Under a limit that packs its windows the ends stay rounded: receipts tell windows apart
 * by them. */
static enum rn_outcome apply_wide(const struct rn_limit *limit, uint64_t *state, uint32_t words,
                                  const struct rn_ask *ask, struct rn_answer *answer)
{
    int64_t quantum = limit->form == RN_FORM_WINDOW ? RN_WINDOW_QUANTUM_NS : 1;
    bool owes = words >= RN_WIDE_WORDS && state[2] != 0;
    struct rn_window w = {.end_ns = rn_max_i64((int64_t)state[owes ? 3 : 0], 0),
                          .count = state[1],
                          .owed = owes ? state[2] : 0};

    if (!apply(limit, &w, quantum, ask, answer))
        return RN_KEEP;
    if (w.owed != 0 && words < RN_WIDE_WORDS)
        return RN_GROW;
    state[0] = (uint64_t)(w.owed ? next_end(limit, &w, quantum, ask) : w.end_ns);
    state[1] = w.count;
    if (words >= RN_WIDE_WORDS) {
        state[2] = w.owed;
        state[3] = (uint64_t)w.end_ns;
    }
    return RN_WRITE;
}

static int64_t oldest(const struct rn_limit *limit, const uint64_t *state, uint32_t words,
                      const struct rn_ask *ask)
{
    (void)words;
    return age_of(limit, rn_window_unpack(state[0]).end_ns, ask);
}

static int64_t oldest_wide(const struct rn_limit *limit, const uint64_t *state, uint32_t words,
                           const struct rn_ask *ask)
{
    bool owes = words >= RN_WIDE_WORDS && state[2] != 0;

    return age_of(limit, (int64_t)state[owes ? 3 : 0], ask);
}

static int64_t idle_at(uint64_t word)
{
    return rn_window_unpack(word).end_ns;
}

static uint64_t spent(const uint64_t *state, uint32_t words)
{
    (void)words;
    return rn_window_unpack(state[0]).count;
}

static uint64_t spent_wide(const uint64_t *state, uint32_t words)
{
    return words >= 2 ? state[1] : 0;
}

static void grow(uint64_t word, uint64_t *state)
{
    struct rn_window w = rn_window_unpack(word);

    state[0] = (uint64_t)w.end_ns;
    state[1] = w.count;
}

const struct rn_form_descriptor rn_window_form = {
    .algorithm = RATION_FIXED_WINDOW,
    .apply = apply_packed,
    .oldest = oldest,
    .idle_at = idle_at,
    .spent = spent,
    .grows_into = RN_FORM_WIDE,
    .grow = grow,
    .envelope = rn_envelope_windowed,
    .settles = rn_envelope_settles_window,
};

const struct rn_form_descriptor rn_wide_form = {
    .algorithm = RATION_FIXED_WINDOW,
    .apply = apply_wide,
    .oldest = oldest_wide,
    .spent = spent_wide,
    .envelope = rn_envelope_windowed,
    .settles = rn_envelope_settles_window,
};
