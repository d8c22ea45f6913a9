/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker's view of a state in Redis: as the last reply to a report said (scripts/report.lua), and
 * aged since then as the scripts would age it. Pure: time is an argument.
 *
 * The server's time is taken from the reply, plus our own clock since its arrival. That is never
 * ahead of the server's clock, so a view never shows units that Redis would not have refilled;
 * charges of other workers only make the state smaller than the view. A step of the server's clock
 * is noticed with the next reply.
 */
#ifndef RN_REDIS_VIEW_H
#define RN_REDIS_VIEW_H

#include "redis/codec.h"

#define RN_VIEW_NUMBERS 3 /* of a state, in the reply to a report */

struct rn_view {
    enum rn_script kind;
    bool from_first;  /* windows */
    uint16_t percent; /* the factor of the limit; 0: it has none */
    uint64_t cap;     /* units of an unused limit */
    uint64_t amount;
    int64_t period_ns, period_us;
    struct rn_codec_parts parts; /* buckets */

    /* Bucket: debt in parts, and the tick it holds for. Window: its end or 0, units spent.
     * Counter: number of the current window, previous and current count. */
    int64_t state[RN_VIEW_NUMBERS];
    int64_t store_us, at_ns; /* the server's time at the reply; ours, not earlier */
};

/* Whether there can be a view of the limit: token buckets, fixed windows and sliding counters
 * without fault (redis/codec.h). */
bool rn_view_serves(const struct rn_limit *limit);

/* A view in which nothing is spent; the server's time is `store_us` now. */
void rn_view_init(struct rn_view *view, const struct rn_limit *limit, int64_t store_us,
                  int64_t now_ns);
/* Whether the view was made for a limit like this. */
bool rn_view_is_of(const struct rn_view *view, const struct rn_limit *limit);

/* Takes the numbers of a reply that came at `now_ns`. False: no key can have such a state; the view
 * is unchanged. */
bool rn_view_learn(struct rn_view *view, const long long numbers[RN_VIEW_NUMBERS],
                   long long store_us, int64_t now_ns);

/* The server's time: the latest that has certainly come. */
int64_t rn_view_time(const struct rn_view *view, int64_t now_ns);

/* Units left; negative if the limit is exceeded. `store_us` is rn_view_time. */
int64_t rn_view_left(const struct rn_view *view, int64_t store_us);

/* Nanoseconds until `cost` units are left if `more` units are charged now; 0: they are. cost must
 * be at most cap. */
int64_t rn_view_wait(const struct rn_view *view, const struct rn_limit *limit, int64_t store_us,
                     uint64_t more, uint64_t cost);

/* The mark of a take now, as the strict scripts have it. */
int64_t rn_view_mark(const struct rn_view *view, const struct rn_limit *limit, int64_t store_us);

#endif
