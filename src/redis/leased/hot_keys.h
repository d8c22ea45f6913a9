/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys of which a worker holds a lease, and the demand for keys that may become such. Fixed
 * size. One thread.
 */
#ifndef RN_REDIS_HOT_KEYS_H
#define RN_REDIS_HOT_KEYS_H

#include "net/timer.h"
#include "redis/leased/lease_file.h"
#include "redis/leased/waiting.h"
#include "redis/local_keys.h"

#define RN_HOT_KEYS_MAX 4096     /* leased at once; further keys are strict */
#define RN_HOT_KEYS_WATCHED 4096 /* a power of two */

struct rn_leased;

struct rn_hot_key {
    struct rn_local_key local; /* first */
    struct rn_leased *leased;
    struct rn_lease_record *record; /* what survives a kill */
    struct rn_lease lease;
    int64_t used_ns;
    bool leaving;                  /* dropped when the call in flight has given back all */
    bool answering;                /* charges that waited are: what they lead to must not drop it */
    struct rn_timer timer;         /* set while no call is in flight: rn_renew_watch */
    struct rn_waiting_queue queue; /* charges that wait for the call in flight */
    uint64_t call;                 /* the number of the last call */

    /* The limit, as calls describe it. */
    uint64_t amount;
    int64_t period_ns, sub_ns;
    enum rn_script script;
    char name[RN_CODEC_NAME], params[RN_CODEC_PARAMS];
    size_t name_len, params_len;
};

/* The demand for a key without a lease. Another key may take its place. */
struct rn_watched_key {
    uint64_t key;
    struct rn_demand demand;
};

struct rn_hot_keys {
    struct rn_local_keys keys;
    struct rn_leased *leased;
    struct rn_lease_record *records;
    struct rn_watched_key watched[RN_HOT_KEYS_WATCHED];
};

/* `records`: RN_HOT_KEYS_MAX of them. False: out of memory; call rn_hot_keys_done all the same. */
bool rn_hot_keys_init(struct rn_hot_keys *table, struct rn_leased *leased,
                      struct rn_lease_record *records);
void rn_hot_keys_done(struct rn_hot_keys *table);

/* NULL: the key has no lease. */
struct rn_hot_key *rn_hot_keys_find(struct rn_hot_keys *table, uint64_t key);
/* Adds a key that has no lease. NULL: too many have. */
struct rn_hot_key *rn_hot_keys_add(struct rn_hot_keys *table, uint64_t key, int64_t now_ns);
/* No call may be in flight, no charge waiting, and no timer set. */
void rn_hot_keys_drop(struct rn_hot_keys *table, struct rn_hot_key *hot);

/* Notes the demand for a key without a lease. */
struct rn_demand *rn_hot_keys_watch(struct rn_hot_keys *table, uint64_t key, uint64_t units,
                                    int64_t now_ns);

#endif
