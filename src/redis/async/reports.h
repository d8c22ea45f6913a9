/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reports to Redis of what was admitted here, and what is learnt from their answers.
 *
 * Keys wait until the next tick, or go at once if they hold half of what they may; up to
 * 63 in one call. A call that is not answered is sent again at the next tick, with the
 * same number and the same units, until it is: the script charges it once. There is one
 * call under way at a time, or one for each hash tag where Redis is a cluster.
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
    _Atomic uint64_t decided;    /* here, without a trip */
    _Atomic uint64_t passed;     /* charges that the next store was asked for */
    _Atomic uint64_t reports;    /* of keys, answered */
    _Atomic uint64_t units;      /* in them */
    _Atomic uint64_t trips;      /* calls sent, those sent again included */
    _Atomic uint64_t resent;     /* calls sent again, as nobody knows whether they were run */
    _Atomic uint64_t unreported; /* units, now */
    _Atomic uint64_t keys;       /* known, now */
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

/* The calls of one hash tag, or all. */
struct rn_reports_line {
    struct rn_reports *owner;
    struct rn_async_key *first, **last; /* that wait, by due_ns */
    uint64_t number;                    /* of the last call */
    enum { RN_REPORTS_FREE, RN_REPORTS_WAITS, RN_REPORTS_FAILED } stage;
    bool doubtful; /* it was sent before, and may have been run */
    size_t count;
    struct rn_async_key *sent[RN_ASYNC_KEYS_OF_CALL];
};

struct rn_reports {
    struct rn_loop *loop;
    struct rn_redis *redis;
    struct rn_async_counts *counts;
    struct rn_timer timer;
    bool stopped;
    uint64_t holder;    /* another one for each worker and start */
    int64_t phase_ns;   /* of the ticks: not all workers at once */
    long long store_us; /* the time of Redis, */
    int64_t heard_ns;   /* when we last heard of it; 0: never */
    size_t line_count;
    struct rn_reports_line *lines;
};

/* False: out of memory. */
bool rn_reports_init(struct rn_reports *reports, struct rn_loop *loop, struct rn_redis *redis,
                     bool by_tag, struct rn_async_counts *counts);
/* Everything is sent that has not been, without waiting for an answer. Nothing is begun
 * from then on. */
void rn_reports_stop(struct rn_reports *reports);
/* When no answer can come any more. */
void rn_reports_done(struct rn_reports *reports);

/* The key is to be reported: at the next tick, or `now`. The charge is one of it. */
void rn_reports_want(struct rn_reports *reports, struct rn_async_key *key,
                     const struct rn_charge *charge, bool now);

/* Whether nothing is lost by forgetting the key. */
rn_local_keys_spares rn_reports_spares;

/* The time of Redis, or what we take for it. */
int64_t rn_reports_store_us(const struct rn_reports *reports, int64_t now_ns);

#endif
