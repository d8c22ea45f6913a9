/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sliding window log: the time of every unit admitted in the last period, two
 * bytes each. A unit admitted at t counts in (t, t + W): at t + W it is gone,
 * so that in no half-open interval (s - W, s] more than the limit is admitted.
 *
 * Times are whole quanta after `base`, rounded up, modulo 2^16; the quantum is
 * a little above W / 2^16, so that live ones can be told apart. `base` is the
 * exact time of the first unit after the log was empty.
 *
 *   [0] time of the newest unit + W: when nothing counts any more
 *   [1] base   [2] index of the oldest << 32 | how many
 *   [3] times, oldest first, four to a word
 *
 * Units that have expired are dropped when the next one is written.
 *
 * What a late debit finds no room for is owed: it counts, and takes the place of the oldest
 * unit when that expires, at that time. A log that owes has its oldest unit at index 0; [2]
 * is then 2^63 | owed << 32 | how many, and [0] a period later.
 */
#include <string.h>

#include "core/forms.h"

#define HEADER 3
#define TIMES_PER_WORD 4
#define OWES (UINT64_C(1) << 63)

struct log {
    int64_t base_ns;
    int64_t newest; /* quanta after base */
    uint32_t head, count;
    uint32_t owed;        /* the oldest `owed` units each have one that takes their place */
    uint32_t left, ended; /* if something is owed: units that have expired, and of those in
                             their place as many */
};

static uint16_t get_stamp(const uint64_t *state, uint32_t at)
{
    uint16_t stamp;

    memcpy(&stamp, (const char *)(state + HEADER) + 2 * (size_t)at, 2);
    return stamp;
}

static void set_stamp(uint64_t *state, uint32_t at, uint16_t stamp)
{
    memcpy((char *)(state + HEADER) + 2 * (size_t)at, &stamp, 2);
}

static void move_stamps(uint64_t *state, uint32_t to, uint32_t from, uint32_t count)
{
    char *stamps = (char *)(state + HEADER);

    memmove(stamps + 2 * (size_t)to, stamps + 2 * (size_t)from, 2 * (size_t)count);
}

static int64_t time_of(const struct rn_limit *limit, const uint64_t *state, const struct log *l,
                       uint32_t at)
{
    uint16_t behind = (uint16_t)((uint16_t)l->newest - get_stamp(state, at));

    return l->base_ns + (l->newest - behind) * limit->sub_ns;
}

static int64_t newest_ns(const struct rn_limit *limit, const struct log *l)
{
    return l->base_ns + l->newest * limit->sub_ns;
}

static int64_t expires(const struct rn_limit *limit, const uint64_t *state, const struct log *l,
                       uint32_t at)
{
    return time_of(limit, state, l, at) + limit->period_ns;
}

/* When the one that takes its place begins to count: not before the newest, whose time was
 * rounded up. */
static int64_t succeeds(const struct rn_limit *limit, const uint64_t *state, const struct log *l,
                        uint32_t at)
{
    return rn_max_i64(expires(limit, state, l, at), newest_ns(limit, l));
}

/* The log in the block, as it was written: damaged ones read as empty, and one that lies
 * more than a period ahead is moved back to now. */
static struct log read(const struct rn_limit *limit, const uint64_t *state, uint32_t words,
                       int64_t now, bool *clamped)
{
    bool owes = (state[2] & OWES) != 0;
    uint32_t high = (uint32_t)((state[2] & ~OWES) >> 32), cap = (words - HEADER) * TIMES_PER_WORD;
    struct log l = {.head = owes ? 0 : high, .count = (uint32_t)state[2], .owed = owes ? high : 0};
    int64_t life = (owes ? 2 : 1) * limit->period_ns;
    int64_t newest = rn_max_i64((int64_t)state[0], 0) - life;
    int64_t base = (int64_t)state[1];

    *clamped = false;
    if ((uint64_t)l.head + l.count > cap || l.owed > l.count || base < 0 || newest < base ||
        (newest - base) % limit->sub_ns != 0 || newest <= now - life)
        return (struct log){0};
    if (newest - now > limit->period_ns) {
        int64_t back = newest - now - limit->sub_ns; /* its own time was rounded up */

        base -= back;
        newest -= back;
        *clamped = true;
    }
    l.base_ns = base;
    l.newest = (newest - base) / limit->sub_ns;
    return l;
}

static uint32_t placed(const struct log *l)
{
    return l->left < l->owed ? l->left : l->owed;
}

/* The log at `now`: expired units are gone. */
static struct log look(const struct rn_limit *limit, const uint64_t *state, uint32_t words,
                       int64_t now, bool *clamped)
{
    struct log l = read(limit, state, words, now, clamped);

    while (l.left < l.count && expires(limit, state, &l, l.head + l.left) <= now)
        l.left++;
    if (l.owed == 0) {
        l.head += l.left;
        l.count -= l.left;
        l.left = 0;
    }
    while (l.ended < placed(&l) &&
           succeeds(limit, state, &l, l.head + l.ended) + limit->period_ns <= now)
        l.ended++;
    return l;
}

/* Units that count. */
static uint32_t live(const struct log *l)
{
    return l->count - l->left + l->owed - l->ended;
}

/* When the one behind `before` others that count will have expired. */
static int64_t leaves(const struct rn_limit *limit, const uint64_t *state, const struct log *l,
                      uint32_t before)
{
    uint32_t here = l->count - l->left;

    if (before < here)
        return expires(limit, state, l, l->head + l->left + before);
    return succeeds(limit, state, l, l->head + l->ended + before - here) + limit->period_ns;
}

static void store(const struct rn_limit *limit, uint64_t *state, struct log *l)
{
    int64_t life = (l->owed != 0 ? 2 : 1) * limit->period_ns;

    if (l->owed != 0) {
        move_stamps(state, 0, l->head, l->count);
        l->head = 0;
    }
    state[0] = l->count ? (uint64_t)(newest_ns(limit, l) + life) : 0;
    state[1] = (uint64_t)l->base_ns;
    state[2] = l->owed != 0 ? OWES | (uint64_t)l->owed << 32 | l->count
                            : (uint64_t)l->head << 32 | l->count;
}

static void reverse(uint64_t *state, uint32_t from, uint32_t end)
{
    for (; from + 1 < end; from++, end--) {
        uint16_t first = get_stamp(state, from), last = get_stamp(state, end - 1);

        set_stamp(state, from, last);
        set_stamp(state, end - 1, first);
    }
}

/* Enters what was owed and has taken the place of units that expired: behind the others. */
static void settle(const struct rn_limit *limit, uint64_t *state, struct log *l)
{
    uint32_t from = l->head + l->ended, entered = placed(l) - l->ended;
    uint32_t here = l->count - l->left;
    int64_t newest = l->newest;

    for (uint32_t i = from; i < from + entered; i++) {
        int64_t at = rn_ceil_div(succeeds(limit, state, l, i) - l->base_ns, limit->sub_ns);

        newest = rn_max_i64(newest, at);
        set_stamp(state, i, (uint16_t)at); /* l->newest still tells the times of the others */
    }
    move_stamps(state, from + entered, l->head + l->left, here);
    reverse(state, from, from + entered);
    reverse(state, from + entered, from + entered + here);
    reverse(state, from, from + entered + here);
    l->owed -= placed(l);
    *l = (struct log){.base_ns = l->base_ns,
                      .newest = newest,
                      .head = from,
                      .count = entered + here,
                      .owed = l->owed};
    if (l->count == 0)
        *l = (struct log){0};
}

/* There is room for them behind the newest. */
static void append(const struct rn_limit *limit, uint64_t *state, struct log *l, int64_t now,
                   uint32_t units)
{
    if (l->count == 0)
        *l = (struct log){.base_ns = now};
    int64_t at = rn_max_i64(rn_ceil_div(now - l->base_ns, limit->sub_ns), l->newest);
    uint16_t stamp = (uint16_t)at;
    char *stamps = (char *)(state + HEADER) + 2 * (size_t)(l->head + l->count);

    for (uint32_t i = 0; i < units; i++)
        memcpy(stamps + 2 * (size_t)i, &stamp, 2);
    l->newest = at;
    l->count += units;
}

/* Removes up to `units` of the newest that are not newer than `mark_ns`; as many of those
 * owed instead, as long as there are any. */
static bool remove_units(const struct rn_limit *limit, uint64_t *state, struct log *l,
                         int64_t mark_ns, uint64_t units)
{
    uint32_t end = l->head + l->count, at = end;

    while (at > l->head && time_of(limit, state, l, at - 1) > mark_ns)
        at--;
    uint32_t gone = (uint32_t)rn_min_u64(units, at - l->head);
    uint32_t forgiven = (uint32_t)rn_min_u64(gone, l->owed);

    l->owed -= forgiven;
    gone -= forgiven;
    if (gone == 0)
        return forgiven != 0;
    int64_t newest = end - at > 0 ? l->newest
                     : gone < l->count
                         ? (time_of(limit, state, l, at - gone - 1) - l->base_ns) / limit->sub_ns
                         : 0;

    move_stamps(state, at - gone, at, end - at);
    l->count -= gone;
    l->newest = newest;
    return true;
}

/* What is owed, then the newest. */
static bool credit(const struct rn_limit *limit, uint64_t *state, struct log *l, uint64_t units)
{
    uint32_t forgiven = (uint32_t)rn_min_u64(units, l->owed);

    l->owed -= forgiven;
    return remove_units(limit, state, l, INT64_MAX, units - forgiven) || forgiven != 0;
}

static enum rn_outcome apply(const struct rn_limit *limit, uint64_t *state, uint32_t words,
                             const struct rn_ask *ask, struct rn_answer *answer)
{
    int64_t now = ask->now_ns;
    bool write;
    struct log l = look(limit, state, words, now, &write);
    uint64_t left = limit->amount > live(&l) ? limit->amount - live(&l) : 0;
    uint32_t cap = (words - HEADER) * TIMES_PER_WORD;

    answer->retry_after_ns = answer->delay_ns = 0;
    answer->mark = 0;
    if (ask->op == RN_GIVE_BACK || ask->op == RN_CREDIT) {
        write |= l.owed != 0;
        if (l.owed != 0)
            settle(limit, state, &l);
        answer->allowed = ask->op == RN_CREDIT
                              ? credit(limit, state, &l, ask->cost)
                              : remove_units(limit, state, &l, ask->mark, ask->cost);
        write |= answer->allowed;
    } else {
        uint32_t units = (uint32_t)rn_min_u64(ask->cost, left), kept = l.count - l.left;

        answer->allowed = ask->cost <= left;
        if (!answer->allowed)
            answer->retry_after_ns =
                ask->cost > limit->amount
                    ? rn_limit_beyond_ns(limit, ask->cost)
                    : rn_max_i64(leaves(limit, state, &l,
                                        (uint32_t)(live(&l) + ask->cost - limit->amount) - 1) -
                                     now,
                                 1);
        if (ask->cost != 0 && rn_op_charges(ask->op, answer->allowed) &&
            (units != 0 || ask->op == RN_DEBIT)) {
            if (kept + placed(&l) - l.ended + units > cap)
                return RN_GROW;
            if (l.owed != 0)
                settle(limit, state, &l);
            if (l.head + l.count + units > cap) {
                move_stamps(state, 0, l.head, l.count);
                l.head = 0;
            }
            append(limit, state, &l, now, units);
            uint64_t most = rn_min_u64(l.count, limit->cap); /* each needs a place to take */

            l.owed += (uint32_t)rn_owe(ask, left, most - rn_min_u64(l.owed, most), answer);
            answer->mark = newest_ns(limit, &l);
            write = true;
        }
    }
    answer->remaining = limit->amount > live(&l) ? limit->amount - live(&l) : 0;
    answer->reset_after_ns =
        live(&l) ? rn_max_i64(leaves(limit, state, &l, live(&l) - 1) - now, 0) : 0;
    if (write)
        store(limit, state, &l);
    return write ? RN_WRITE : RN_KEEP;
}

static int64_t oldest(const struct rn_limit *limit, const uint64_t *state, uint32_t words,
                      const struct rn_ask *ask)
{
    bool clamped;
    struct log l = look(limit, state, words, ask->now_ns, &clamped);

    if (live(&l) == 0)
        return RN_NEVER;
    return rn_max_i64(ask->now_ns - (leaves(limit, state, &l, 0) - limit->period_ns), 0);
}

static uint64_t spent(const uint64_t *state, uint32_t words)
{
    return words >= 3 ? (uint32_t)state[2] : 0;
}

/* Rounded up, by less than a quantum. */
static int64_t mark_at(const struct rn_limit *limit, int64_t at_ns)
{
    return at_ns + limit->sub_ns - 1;
}

static int64_t settles(const struct rn_limit *outer, const struct rn_limit *inner)
{
    int64_t counted_ns = outer->period_ns + 2 * outer->sub_ns;

    return rn_envelope_settles_span(outer, inner, counted_ns, counted_ns);
}

const struct rn_form_descriptor rn_sliding_log_form = {
    .algorithm = RATION_SLIDING_LOG,
    .apply = apply,
    .oldest = oldest,
    .spent = spent,
    .mark_at = mark_at,
    .envelope = rn_envelope_smooth,
    .settles = settles,
};
