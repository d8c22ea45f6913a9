/* SPDX-License-Identifier: Apache-2.0 */
/* Private to leased/: leased.c decides, renew.c asks for more, loss_probe.c looks for lost data,
 * recovery.c returns the leases of killed workers. */
#ifndef RN_REDIS_LEASED_INTERNAL_H
#define RN_REDIS_LEASED_INTERNAL_H

#include "base/clock.h"
#include "net/timer.h"
#include "redis/leased/hot_keys.h"
#include "redis/leased/lease_file.h"
#include "redis/leased/leased.h"

/* What is known of the histories of the servers; in a cluster each tag has one. */
struct rn_loss_probe {
    struct rn_timer timer;
    unsigned next, count; /* the next tag to ask; how many tags there are */
    unsigned asked;       /* calls in flight */
    unsigned looks;       /* timer ticks since the last full round */
    bool failed;          /* a call of this round has failed */
    bool has_lost;        /* a new history has caused this round */
    struct rn_loss_probe_tag {
        struct rn_leased *leased;
        int64_t since_us; /* start of its history, by the server's clock; 0: not known */
        bool asked;
    } tags[RN_CODEC_TAGS];
    int64_t whole_ns; /* from then on, no lease exists that a server may not know of */
    _Atomic bool is_whole;
};

/* The return of the units of a killed worker. */
#define RN_RECOVERY_CALLS 64
struct rn_recovery {
    struct rn_timer timer;
    struct rn_lease_file part; /* records NULL: none */
    size_t next;               /* the next record to return */
    unsigned asked;            /* calls in flight */
    uint64_t keys, units;      /* returned from this part */
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
    uint64_t id;      /* of this holder: random, so that no two are the same */
    uint64_t calls;   /* the number of the last call, of all keys */
    size_t in_flight; /* calls whose reply is still to come */
    bool stopping;    /* gives back its leases */
    bool ending;      /* freed with the last reply */
    struct rn_timer patience;
    struct rn_loss_probe loss_probe;
    const char *path; /* of the lease file; NULL: none */
    struct rn_lease_file file;
    struct rn_recovery recovery;
    struct rn_hot_keys table;
    struct rn_waiting waiting;
    struct rn_backend_jobs jobs;
    struct rn_leased_counts counts;
};

/* loss_probe.c */
void rn_loss_probe_begin(struct rn_leased *leased);
void rn_loss_probe_end(struct rn_leased *leased);

/* recovery.c */
void rn_recovery_begin(struct rn_leased *leased);
/* Its timer must not be set. */
void rn_recovery_end(struct rn_leased *leased);

/* leased.c: decides a charge out of the lease. False: it needs more units. */
bool rn_leased_decide(struct rn_hot_key *hot, struct rn_charge *charge, int64_t now_ns);
/* Drops units that may not be spent any more. */
void rn_leased_expire(struct rn_hot_key *hot, int64_t now_ns);
/* A reply has come. False: `leased` is ending and may be freed; do not touch it. */
bool rn_leased_goes_on(struct rn_leased *leased);
/* Passes a charge that waited here on to the strict backend. */
void rn_leased_pass_on(struct rn_leased *leased, struct rn_backend_job *job,
                       struct rn_charge *charge);

/* renew.c: calls for more units: for the waiting charges, `least` at least. False: not sent. */
bool rn_renew_begin(struct rn_hot_key *hot, uint64_t least, int64_t now_ns);
/* Gives back all units, and then drops the key. */
void rn_renew_retire(struct rn_hot_key *hot, int64_t now_ns);
/* The same, at a stop: if a call is in flight, when its reply has come. */
void rn_renew_stop(struct rn_hot_key *hot);
/* Sets the timer, so that the lease does not end with units unspent: it is renewed if the key is in
 * use, and given back if not. */
void rn_renew_watch(struct rn_hot_key *hot, int64_t now_ns);
/* Queues a charge, which already has RATION_ESTORE, for the reply in flight. False: too many
 * wait. */
bool rn_renew_await(struct rn_hot_key *hot, struct rn_backend_job *job, struct rn_charge *charge);
/* Ends the wait of charges whose deadline has passed, on the loop's clock. */
void rn_renew_give_up(struct rn_leased *leased, int64_t now_ns);

#endif
