/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This daemon as a node of a fleet: takes over the changes that operators make on other nodes,
 * and counts the nodes. Runs in the control thread.
 */
#ifndef RN_RATIOND_MEMBERSHIP_H
#define RN_RATIOND_MEMBERSHIP_H

#include "rationd/shared_store.h"
#include "redis/fleet/fleet.h"

/* How much longer a start waits while changes of other nodes are arriving. */
#define RN_MEMBERSHIP_WAIT_NS (INT64_C(10) * 1000000000)

/* All zeros: no other nodes. */
struct rn_membership {
    const struct rn_rationd_options *options;
    struct rn_front *front;
    struct rn_loop *loop;
    struct rn_fleet *fleet; /* NULL: no other nodes */
    struct rn_buf kept; /* without other nodes: the rules that an operator has set; empty: none */
    char rules_path[sizeof((struct rn_rationd_options *)0)->state_path + sizeof ".rules"];
};

/* Call after rn_shared_store_begin of the control loop. */
void rn_membership_begin(struct rn_membership *membership, struct rn_shared_store *shared,
                         struct rn_front *front);
/* Without other nodes: loads the rules that an operator has set, which are kept beside the state
 * file. Call before the server accepts connections, so that no request is decided by the files. */
void rn_membership_begin_alone(struct rn_membership *membership,
                               const struct rn_rationd_options *options, struct rn_front *front);
/* Call after rn_shared_store_end. */
void rn_membership_end(struct rn_membership *membership);
/* Tells the other nodes that this one leaves. */
void rn_membership_leave(struct rn_membership *membership);
/* All decisions are made: publishes the rest of the usage. False: ask again. */
bool rn_membership_finish(struct rn_membership *membership);

/* Whether the shared changes are in force here, or nothing is shared. */
bool rn_membership_is_synced(const struct rn_membership *membership);
/* How long to wait for that; 0: no changes are arriving. */
int64_t rn_membership_wait_ns(const struct rn_membership *membership);

/* Passes the number of nodes to on_store_failure. */
void rn_membership_count_nodes(struct rn_membership *membership);
/* Whether an operator has set rules, which replace the files. */
bool rn_membership_has_rules(const struct rn_membership *membership);

#endif
