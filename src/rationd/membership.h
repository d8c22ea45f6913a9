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
#define RN_CHANGES_PATIENCE_NS (INT64_C(10) * 1000000000)

/* All zeros: it is alone. */
struct rn_changes {
    const struct rn_daemon_options *options;
    struct rn_front *front;
    struct rn_loop *loop;
    struct rn_fleet *fleet; /* NULL: alone */
    struct rn_buf kept;     /* alone: the rules that an operator has set; empty: none */
    char rules_path[sizeof((struct rn_daemon_options *)0)->state_path + sizeof ".rules"];
};

/* After rn_shared_begin of the control loop. */
void rn_changes_begin(struct rn_changes *changes, struct rn_shared *shared, struct rn_front *front);
/* Without other nodes: only rules are kept, if there is a state to keep them beside. Before
 * anybody can ask, so that nothing is decided by the files meanwhile. */
void rn_changes_begin_alone(struct rn_changes *changes, const struct rn_daemon_options *options,
                            struct rn_front *front);
/* After rn_shared_end. */
void rn_changes_end(struct rn_changes *changes);
/* Other nodes need not count on this one any more. */
void rn_changes_leave(struct rn_changes *changes);

/* What the nodes share is in force here, or they share nothing. */
bool rn_changes_are_known(const struct rn_changes *changes);
/* How long it is worth waiting for that; 0: nothing comes. */
int64_t rn_changes_patience_ns(const struct rn_changes *changes);

/* Tells the policy how many nodes there are. */
void rn_changes_count_nodes(struct rn_changes *changes);
/* Whether an operator has set rules, which hold in place of the files. */
bool rn_changes_have_rules(const struct rn_changes *changes);

#endif
