/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Exchanges changes of overrides and bans between nodes. The transport (redis/fleet/fleet.h) may
 * lose, repeat and reorder them: of two changes of the same client the later one holds, also if it
 * is a deletion, so that all nodes end up with the same.
 *
 * The wall clocks of the nodes decide what is later. But a change of something that the node knows
 * is always later than that (rn_clients_change): clocks that differ cannot undo what an operator
 * did after having seen it.
 */
#ifndef RN_LIMITER_CLIENTS_REPLICATION_H
#define RN_LIMITER_CLIENTS_REPLICATION_H

#include "limiter/limiter.h"

/* One change. */
struct rn_replication_item {
    char name[RN_CLIENT_NAME]; /* of the client: the same on all nodes */
    uint32_t kind;             /* enum rn_client_change */
    int64_t made_us;           /* wall time */
    int64_t expires_us;        /* wall time; 0: never */
    struct rn_slice payload;   /* client.h */
};

/* Remembers deletions from now on, also those of the journal, for other nodes. A second call does
 * nothing. */
void rn_replication_begin(struct ration *r);

/* The number of changes not made by rn_replication_merge. If it has risen, there is something to
 * collect. */
uint64_t rn_replication_changes(struct ration *r);

/* The position of a walk through all changes. All zeros: at the beginning. */
struct rn_replication_walk {
    unsigned map;
    uint64_t at;
    bool ended;
};

/* A copy of some changes. */
struct rn_replication_batch {
    struct rn_replication_item *items;
    size_t count, room; /* `room`: how many items fit */
    struct rn_buf payloads;
};
/* 0 or RATION_ENOMEM. */
int rn_replication_batch_init(struct rn_replication_batch *batch, size_t room);
void rn_replication_batch_done(struct rn_replication_batch *batch);

/* Goes on with the walk and fills the batch with changes that others may not know, up
 * to its room or about `bytes` of payload. What changes meanwhile may be missed: walk
 * again until nothing is found. RATION_EBUSY: a change is being made, try
 * again later; RATION_ENOMEM. */
int rn_replication_collect(struct ration *r, struct rn_replication_walk *walk, size_t bytes,
                           struct rn_replication_batch *batch);
/* Other nodes can know these changes now. 0 or RATION_EBUSY. */
int rn_replication_acknowledge(struct ration *r, const struct rn_replication_batch *batch);
/* Other nodes may have lost the changes made since then (0: all). 0 or RATION_EBUSY. */
int rn_replication_doubt(struct ration *r, int64_t since_us);

struct rn_replication_merged {
    size_t taken;   /* applied; in force if the rules allow it */
    size_t refused; /* not a valid change, or there was no room */
};
/* Applies changes of other nodes, in one write to the journal. Overrides of unknown rules take
 * effect when the rules are loaded. `error` as in <ration/clients.h>. 0, or a code if nothing was
 * applied: RATION_EBUSY, or a code of a change. */
int rn_replication_merge(struct ration *r, const struct rn_replication_item *items, size_t n,
                         struct rn_replication_merged *merged, struct ration_error *error);

#endif
