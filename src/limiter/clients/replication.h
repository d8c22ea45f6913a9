/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Overrides and bans between nodes that each have their own: what was changed here and
 * others may not know, and what others have changed. Whoever carries it to and fro
 * (redis/fleet/fleet.h) may lose, repeat and reorder it: of two changes of the same client
 * the one made later holds, also if it is a deletion, so that all end up with the same.
 *
 * "Later" is by the wall clocks of the nodes; but a change of something that the node
 * knows is always later than that (rn_clients_change), so that clocks that differ
 * cannot undo what an operator did after having seen it.
 */
#ifndef RN_LIMITER_CLIENTS_REPLICATION_H
#define RN_LIMITER_CLIENTS_REPLICATION_H

#include "limiter/limiter.h"

/* One change. */
struct rn_replication_item {
    char name[RN_CLIENT_NAME]; /* of whom it is about: the same on all nodes */
    uint32_t kind;             /* enum rn_client_change */
    int64_t made_us;           /* wall time */
    int64_t expires_us;        /* wall time; 0: never */
    struct rn_slice payload;   /* client.h */
};

/* From now on deletions are remembered, for others; those of the journal, too. Again: nothing
 * happens. */
void rn_replication_begin(struct ration *r);

/* How often something was changed other than by rn_replication_merge: if it has risen,
 * there is something to collect. */
uint64_t rn_replication_changes(struct ration *r);

/* Where a walk through all of them is. All zeros: at the beginning. */
struct rn_replication_walk {
    unsigned map;
    uint64_t at;
    bool ended;
};

/* A copy of some, in memory of its own. */
struct rn_replication_batch {
    struct rn_replication_item *items;
    size_t count, room; /* `room`: how many of them there can be */
    struct rn_buf payloads;
};
/* 0 or RATION_ENOMEM. */
int rn_replication_batch_init(struct rn_replication_batch *batch, size_t room);
void rn_replication_batch_done(struct rn_replication_batch *batch);

/* Goes on with the walk and fills the batch with changes that others may not know, up
 * to its room or about `bytes` of payload. What changes meanwhile may be missed: walk
 * again until nothing is found. RATION_EBUSY: somebody is changing something, try
 * again later; RATION_ENOMEM. */
int rn_replication_collect(struct ration *r, struct rn_replication_walk *walk, size_t bytes,
                           struct rn_replication_batch *batch);
/* Others can know these now. RATION_EBUSY. */
int rn_replication_acknowledge(struct ration *r, const struct rn_replication_batch *batch);
/* They may have forgotten what was made since then (0: ever). RATION_EBUSY. */
int rn_replication_doubt(struct ration *r, int64_t since_us);

struct rn_replication_merged {
    size_t taken;   /* and in force now, as far as the rules allow */
    size_t refused; /* no change at all, or there was no room */
};
/* Takes over what others have changed, all of it in one write to the journal. Clients
 * of rules that are not known here wait for those. `error` as in <ration/clients.h>.
 * 0, or a code when nothing was taken: RATION_EBUSY, and those of a change. */
int rn_replication_merge(struct ration *r, const struct rn_replication_item *items, size_t n,
                         struct rn_replication_merged *merged, struct ration_error *error);

#endif
