/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The keys of which a worker holds something, and those that may become such: a table
 * of fixed size. One thread.
 */
#ifndef RN_REDIS_HOT_KEYS_H
#define RN_REDIS_HOT_KEYS_H

#include "net/timer.h"
#include "redis/leased/lease_file.h"
#include "redis/leased/waiting.h"

#define RN_HOT_KEYS_MAX 4096     /* keys held at once; others are strict. A power of two */
#define RN_HOT_KEYS_WATCHED 4096 /* a power of two */

struct rn_leased;

struct rn_hot_key {
    struct rn_leased *leased;       /* whose it is */
    struct rn_lease_record *record; /* what of it survives a kill */
    uint64_t key;
    struct rn_lease lease;
    struct rn_hot_key *next; /* in its chain, or among the unused */
    int64_t used_ns;
    bool leaving;          /* dropped when the call in flight has given back all */
    struct rn_timer timer; /* set while no call is in flight: rn_renew_watch */
    struct rn_queue queue; /* charges that wait for the call in flight */
    uint64_t call;         /* the number of the last one */

    /* The limit, as calls tell it. */
    uint64_t amount;
    int64_t period_ns, sub_ns;
    enum rn_script script;
    char name[RN_CODEC_NAME], params[RN_CODEC_PARAMS];
    size_t name_len, params_len;
};

/* A key that is not held, and what is asked of it. A newer one may take its place. */
struct rn_hot_keys_watched {
    uint64_t key;
    struct rn_demand demand;
};

struct rn_hot_keys {
    struct rn_hot_key *chains[RN_HOT_KEYS_MAX];
    struct rn_hot_key *spare;
    size_t count;
    struct rn_hot_key pool[RN_HOT_KEYS_MAX];
    struct rn_hot_keys_watched watched[RN_HOT_KEYS_WATCHED];
};

/* Of a zeroed one. `records`: RN_HOT_KEYS_MAX of them. */
void rn_hot_keys_init(struct rn_hot_keys *table, struct rn_leased *leased,
                      struct rn_lease_record *records);

/* NULL: it is not held. */
struct rn_hot_key *rn_hot_keys_find(struct rn_hot_keys *table, uint64_t key);
/* A key that is not held. NULL: too many are. */
struct rn_hot_key *rn_hot_keys_add(struct rn_hot_keys *table, uint64_t key, int64_t now_ns);
/* Nothing may be in flight, nobody wait, and no timer be set. */
void rn_hot_keys_drop(struct rn_hot_keys *table, struct rn_hot_key *held);

/* Notes what is asked of a key that is not held. */
struct rn_demand *rn_hot_keys_watch(struct rn_hot_keys *table, uint64_t key, uint64_t units,
                                    int64_t now_ns);

#endif
