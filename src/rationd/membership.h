/* SPDX-License-Identifier: Apache-2.0 */
/*
 * This daemon among the nodes of a fleet: what operators change on one of them holds on
 * all, and limits are shared out among as many as there are. All of it is of the control
 * thread.
 */
#ifndef RN_RATIOND_MEMBERSHIP_H
#define RN_RATIOND_MEMBERSHIP_H

#include "rationd/shared_store.h"
#include "redis/fleet/fleet.h"

/* How much longer a start waits while there is more and more to take over. */
#define RN_MEMBERSHIP_WAIT_NS (INT64_C(10) * 1000000000)

/* All zeros: it is alone. */
struct rn_membership {
    const struct rn_rationd_options *options;
    struct rn_front *front;
    struct rn_loop *loop;
    struct rn_fleet *fleet; /* NULL: alone */
    struct rn_buf kept;     /* alone: the rules that an operator has set; empty: none */
    char rules_path[sizeof((struct rn_rationd_options *)0)->state_path + sizeof ".rules"];
};

/* After rn_shared_store_begin of the control loop. */
void rn_membership_begin(struct rn_membership *membership, struct rn_shared_store *shared,
                         struct rn_front *front);
/* Without other nodes: only rules are kept, if there is a state to keep them beside. Before
 * anybody can ask, so that nothing is decided by the files meanwhile. */
void rn_membership_begin_alone(struct rn_membership *membership,
                               const struct rn_rationd_options *options, struct rn_front *front);
/* After rn_shared_store_end. */
void rn_membership_end(struct rn_membership *membership);
/* Other nodes need not count on this one any more. */
void rn_membership_leave(struct rn_membership *membership);

/* What the nodes share is in force here, or they share nothing. */
bool rn_membership_is_synced(const struct rn_membership *membership);
/* How long it is worth waiting for that; 0: nothing comes. */
int64_t rn_membership_wait_ns(const struct rn_membership *membership);

/* Tells the policy how many nodes there are. */
void rn_membership_count_nodes(struct rn_membership *membership);
/* Whether an operator has set rules, which hold in place of the files. */
bool rn_membership_has_rules(const struct rn_membership *membership);

#endif
