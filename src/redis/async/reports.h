/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports admitted units to Redis, and learns the states from the replies.
 *
 * A key is reported at the next tick, or at once if it holds half of the units it may; one call has
 * up to 63 keys. A call without a reply is sent again at each tick, with the same number and the
 * same units: the script charges it once. One call is in flight at a time, or in a cluster one for
 * each hash tag.
 */
#ifndef RN_REDIS_REPORTS_H
#define RN_REDIS_REPORTS_H

#include "redis/async/local_budget.h"
#include "redis/local_keys.h"
#include "redis/redis.h"

#define RN_ASYNC_TICK_NS (INT64_C(100) * 1000000)
#define RN_ASYNC_KEYS_OF_CALL (RN_SCRIPT_REQUEST_KEYS - 1)

/* Written by the loop's thread, read by any. */
struct rn_async_counts {
    _Atomic uint64_t decided;    /* charges decided here */
    _Atomic uint64_t passed;     /* charges passed on to the next backend */
    _Atomic uint64_t reports;    /* of keys, with a reply */
    _Atomic uint64_t units;      /* in them */
    _Atomic uint64_t trips;      /* calls, including those sent again */
    _Atomic uint64_t resent;     /* calls sent again, as Redis may not have run them */
    _Atomic uint64_t unreported; /* units, now */
    _Atomic uint64_t keys;       /* in the table, now */
};

struct rn_async_key {
    struct rn_local_key local; /* first */
    struct rn_local_budget budget;
    uint64_t most; /* units it may hold, as of the last decision */

    /* Its report, ready to be sent. */
    uint8_t name_len, arg_len;
    char name[RN_CODEC_NAME], arg[RN_CODEC_BYTES];
    int64_t written_ns;

    /* In the queue of keys to be reported, due at due_ns. link NULL: it is not. */
    struct rn_async_key *next, **link;
    int64_t due_ns;
};

struct rn_reports;

/* The queue and the call of one hash tag, or of all. */
struct rn_reports_line {
    struct rn_reports *owner;
    struct rn_async_key *first, **last; /* waiting keys, by due_ns */
    uint64_t number;                    /* of the last call */
    enum { RN_REPORTS_FREE, RN_REPORTS_WAITS, RN_REPORTS_FAILED } stage;
    bool doubtful; /* the call was sent before, and Redis may have run it */
    size_t count;
    struct rn_async_key *sent[RN_ASYNC_KEYS_OF_CALL];
};

struct rn_reports {
    struct rn_loop *loop;
    struct rn_redis *redis;
    struct rn_async_counts *counts;
    struct rn_timer timer;
    bool stopped;
    size_t in_flight;   /* calls whose reply is still to come */
    uint64_t holder;    /* unique for each worker and start */
    int64_t phase_ns;   /* of the ticks, so that workers do not report at the same time */
    long long store_us; /* the server's time */
    int64_t heard_ns;   /* at this time of ours; 0: not known */
    size_t line_count;
    struct rn_reports_line *lines;
};

/* False: out of memory. */
bool rn_reports_init(struct rn_reports *reports, struct rn_loop *loop, struct rn_redis *redis,
                     bool by_tag, struct rn_async_counts *counts);
/* Sends all unreported units without waiting for replies, and nothing from then on. */
void rn_reports_stop(struct rn_reports *reports);
/* Whether replies are still to come. */
bool rn_reports_are_busy(const struct rn_reports *reports);
/* Call this when no reply can come any more. */
void rn_reports_done(struct rn_reports *reports);

/* Queues a report of the key: for the next tick, or `now`. The charge must be one of the key. */
void rn_reports_want(struct rn_reports *reports, struct rn_async_key *key,
                     const struct rn_charge *charge, bool now);

/* Whether nothing is lost by forgetting the key. */
rn_local_keys_spares rn_reports_spares;

/* The server's time; before the first reply, this node's. */
int64_t rn_reports_store_us(const struct rn_reports *reports, int64_t now_ns);

#endif
