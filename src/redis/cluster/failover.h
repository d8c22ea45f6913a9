/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hears from each Sentinel of a failover as it comes: before a replica is promoted, so that nobody
 * charges a master that is being replaced. Whatever is charged to it after the promotion is lost,
 * and would be admitted once more.
 *
 *   +failover-state-select-slave        the master is left; nobody is asked meanwhile
 *   +selected-slave, +promoted-slave    this replica takes over: it is asked as soon as it is a
 * master +switch-master                      the same -failover-abort-...                 the
 * master stays
 *
 * Sentinels hear of each other's failovers late, and go on naming the former master: for a while it
 * is not believed to be one.
 */
#ifndef RN_REDIS_FAILOVER_H
#define RN_REDIS_FAILOVER_H

#include "redis/conn/link.h"

#define RN_FAILOVER_PAUSE_NS (INT64_C(3) * 1000000000) /* until a replica is selected */
#define RN_FAILOVER_FORMER_NS                                                                      \
    (INT64_C(15) * 1000000000) /* that a former master is not believed                             \
                                */

/* What a Sentinel has said, as far as it concerns a master of this name. Pure. */
enum rn_failover_word { RN_FAILOVER_NOTHING, RN_FAILOVER_BEGINS, RN_FAILOVER_TO, RN_FAILOVER_ENDS };
enum rn_failover_word rn_failover_parse(const char *channel, const char *text, const char *name,
                                        char address[RN_URL_ADDRESS]);

struct rn_failover;

struct rn_failover_events {
    void *arg;
    /* The master must be left now; rn_failover_next says for whom. */
    void (*changed)(void *arg);
};

/* One link to each Sentinel of the URL. NULL: out of memory. */
struct rn_failover *rn_failover_new(struct rn_loop *loop, const struct rn_link_options *options,
                                    const struct rn_failover_events *events);
void rn_failover_free(struct rn_failover *failover);

/* Who takes over, if somebody does; "": it is not known yet. NULL: nobody does. */
const char *rn_failover_next(const struct rn_failover *failover);
/* Whether this is the master that is being replaced, or was lately. */
bool rn_failover_replaces(const struct rn_failover *failover, const char *address);
/* This one is asked as the master from now on. */
void rn_failover_use(struct rn_failover *failover, const char *address);

#endif
