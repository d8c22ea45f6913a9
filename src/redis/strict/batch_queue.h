/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Queues of charges on their way to Redis. There is one queue for each script, and in a cluster
 * for each script and hash tag, as a call may only have keys of one slot. A queue has one batch in
 * flight; when it is answered, up to 64 waiting charges go out as the next one. So no key is ever
 * in two batches at once, and a busy Redis gets few, large batches.
 *
 * While a slot migrates from one server to another, its queues are narrow: a batch has one key, or
 * one key and its reset log. These two may be on different servers until the slot has arrived:
 * such a batch steps aside, and the queue goes on without it, even with the same key.
 *
 * Each charge belongs to a job. When the job ends first, a charge that still waits is skipped, and
 * a charge in flight is late (redis/strict/late_charges.h). Refunds of late charges go behind all
 * other charges, where a batch has room or nothing else waits; they are never resent.
 */
#ifndef RN_REDIS_BATCH_QUEUE_H
#define RN_REDIS_BATCH_QUEUE_H

#include "redis/codec.h"
#include "redis/strict/late_charges.h"
#include "redis/strict/script_call.h"

#define RN_BATCH_CHARGES 64
#define RN_BATCH_QUEUE_CHARGES 8192 /* in all queues together */
#define RN_BATCH_QUEUE_BATCHES 1024
#define RN_BATCH_QUEUE_ASIDE 256 /* batches that have stepped aside, at most */
#define RN_BATCH_QUEUE_NARROW_NS (INT64_C(1) * 1000000000) /* a queue stays narrow this long */

/* A charge in a queue or a batch. The charge is gone once its job has ended: the job's life is then
 * another one. */
struct rn_queued_charge {
    struct rn_backend_job *job;
    uint64_t life; /* of the job */
    size_t index;  /* in the job's batch */
    uint64_t late; /* rn_late_charge.id, once the job has ended; 0: none */
    struct rn_queued_charge *next;
};

struct rn_charge_fifo {
    struct rn_queued_charge *first, **end; /* end is valid if first is not NULL */
};

struct rn_batch_queue {
    struct rn_charge_fifo waiting;
    struct rn_charge_fifo behind; /* refunds of late charges */
    struct rn_batch_queue *next;  /* in its `ready` list */
    int64_t narrow_until_ns;
    uint16_t slot;
    uint16_t in_flight; /* batches */
    uint8_t script;
    bool ready; /* in a `ready` list */
};

struct rn_batch_queue_events {
    void *arg;
    /* Whether the answer to a charge that is about to be sent is known by now, and filled in. */
    bool (*is_known)(void *arg, struct rn_charge *charge);
    /* The charge has its answer or its error. */
    void (*answered)(void *arg, struct rn_backend_job *job, const struct rn_charge *charge);
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
    } ready[RN_SHARDS + 1]; /* queues with something to send, by shard; the last: without one */
    struct rn_queued_charge *charges, *spare_charges;
    struct rn_batch *batches, *spare_batches, *flying;
    struct rn_late_charges lates;
    uint16_t aside; /* batches */
    uint64_t nonce;
};

/* False: out of memory; call rn_batch_queue_done all the same. */
bool rn_batch_queue_init(struct rn_batch_queues *queues, struct rn_script_caller *calls,
                         struct rn_redis_counts *counts,
                         const struct rn_batch_queue_events *events);
void rn_batch_queue_done(struct rn_batch_queues *queues);

/* The hash slot of the charge's key. */
uint16_t rn_batch_queue_slot(const struct rn_batch_queues *queues, const struct rn_charge *charge);
/* Queues a charge of the job; it goes out at the end of this round of the loop at the earliest.
 * False: the queues are full. */
bool rn_batch_queue_add(struct rn_batch_queues *queues, struct rn_backend_job *job, size_t index);

/* Jobs with a deadline up to `now_ns` are about to end: notes their charges in flight as late, in
 * rn_charge.late. */
void rn_batch_queue_expire(struct rn_batch_queues *queues, int64_t now_ns);
/* As rn_store_disown. */
void rn_batch_queue_disown(struct rn_batch_queues *queues, const struct rn_charge *charge,
                           uint64_t late);

/* Sends what waits for the shard, as much as its link accepts. Charges that cannot be sent get
 * RATION_ESTORE. */
void rn_batch_queue_send(struct rn_batch_queues *queues, const struct rn_shard *shard);
/* Charges that wait for the shard get RATION_ESTORE. */
void rn_batch_queue_fail(struct rn_batch_queues *queues, const struct rn_shard *shard);
/* Slots have new owners: sorts the queues by shard again. */
void rn_batch_queue_reroute(struct rn_batch_queues *queues);

#endif
