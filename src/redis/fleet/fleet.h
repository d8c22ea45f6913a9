/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The nodes that share a Redis: how many there are, and what an operator changes on one
 * of them and all of them are to have: rules, overrides and bans. One for each daemon,
 * in its control loop; everything here is of that loop's thread, save the counters.
 *
 * Four times a second a node says that it is there and asks for the version of what is
 * shared; if it has risen it fetches what is new. Its own changes it offers at once, or
 * when Redis is back: until then they hold on this node. Of two changes of the same
 * thing the one made later holds (limiter/share.h), rules being one thing. Should Redis
 * have lost what it had, the nodes give it back.
 */
#ifndef RN_REDIS_FLEET_H
#define RN_REDIS_FLEET_H

#include <stdatomic.h>

#include "limiter/limiter.h"
#include "redis/redis.h"

#define RN_FLEET_EVERY_NS (INT64_C(250) * 1000000)
#define RN_FLEET_FIRST_NS (INT64_C(20) * 1000000)   /* until there was a first answer */
#define RN_FLEET_RULES_MAX ((size_t)2 << 20)        /* bytes that can be shared */
#define RN_FLEET_THERE_NS (INT64_C(5) * 1000000000) /* a node that says nothing counts so long */

struct rn_fleet;

struct rn_fleet_options {
    bool changes;           /* false: nodes are counted, and that is all */
    const char *rules_path; /* a file that keeps the shared rules; NULL: none does */
    void *arg;
    /* Nothing is to be changed now: somebody in this thread would be disturbed. */
    bool (*is_busy)(void *arg);
    /* Puts the shared rules in force; data NULL: this node's own instead. 0, or a code if
     * it cannot and the former ones stay, which it has told who should know. */
    int (*use_rules)(void *arg, struct rn_slice text);
};

/* Written by the loop's thread, read by any. */
struct rn_fleet_counts {
    _Atomic uint64_t nodes;     /* at the last answer, this one included; 0: there was none */
    _Atomic uint64_t version;   /* of what is shared, as far as it is in force here */
    _Atomic uint64_t taken;     /* changes of others that were taken over */
    _Atomic uint64_t published; /* changes of this node that others can know */
    _Atomic uint64_t refused;   /* changes of others that were none, or had no room */
    _Atomic uint64_t failed;    /* calls */
    _Atomic bool joined;        /* all that was shared has been in force here once */
    _Atomic bool synced;        /* and it is now, as far as is known */
};

/* Begins to ask. What `rules_path` has kept is put in force at once. `redis` and
 * `limiter` are borrowed until the end; strings of the options until then, too.
 * RATION_ENOMEM, RATION_EIO. */
int rn_fleet_new(struct rn_loop *loop, struct rn_redis *redis, struct ration *limiter,
                 const struct rn_fleet_options *options, struct rn_fleet **out,
                 struct ration_error *error);
/* After its redis, which may still owe it an answer. */
void rn_fleet_free(struct rn_fleet *fleet);
/* This node goes: it counts no more. Changes are still taken over. */
void rn_fleet_leave(struct rn_fleet *fleet);

/* Overrides or bans were changed here. */
void rn_fleet_changed(struct rn_fleet *fleet);
/* The rules were replaced here, and are in force; data NULL: by this node's own. At most
 * RN_FLEET_RULES_MAX. */
void rn_fleet_rules_changed(struct rn_fleet *fleet, struct rn_slice text);
/* The shared rules, which beat this node's own; data NULL: there are none. */
struct rn_slice rn_fleet_rules(const struct rn_fleet *fleet);

const struct rn_fleet_counts *rn_fleet_counts(const struct rn_fleet *fleet);
/* How many nodes there are, this one included, as far as is known: 1 or more. */
unsigned rn_fleet_nodes(const struct rn_fleet *fleet);

#endif
