/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One Redis that holds states: the connection to it, whether it is worth asking, and
 * what its clock does. One that stalls or is lost concerns nobody who asks another.
 */
#ifndef RN_REDIS_SHARD_H
#define RN_REDIS_SHARD_H

#include "redis/cluster/breaker.h"
#include "redis/cluster/skew.h"
#include "redis/conn/link.h"
#include "redis/redis_counts.h"

/* A reply that is owed for longer than this will not come: another connection. */
#define RN_SHARD_OWED_NS (INT64_C(1) * 1000000000)

/* For as long as anybody may hold what a server has granted before it lost its memory:
 * LONGEST in scripts/leases.lua. */
#define RN_SHARD_DOUBT_NS (INT64_C(1) * 1000000000)

struct rn_shard;

/* Written by the loop's thread, read by any. */
struct rn_shard_counts {
    _Atomic bool up, open;
    _Atomic unsigned slots; /* of a cluster, that it holds */
    _Atomic uint64_t trips; /* scripts and other commands sent */
    _Atomic uint64_t connects, opened, late, turned_away, clock_steps;
    _Atomic int64_t skew_us;    /* its clock less ours, at the last reply */
    _Atomic int64_t refused_ns; /* when it last refused a call: rn_redis_counts_refused */
};

struct rn_shard_events {
    void *arg;
    void (*seek)(void *arg, struct rn_shard *shard); /* its address: rn_link_events */
    void (*up)(void *arg, struct rn_shard *shard);
    /* It cannot be asked: what waits to be sent would wait in vain. */
    void (*down)(void *arg, struct rn_shard *shard);
    void (*later)(void *arg, struct rn_shard *shard); /* after rn_link_call_later */
};

struct rn_shard {
    struct rn_link link;
    struct rn_link_events link_events;
    const struct rn_shard_events *events;
    struct rn_redis_counts *totals;
    struct rn_breaker breaker;
    struct rn_skew skew;
    struct rn_timer timer;
    char name[RN_URL_ADDRESS]; /* its address, of routes.c and under its lock */
    unsigned index;            /* among its fellows */
    unsigned slots;            /* that it holds */
    unsigned told_slots;       /* that the log says it holds */
    bool left;                 /* it had slots and lost them: the log has no more to say of it */
    int64_t used_ns;           /* when something was last sent */
    int64_t doubt_until_ns;    /* states that it does not have may have been lost */
    uint32_t refused;          /* whatever it refuses to run: bits of enum rn_script */
    int64_t told_ns;           /* when an error of a single key was last logged */
    struct rn_shard_counts counts;
};

/* Everything is borrowed until the end. `address` "": sought. NULL: out of memory. */
struct rn_shard *rn_shard_new(struct rn_loop *loop, const struct rn_link_options *options,
                              const char *address, const struct rn_shard_events *events,
                              struct rn_redis_counts *totals);
/* Replies that are owed are answered with NULL; no event follows. NULL is fine. */
void rn_shard_free(struct rn_shard *shard);

/* Can be sent to now. */
bool rn_shard_is_up(const struct rn_shard *shard);

/* States may have been lost on the way to this server, or by it. */
void rn_shard_doubt(struct rn_shard *shard);
/* For how long this goes on to matter; 0: it does not. */
int64_t rn_shard_doubt_ns(const struct rn_shard *shard);

/* It may have got slots or lost its last one. */
void rn_shard_note_slots(struct rn_shard *shard);

/* As rn_link_send. */
bool rn_shard_send(struct rn_shard *shard, int argc, const char **argv, const size_t *lens,
                   rn_link_reply *reply, void *arg);

/* It refuses to run a script (RN_SCRIPTS: to keep the fingerprint of the nodes' secret), for want
 * of memory, of a right, of a disk: it answers, but does not serve. Logged once. */
void rn_shard_refuses(struct rn_shard *shard, unsigned script, const char *why);
/* It has run it. */
void rn_shard_serves(struct rn_shard *shard, unsigned script);
/* A single key cannot be charged: logged once a second at most. */
void rn_shard_refuses_key(struct rn_shard *shard, const char *why);

/* Somebody waited in vain; at most once for each stall. */
void rn_shard_was_late(struct rn_shard *shard);
/* It has answered; its clock said `store_us`, between these times of the boot-time
 * clock. */
void rn_shard_has_answered(struct rn_shard *shard, int64_t store_us, int64_t sent_ns,
                           int64_t got_ns);

#endif
