/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Listens to the failover events of each Sentinel. They arrive before a replica is promoted, so
 * rationd stops charging a master that is being replaced: charges made there after the promotion
 * would be lost, and their units admitted twice.
 *
 *   +failover-state-select-slave        leave the master; ask no server until the next event
 *   +selected-slave, +promoted-slave,
 *   +switch-master                      this replica takes over; use it once it is a master
 *   -failover-abort-...                 the master stays
 *
 * Other Sentinels hear of a failover late and still name the former master: for a while the link
 * does not accept it as master.
 */
#ifndef RN_REDIS_FAILOVER_H
#define RN_REDIS_FAILOVER_H

#include "redis/conn/link.h"

#define RN_FAILOVER_PAUSE_NS (INT64_C(3) * 1000000000)   /* until a replica is selected */
#define RN_FAILOVER_PING_NS (INT64_C(1) * 1000000000)    /* between two PINGs of a Sentinel */
#define RN_FAILOVER_FORMER_NS (INT64_C(15) * 1000000000) /* a former master is not accepted */

/* What a Sentinel's event says about the master of this name. Pure. */
enum rn_failover_word { RN_FAILOVER_NOTHING, RN_FAILOVER_BEGINS, RN_FAILOVER_TO, RN_FAILOVER_ENDS };
enum rn_failover_word rn_failover_parse(const char *channel, const char *text, const char *name,
                                        char address[RN_URL_ADDRESS]);

struct rn_failover;

struct rn_failover_events {
    void *arg;
    /* The link must leave the master now; rn_failover_next says which server is next. */
    void (*changed)(void *arg);
};

/* One link to each Sentinel of the URL. NULL: out of memory. */
struct rn_failover *rn_failover_new(struct rn_loop *loop, const struct rn_link_options *options,
                                    const struct rn_failover_events *events);
void rn_failover_free(struct rn_failover *failover);

/* The server that takes over; "": not known yet. NULL: no failover is under way. */
const char *rn_failover_next(const struct rn_failover *failover);
/* Whether this is the master that is being replaced, or was replaced lately. */
bool rn_failover_replaces(const struct rn_failover *failover, const char *address);
/* This server is the master from now on. */
void rn_failover_use(struct rn_failover *failover, const char *address);

#endif
