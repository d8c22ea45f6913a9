/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The charges of one script on their way: those that wait, in order, and those of
 * the one call in flight. While it is, the others collect and then go as one call of
 * up to 64. So no key is ever in two calls at once, and a busy store gets few, large
 * ones.
 *
 * Charges belong to jobs. A job that has ended leaves its charges behind: those that
 * wait are skipped, the answers to those in flight dropped.
 */
#ifndef RN_REDIS_LANE_H
#define RN_REDIS_LANE_H

#include "redis/link.h"
#include "redis/script.h"
#include "store/store.h"

#define RN_LANE_BATCH 64
#define RN_LANE_QUEUE 4096

/* One rn_store_apply. */
struct rn_job {
    struct rn_charge *batch;
    size_t n, left; /* how many are not answered yet */
    uint64_t life;  /* another one each time the job is used */
    rn_store_done *done;
    void *arg;
    int64_t deadline_ns;
    struct rn_job *next, **link; /* among those under way: by deadline */
};

struct rn_seat {
    struct rn_job *job;
    uint64_t life;
    size_t index; /* in the job's batch */
};

struct rn_lane;

struct rn_lane_events {
    void *arg;
    /* The charge has its answer, or its error. */
    void (*answered)(void *arg, struct rn_job *job, const struct rn_charge *charge);
    /* The call was answered; the store's clock was `now_us` then. */
    void (*replied)(void *arg, long long now_us);
};

struct rn_lane {
    struct rn_link *link;
    const struct rn_lane_events *events;
    enum rn_script script;
    bool in_flight;
    bool in_full; /* the call in flight is an EVAL */
    uint64_t nonce;
    size_t sent_count;
    struct rn_seat sent[RN_LANE_BATCH];
    size_t first, count;
    struct rn_seat *queue;  /* RN_LANE_QUEUE */
    uint64_t calls, resent; /* resent: for NOSCRIPT */
    uint64_t mismatches;    /* replies to something else */
};

/* False: out of memory. */
bool rn_lane_init(struct rn_lane *lane, enum rn_script script, struct rn_link *link,
                  const struct rn_lane_events *events);
void rn_lane_done(struct rn_lane *lane);

/* False: it is full. */
bool rn_lane_add(struct rn_lane *lane, struct rn_job *job, size_t index);
/* Sends what waits, unless a call is in flight. Charges that cannot be sent have
 * RATION_ESTORE. */
void rn_lane_send(struct rn_lane *lane);

#endif
