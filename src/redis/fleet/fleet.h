/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fleet: all nodes that share a Redis. It counts them, and replicates what an operator changes
 * on one node to all: rules, overrides, bans and pauses. Each daemon has one, in its control loop;
 * only that loop's thread may use it, except for the counters.
 *
 * Four times a second a node polls: it announces itself and asks for the version of the shared
 * changes; if that has risen, it fetches the new ones. It offers its own changes at once, or when
 * Redis is back; until then they apply to this node only. Of two changes of the same thing the
 * later one wins (limiter/clients/replication.h); the rules are one thing. If Redis has lost the
 * changes, the nodes restore them.
 */
#ifndef RN_REDIS_FLEET_H
#define RN_REDIS_FLEET_H

#include <stdatomic.h>

#include <ration/usage.h>

#include "limiter/limiter.h"
#include "redis/redis.h"

#define RN_FLEET_EVERY_NS (INT64_C(250) * 1000000)
#define RN_FLEET_FIRST_NS (INT64_C(20) * 1000000)   /* before the first reply */
#define RN_FLEET_RULES_MAX ((size_t)2 << 20)        /* bytes of rules that can be shared */
#define RN_FLEET_THERE_NS (INT64_C(5) * 1000000000) /* a silent node counts this long */

struct rn_fleet;

struct rn_fleet_options {
    bool changes;           /* false: the fleet only counts nodes */
    const char *rules_path; /* the file that keeps the shared rules; NULL: none */
    void *arg;
    /* True: a conversation in this thread is waiting; nothing may change now. */
    bool (*is_busy)(void *arg);
    /* Puts the shared rules in force; data NULL: this node's own instead. 0, or an error code: the
     * former rules stay, and the callee has logged why. */
    int (*use_rules)(void *arg, struct rn_slice text);
};

/* Written by the loop's thread, read by any. */
struct rn_fleet_counts {
    _Atomic uint64_t nodes;     /* at the last reply, this one included; 0: no reply yet */
    _Atomic uint64_t version;   /* of the shared changes in force here */
    _Atomic uint64_t taken;     /* changes of other nodes, now in force here */
    _Atomic uint64_t published; /* changes of this node that Redis has */
    _Atomic uint64_t refused;   /* changes of other nodes that were malformed or had no room */
    _Atomic uint64_t failed;    /* calls */
    /* Bans that rules with `escalate` began, and lifts of them. */
    _Atomic uint64_t bans_published; /* of this node, new to Redis */
    _Atomic uint64_t bans_taken;     /* of other nodes, now in force here */
    _Atomic uint64_t bans_refused;   /* malformed */
    _Atomic uint64_t bans_dropped;   /* by Redis, as it has no room for more */
    /* Pauses, and lifts of them: as above. */
    _Atomic uint64_t pauses_published, pauses_taken, pauses_refused, pauses_dropped;
    _Atomic uint64_t usage_published; /* rows of this node that Redis has; again if they changed */
    _Atomic uint64_t usage_refused;   /* malformed; not counted in exports */
    _Atomic bool joined;              /* all shared changes have been in force here once */
    _Atomic bool synced;              /* and are now, as far as is known */
};

/* Starts to poll, and puts the rules of `rules_path` in force at once. All arguments are borrowed
 * until the end. RATION_ENOMEM, RATION_EIO. */
int rn_fleet_new(struct rn_loop *loop, struct rn_redis *redis, struct ration *limiter,
                 const struct rn_fleet_options *options, struct rn_fleet **out,
                 struct ration_error *error);
/* Free `redis` first: a reply may still come. */
void rn_fleet_free(struct rn_fleet *fleet);
/* This node stops: it no longer counts. Changes of other nodes still apply. */
void rn_fleet_leave(struct rn_fleet *fleet);

/* After that, when nothing is decided any more: publishes the rest of the usage. True: that is
 * done, or cannot be done; else ask again. */
bool rn_fleet_finish(struct rn_fleet *fleet);

/* Overrides or bans have changed on this node. */
void rn_fleet_changed(struct rn_fleet *fleet);
/* The rules were replaced on this node and are in force; data NULL: by this node's own. At most
 * RN_FLEET_RULES_MAX bytes. */
void rn_fleet_rules_changed(struct rn_fleet *fleet, struct rn_slice text);
/* The shared rules, which replace this node's own; data NULL: none. */
struct rn_slice rn_fleet_rules(const struct rn_fleet *fleet);

const struct rn_fleet_counts *rn_fleet_counts(const struct rn_fleet *fleet);
/* The number of nodes, this one included, as far as is known; at least 1. */
unsigned rn_fleet_nodes(const struct rn_fleet *fleet);

/* What other nodes ask for, of one rule with an adapt of `scope: fleet`. */
struct rn_fleet_asked {
    char rule[64];             /* its name */
    uint32_t index;            /* in the ruleset */
    unsigned percent;          /* the lowest that another node asks for; 100: none asks for less */
    char node[17];             /* that asks for it */
    char who[64 + 1 + 16 + 1]; /* the same for people: machine/node */
};
/* All of them; valid until the loop goes on. Returns how many; 0 if Redis has been silent for so
 * long that nothing counts any more. */
size_t rn_fleet_factors(const struct rn_fleet *fleet, const struct rn_fleet_asked **rules);
/* The usage of clients that all nodes have published, as ration_usage_each; on a fiber, which it
 * parks. RATION_ESTORE: Redis does not answer. A page may have a row more than asked for. */
int rn_fleet_usage_each(struct rn_fleet *fleet, const struct ration_usage_query *query,
                        int (*see)(void *, const struct ration_usage *), void *arg, uint64_t *next,
                        struct ration_error *error);
/* State files that Redis may lack rows of, as the last rn_fleet_usage_each found them; valid until
 * the next one. Returns how many. */
struct rn_fleet_missing {
    char name[64 + 1 + 16 + 1]; /* machine/file */
    int64_t silent_s;           /* since its last report */
    uint64_t unpublished;       /* 0, or at least so many rows */
};
size_t rn_fleet_usage_missing(const struct rn_fleet *fleet,
                              const struct rn_fleet_missing **missing);
/* This node, as others name it: machine/node. */
const char *rn_fleet_name(const struct rn_fleet *fleet);

/* --- rules_file.c: keeps the rules set by an operator beside the state file, so that they apply
 * after a restart --- */

/* Saves atomically. False: not saved; the log says why. An empty text: the rules files apply. */
bool rn_rules_file_save(const char *path, struct rn_slice text, int64_t made_us);
/* Appends the rules to `text`. False: there are none, or the file cannot be read; the log says so.
 * Sets *made_us if the file was read. */
bool rn_rules_file_load(const char *path, struct rn_buf *text, int64_t *made_us);

#endif
