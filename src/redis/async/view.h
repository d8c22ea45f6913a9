/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known here of a state that Redis holds: as it was told in the reply to a
 * report (scripts/report.lua), and aged since as the scripts would age it. Pure: time is
 * an argument.
 *
 * The time of the store is reckoned from what the reply said and from our own clock
 * since its arrival. That is never later than it is there: so a view ages no faster than
 * the state, and what others charge meanwhile only makes the state the smaller of both.
 * A clock of the store that is set is heard of with the next reply.
 */
#ifndef RN_REDIS_VIEW_H
#define RN_REDIS_VIEW_H

#include "redis/codec.h"

#define RN_VIEW_NUMBERS 3 /* of a state, as reports are answered */

struct rn_view {
    enum rn_script kind;
    bool from_first; /* windows */
    uint64_t cap;    /* units of a limit of which nothing is spent */
    uint64_t amount;
    int64_t period_ns, period_us;
    struct rn_codec_parts parts; /* buckets */

    /* Bucket: debt in parts, the tick at which it was so. Window: its end or 0, units
     * spent. Counter: number of the current window, previous and current count. */
    int64_t state[RN_VIEW_NUMBERS];
    int64_t store_us, at_ns; /* the store's time then, and ours, not earlier */
};

/* Limits whose states can be seen: token buckets, fixed windows, sliding counters,
 * without fault (redis/codec.h). */
bool rn_view_serves(const struct rn_limit *limit);

/* Nothing is spent; the time of the store is `store_us` now. */
void rn_view_init(struct rn_view *view, const struct rn_limit *limit, int64_t store_us,
                  int64_t now_ns);
/* Whether it was made for a limit like this. */
bool rn_view_is_of(const struct rn_view *view, const struct rn_limit *limit);

/* A reply came at `now_ns`. False: no state that such a key could have; nothing is
 * changed. */
bool rn_view_learn(struct rn_view *view, const long long numbers[RN_VIEW_NUMBERS],
                   long long store_us, int64_t now_ns);

/* The time of the store, at the latest that is known to have come. */
int64_t rn_view_time(const struct rn_view *view, int64_t now_ns);

/* Units left, below 0 if more than all were taken. `store_us` is rn_view_time. */
int64_t rn_view_left(const struct rn_view *view, int64_t store_us);

/* Nanoseconds until `cost` units are left, 0 if they are, if `more` units are charged
 * now; cost <= cap. */
int64_t rn_view_wait(const struct rn_view *view, const struct rn_limit *limit, int64_t store_us,
                     uint64_t more, uint64_t cost);

/* The mark of a take now, as the strict scripts have it. */
int64_t rn_view_mark(const struct rn_view *view, const struct rn_limit *limit, int64_t store_us);

#endif
