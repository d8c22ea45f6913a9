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
 */
#include <string.h>

#include "core/forms.h"

#define HEADER 3
#define TIMES_PER_WORD 4

struct log {
    int64_t base_ns;
    int64_t newest; /* quanta after base */
    uint32_t head, count;
};

static uint16_t get_stamp(const uint64_t *state, uint32_t at)
{
    uint16_t stamp;

    memcpy(&stamp, (const char *)(state + HEADER) + 2 * (size_t)at, 2);
    return stamp;
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

/* The log at `now`: damaged ones read as empty, expired units as gone, and one
 * that lies more than a period ahead is moved back to now. */
static struct log look(const struct rn_limit *limit, const uint64_t *state, uint32_t words,
                       int64_t now, bool *clamped)
{
    struct log l = {.head = (uint32_t)(state[2] >> 32), .count = (uint32_t)state[2]};
    int64_t newest = rn_max_i64((int64_t)state[0], 0) - limit->period_ns;
    int64_t base = (int64_t)state[1];
    uint32_t cap = (words - HEADER) * TIMES_PER_WORD;

    *clamped = false;
    if ((uint64_t)l.head + l.count > cap || base < 0 || newest < base ||
        (newest - base) % limit->sub_ns != 0 || newest <= now - limit->period_ns)
        return (struct log){0};
    if (newest - now > limit->period_ns) {
        int64_t back = newest - now - limit->sub_ns; /* its own time was rounded up */

        base -= back;
        newest -= back;
        *clamped = true;
    }
    l.base_ns = base;
    l.newest = (newest - base) / limit->sub_ns;
    while (l.count > 0 && time_of(limit, state, &l, l.head) + limit->period_ns <= now) {
        l.head++;
        l.count--;
    }
    return l;
}

static void store(const struct rn_limit *limit, uint64_t *state, const struct log *l)
{
    state[0] = l->count ? (uint64_t)(newest_ns(limit, l) + limit->period_ns) : 0;
    state[1] = (uint64_t)l->base_ns;
    state[2] = (uint64_t)l->head << 32 | l->count;
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

/* Removes up to `units` of the newest that are not newer than `mark_ns`. */
static uint32_t remove_units(const struct rn_limit *limit, uint64_t *state, struct log *l,
                             int64_t mark_ns, uint64_t units)
{
    uint32_t end = l->head + l->count, at = end;

    while (at > l->head && time_of(limit, state, l, at - 1) > mark_ns)
        at--;
    uint32_t gone = (uint32_t)rn_min_u64(units, at - l->head);

    if (gone == 0)
        return 0;
    int64_t newest = end - at > 0 ? l->newest
                     : gone < l->count
                         ? (time_of(limit, state, l, at - gone - 1) - l->base_ns) / limit->sub_ns
                         : 0;

    move_stamps(state, at - gone, at, end - at);
    l->count -= gone;
    l->newest = newest;
    return gone;
}

static int64_t wait_ns(const struct rn_limit *limit, const uint64_t *state, const struct log *l,
                       int64_t now, uint64_t cost)
{
    if (cost > limit->amount)
        return RN_NEVER;
    uint32_t leave = (uint32_t)(l->count + cost - limit->amount);

    return rn_max_i64(time_of(limit, state, l, l->head + leave - 1) + limit->period_ns - now, 1);
}

enum rn_outcome rn_log_apply(const struct rn_limit *limit, uint64_t *state, uint32_t words,
                             const struct rn_ask *ask, struct rn_answer *answer)
{
    int64_t now = ask->now_ns;
    bool write;
    struct log l = look(limit, state, words, now, &write);
    uint64_t left = limit->amount > l.count ? limit->amount - l.count : 0;
    uint32_t cap = (words - HEADER) * TIMES_PER_WORD;

    answer->retry_after_ns = answer->delay_ns = 0;
    answer->mark = 0;
    if (ask->op == RN_GIVE_BACK) {
        answer->allowed = remove_units(limit, state, &l, ask->mark, ask->cost) != 0;
        write |= answer->allowed;
    } else {
        uint32_t units = (uint32_t)rn_min_u64(ask->cost, left);

        answer->allowed = ask->cost <= left;
        if (!answer->allowed)
            answer->retry_after_ns = wait_ns(limit, state, &l, now, ask->cost);
        if (rn_op_charges(ask->op) && units != 0 && (answer->allowed || ask->op == RN_FORCE)) {
            if (l.count + units > cap)
                return RN_GROW;
            if (l.head + l.count + units > cap) {
                move_stamps(state, 0, l.head, l.count);
                l.head = 0;
            }
            append(limit, state, &l, now, units);
            answer->mark = newest_ns(limit, &l);
            write = true;
        }
    }
    answer->remaining = limit->amount > l.count ? limit->amount - l.count : 0;
    answer->reset_after_ns =
        l.count ? rn_max_i64(newest_ns(limit, &l) + limit->period_ns - now, 0) : 0;
    if (write)
        store(limit, state, &l);
    return write ? RN_WRITE : RN_KEEP;
}

int64_t rn_log_oldest(const struct rn_limit *limit, const uint64_t *state, uint32_t words,
                      int64_t now_ns)
{
    bool clamped;
    struct log l = look(limit, state, words, now_ns, &clamped);

    return l.count ? rn_max_i64(now_ns - time_of(limit, state, &l, l.head), 0) : RN_NEVER;
}
