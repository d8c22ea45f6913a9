/* SPDX-License-Identifier: Apache-2.0 */
/* Private to leased.c, which decides, and renewal.c, which asks for more. */
#ifndef RN_REDIS_LEASED_INTERNAL_H
#define RN_REDIS_LEASED_INTERNAL_H

#include "base/clock.h"
#include "net/timer.h"
#include "redis/leased/hot_keys.h"
#include "redis/leased/lease_file.h"
#include "redis/leased/leased.h"

/* What is known of the histories of stores: in a cluster each tag has one. */
struct rn_loss_probe {
    struct rn_timer timer;
    unsigned next, count; /* of which to ask; how many there are */
    unsigned asked;       /* that have not answered */
    unsigned looks;       /* since */
    bool failed;          /* one has not, in this round */
    bool has_lost;        /* this round is because one had begun anew */
    struct rn_loss_probe_tag {
        struct rn_leased *leased;
        int64_t since_us; /* its history began, by the clock of the store; 0: not known */
        bool asked;
    } tags[RN_CODEC_TAGS];
    int64_t whole_ns; /* from here on nothing is held that a store may not know of */
    _Atomic bool is_whole;
};

/* What is returned of a holder that was killed. */
#define RN_RECOVERY_CALLS 64
struct rn_recovery {
    struct rn_timer timer;
    struct rn_lease_file part; /* without records: there is none */
    size_t next;               /* record to be returned */
    unsigned asked;            /* that are not answered */
    uint64_t keys, units;      /* of this part */
    struct rn_recovery_call {
        struct rn_leased *leased;
        struct rn_lease_record record;
        size_t index;
        uint64_t nonce;
        bool busy;
    } calls[RN_RECOVERY_CALLS];
};

struct rn_leased {
    struct rn_backend backend; /* first */
    struct rn_loop *loop;
    struct rn_redis *redis;
    int64_t deadline_ns;
    uint64_t id;      /* of this holder: random, so that no two are ever the same */
    uint64_t calls;   /* numbered, of all keys */
    size_t in_flight; /* calls whose reply will come here */
    bool ending;      /* freed when none is in flight */
    struct rn_timer patience;
    struct rn_loss_probe loss_probe;
    const char *path; /* of the file of leases; NULL: there is none */
    struct rn_lease_file file;
    struct rn_recovery recovery;
    struct rn_hot_keys table;
    struct rn_waiting waiting;
    struct rn_backend_jobs jobs;
    struct rn_leased_counts counts;
};

/* past.c: begins to ask. */
void rn_loss_probe_begin(struct rn_leased *leased);
void rn_loss_probe_end(struct rn_leased *leased);

/* recovery.c: begins to look for what killed holders have left. */
void rn_recovery_begin(struct rn_leased *leased);
void rn_recovery_end(struct rn_leased *leased);

/* leased.c: decides a charge out of what is held. False: more is needed. */
bool rn_leased_decide(struct rn_hot_key *held, struct rn_charge *charge, int64_t now_ns);
/* Drops what may not be spent any more. */
void rn_leased_expire(struct rn_hot_key *held, int64_t now_ns);
/* A call was answered. False: it was the last of one that has ended, and is no more. */
bool rn_leased_goes_on(struct rn_leased *leased);
/* Has a charge that waited here decided by the store behind. */
void rn_leased_pass_on(struct rn_leased *leased, struct rn_backend_job *job,
                       struct rn_charge *charge);

/* renewal.c: calls for more, for whoever waits or `least` units. False: not sent. */
bool rn_renew_begin(struct rn_hot_key *held, uint64_t least, int64_t now_ns);
/* Gives back all, and then drops the key. */
void rn_renew_retire(struct rn_hot_key *held, int64_t now_ns);
/* Sees to it, from now on, that a lease does not end while something is held of it: that of a
 * key in use is renewed, that of an idle one given back. */
void rn_renew_watch(struct rn_hot_key *held, int64_t now_ns);
/* Adds a charge, which has RATION_ESTORE, to those that wait for the call in flight.
 * False: too many do. */
bool rn_renew_await(struct rn_hot_key *held, struct rn_backend_job *job, struct rn_charge *charge);
/* Ends the wait of those whose time is up, on the loop's clock. */
void rn_renew_give_up(struct rn_leased *leased, int64_t now_ns);

#endif
