/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One Redis server that holds states: its connection, its circuit breaker and its clock. A server
 * that stalls or is lost does not affect charges that other servers decide.
 */
#ifndef RN_REDIS_SHARD_H
#define RN_REDIS_SHARD_H

#include "redis/cluster/breaker.h"
#include "redis/conn/link.h"
#include "redis/redis_counts.h"

/* After a possible loss of data, the scripts reckon with unknown leases for this long: as long as
 * a lease may last, LONGEST in scripts/leases.lua. */
#define RN_SHARD_DOUBT_NS (INT64_C(1) * 1000000000)

/* The server's clock beside ours. A reply tells the server's time, and the times of sending and
 * receiving, on a clock of ours that nobody can set, bracket the difference. If two brackets are
 * too far apart for drift, the server's clock was stepped or another server has taken its place:
 * budgets were then refilled for time that did not pass, or are refilled late. */
#define RN_SHARD_SKEW_STEP_NS (INT64_C(500) * 1000000)
#define RN_SHARD_SKEW_DRIFT_PER_MILLE 1 /* of the time between two replies */

struct rn_shard_skew {
    bool known;
    int64_t low_ns, high_ns; /* the server's clock minus ours was between */
    int64_t at_ns;           /* at this time */
};

/* The server read `store_us` between `sent_ns` and `got_ns` of the boot-time clock. Returns by
 * how much its clock was stepped, in ns; 0: it was not. Pure. */
int64_t rn_shard_note_skew(struct rn_shard_skew *skew, int64_t store_us, int64_t sent_ns,
                           int64_t got_ns);

struct rn_shard;

/* Written by the loop's thread, read by any. */
struct rn_shard_counts {
    _Atomic bool up, open;
    _Atomic unsigned slots; /* hash slots it owns */
    _Atomic uint64_t trips; /* scripts and other commands sent */
    _Atomic uint64_t connects, opened, late, turned_away, clock_steps;
    _Atomic int64_t skew_us;    /* its clock minus ours, at the last reply */
    _Atomic int64_t refused_ns; /* when it last refused a call: rn_redis_counts_refused */
};

struct rn_shard_events {
    void *arg;
    void (*seek)(void *arg, struct rn_shard *shard); /* the address: see rn_link_events */
    void (*up)(void *arg, struct rn_shard *shard);
    /* The server cannot be used: fail what waits to be sent. */
    void (*down)(void *arg, struct rn_shard *shard);
    void (*later)(void *arg, struct rn_shard *shard); /* asked for by rn_link_call_later */
};

struct rn_shard {
    struct rn_link link;
    struct rn_link_events link_events;
    const struct rn_shard_events *events;
    struct rn_redis_counts *totals;
    struct rn_breaker breaker;
    struct rn_shard_skew skew;
    struct rn_timer timer;
    char name[RN_URL_ADDRESS]; /* its address; routes.c writes it, under its lock */
    unsigned index;            /* in rn_routes.shards */
    unsigned slots;            /* hash slots it owns */
    unsigned told_slots;       /* the same, as last logged */
    bool left;                 /* it has lost all its slots: its state is not logged any more */
    int64_t used_ns;           /* when something was last sent */
    int64_t doubt_until_ns;    /* until then, a missing state may be a lost one */
    uint32_t refused;          /* the scripts it refuses to run: bits of enum rn_script */
    int64_t told_ns;           /* when an error of a single key was last logged */
    struct rn_shard_counts counts;
};

/* All arguments are borrowed until the end. `address` "": `seek` finds it. NULL: out of memory. */
struct rn_shard *rn_shard_new(struct rn_loop *loop, const struct rn_link_options *options,
                              const char *address, const struct rn_shard_events *events,
                              struct rn_redis_counts *totals);
/* Answers pending commands with NULL; no event follows. NULL is fine. */
void rn_shard_free(struct rn_shard *shard);

/* Whether commands can be sent now. */
bool rn_shard_is_up(const struct rn_shard *shard);

/* The server may have lost states: a restart, a failover, a slot that moved here. */
void rn_shard_doubt(struct rn_shard *shard);
/* How long the scripts must still reckon with that; 0: they need not. */
int64_t rn_shard_doubt_ns(const struct rn_shard *shard);

/* The number of its slots may have changed: logs the loss of the last one. */
void rn_shard_note_slots(struct rn_shard *shard);

/* As rn_link_send. */
bool rn_shard_send(struct rn_shard *shard, int argc, const char **argv, const size_t *lens,
                   rn_link_reply *reply, void *arg);

/* The server refuses to run a script (RN_SCRIPTS: to store the fingerprint of the secret): it is
 * out of memory, lacks a permission, its disk failed. It answers but does not serve. Logged
 * once. */
void rn_shard_refuses(struct rn_shard *shard, unsigned script, const char *why);
/* The server has run that script. */
void rn_shard_serves(struct rn_shard *shard, unsigned script);
/* A single key cannot be charged: logged once a second at most. */
void rn_shard_refuses_key(struct rn_shard *shard, const char *why);

/* A deadline has passed without an answer; call this once for each stall. */
void rn_shard_was_late(struct rn_shard *shard);
/* The server has answered; its clock read `store_us` between these times of the boot-time
 * clock. */
void rn_shard_has_answered(struct rn_shard *shard, int64_t store_us, int64_t sent_ns,
                           int64_t got_ns);

#endif
