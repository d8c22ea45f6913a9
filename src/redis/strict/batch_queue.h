/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Charges on their way. A queue holds those of one script, and in a cluster of one tag,
 * as a call there may only have keys of one slot: those that wait, in order, while one call
 * is in flight. When it is answered they go as one call of up to 64. So no key is ever
 * in two calls at once, and a busy store gets few, large ones.
 *
 * While a slot moves from one server to another, calls of its queues have one key each, or
 * with what tells of its resets two. Those may not be together until the slot has
 * arrived: such a call stands aside, and the queue goes on without it, even with the same key.
 *
 * Charges belong to jobs. A job that has ended leaves its charges behind: those that
 * wait are skipped, those in flight are late (redis/strict/late_charges.h). What is given back of
 * them goes behind all others, where a call has room or nothing else waits; it is never sent again.
 */
#ifndef RN_REDIS_BATCH_QUEUE_H
#define RN_REDIS_BATCH_QUEUE_H

#include "redis/codec.h"
#include "redis/seat.h"
#include "redis/strict/late_charges.h"
#include "redis/strict/script_call.h"

#define RN_BATCH_CHARGES 64
#define RN_BATCH_QUEUE_CHARGES 8192 /* of all queues together */
#define RN_BATCH_QUEUE_BATCHES 1024
#define RN_BATCH_QUEUE_ASIDE 256                           /* of them, at most */
#define RN_BATCH_QUEUE_NARROW_NS (INT64_C(1) * 1000000000) /* calls have one key after a split */

struct rn_batch_queue {
    struct rn_seats waiting;
    struct rn_seats behind;      /* refunds of late charges */
    struct rn_batch_queue *next; /* among those that are ready */
    int64_t narrow_until_ns;
    uint16_t slot;
    uint16_t in_flight; /* calls */
    uint8_t script;
    bool ready; /* in some list of those that have something to send */
};

struct rn_batch_queue_events {
    void *arg;
    /* The charge has its answer, or its error. */
    void (*answered)(void *arg, struct rn_job *job, const struct rn_charge *charge);
    /* A late charge was given back. */
    void (*returned)(void *arg, struct rn_charge *charge);
};

struct rn_batch_queues {
    struct rn_script_caller *calls;
    struct rn_redis_counts *counts;
    const struct rn_batch_queue_events *events;
    unsigned tags; /* 1, or in a cluster RN_CODEC_TAGS */
    struct rn_batch_queue *queues;
    struct {
        struct rn_batch_queue *first, **end;
    } ready[RN_SHARDS + 1]; /* by the shard that they wait for; the last: nobody's */
    struct rn_seat *seats, *spare_seats;
    struct rn_batch *batches, *spare_batches, *flying;
    struct rn_late_charges lates;
    uint16_t aside; /* calls */
    uint64_t nonce;
};

/* False: out of memory; rn_batch_queue_done all the same. */
bool rn_batch_queue_init(struct rn_batch_queues *queues, struct rn_script_caller *calls,
                         struct rn_redis_counts *counts,
                         const struct rn_batch_queue_events *events);
void rn_batch_queue_done(struct rn_batch_queues *queues);

/* The slot that the charge's key is in. */
uint16_t rn_batch_queue_slot(const struct rn_batch_queues *queues, const struct rn_charge *charge);
/* It is sent later in this round of the loop, or when what it waits for has happened.
 * False: too many wait. */
bool rn_batch_queue_add(struct rn_batch_queues *queues, struct rn_job *job, size_t index);

/* Jobs with this deadline or an earlier one are about to end: notes which of their charges are on
 * their way, as rn_charge.late. */
void rn_batch_queue_expire(struct rn_batch_queues *queues, int64_t now_ns);
/* As rn_store_disown. */
void rn_batch_queue_disown(struct rn_batch_queues *queues, const struct rn_charge *charge,
                           uint64_t late);

/* Sends what waits for the shard, as far as it takes it. Charges that cannot be sent have
 * RATION_ESTORE. */
void rn_batch_queue_send(struct rn_batch_queues *queues, const struct rn_shard *shard);
/* Those that wait for the shard have RATION_ESTORE. */
void rn_batch_queue_fail(struct rn_batch_queues *queues, const struct rn_shard *shard);
/* Slots have other owners. */
void rn_batch_queue_reroute(struct rn_batch_queues *queues);

#endif
