/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One run of a script over keys of one slot, on its way to whoever holds the slot. It is
 * run at most once: what Redis says it has not run is sent again, to where it says or
 * where the slot has gone meanwhile; what may have been run never is.
 *
 *   NOSCRIPT                   at once, with the script in full
 *   MOVED, ASK                 at once, there; three times at most
 *   READONLY, LOADING,         once, when the routes are known better or a little later
 *   MASTERDOWN, BUSY,
 *   CLUSTERDOWN
 *   TRYAGAIN                   the same, but again and again: a slot that is on the move arrives
 *
 * all of it within the time that was given.
 */
#ifndef RN_REDIS_SCRIPT_CALL_H
#define RN_REDIS_SCRIPT_CALL_H

#include "redis/cluster/routes.h"
#include "redis/scripts/script.h"

#define RN_SCRIPT_CALL_HOPS 3
#define RN_SCRIPT_CALL_AGAIN_NS (INT64_C(2) * 1000000) /* at the earliest, for want of news */

struct rn_script_call;

struct rn_script_call_ops {
    /* Writes keys and arguments, and sends them by rn_script_call_send. False: not sent. */
    bool (*send)(struct rn_script_call *call);
    /* The last call. NULL: lost, it may have been run. An error: it was not run, or failed. */
    void (*ended)(struct rn_script_call *call, const redisReply *reply);
    /* Several keys do not go together now. True: the owner will send them one by one, and
     * this call has ended. NULL: it cannot. */
    bool (*split)(struct rn_script_call *call);
    /* It will be sent again and again for as long as there is time: others need not wait for
     * it. NULL: none do. */
    void (*step_aside)(struct rn_script_call *call);
};

/* Those of one store. */
struct rn_script_caller {
    struct rn_routes *routes;
    struct rn_redis_counts *counts;
    struct rn_script_call *parked; /* until they are sent again */
    struct rn_timer timer;
};

struct rn_script_call {
    const struct rn_script_call_ops *ops;
    struct rn_script_caller *calls;
    enum rn_script script;
    uint16_t slot;
    int64_t until_ns; /* it is not sent again */

    struct rn_shard *shard; /* who was sent it */
    struct rn_shard *guest; /* who is to be asked instead of the owner; NULL: nobody */
    uint8_t hops;
    bool in_full, again;
    bool bare;                   /* without the history of its slot, which is on the move */
    struct rn_script_call *next; /* among those parked */
};

void rn_script_call_init(struct rn_script_caller *calls, struct rn_routes *routes,
                         struct rn_redis_counts *counts);
/* Those that are parked end. Before the routes do. */
void rn_script_call_done(struct rn_script_caller *calls);
/* Something is known better: those parked are sent if they can be. */
void rn_script_call_retry(struct rn_script_caller *calls);

/* Begins one whose first five fields are set and the others zero. False: the owner of the
 * slot cannot be asked; nothing was sent, and nothing follows. */
bool rn_script_call_begin(struct rn_script_call *call);

/* From `send`: so many keys, then arguments, RN_SCRIPT_CALL_WORDS in all at most. Scripts with
 * leases get the history of their keys besides, and are told if their server may have lost
 * states: scripts/leases.lua. */
#define RN_SCRIPT_CALL_WORDS 320
bool rn_script_call_send(struct rn_script_call *call, size_t keys, const struct rn_slice *words,
                         size_t count);

/* Of a script that decides charges. False: the reply is that to another call, or none. */
struct rn_script_call_answers {
    int64_t store_us;  /* its time */
    const char *bytes; /* RN_CODEC_ANSWER for each charge; borrowed from the reply */
};
bool rn_script_call_read(const redisReply *reply, uint64_t nonce, size_t count,
                         struct rn_script_call_answers *out);

#endif
