/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of scripts, each over keys of one hash slot. A call goes to the server that owns the slot,
 * and is run at most once: if Redis says that it has not run the call, it is sent again, to the
 * server that Redis names or that owns the slot by then; a call that may have been run is never
 * sent again.
 *
 *   NOSCRIPT                   at once, with the text of the script
 *   MOVED, ASK                 at once, to that server; three times at most
 *   READONLY, LOADING,         once, when the routes have changed or a little later
 *   MASTERDOWN, BUSY,
 *   CLUSTERDOWN
 *   TRYAGAIN                   the same, but again and again: a migrating slot arrives at last
 *
 * all of it before the call's deadline.
 */
#ifndef RN_REDIS_SCRIPT_CALL_H
#define RN_REDIS_SCRIPT_CALL_H

#include "redis/cluster/routes.h"
#include "redis/scripts/script.h"

#define RN_SCRIPT_CALL_HOPS 3
#define RN_SCRIPT_CALL_AGAIN_NS (INT64_C(2) * 1000000) /* before a parked call is sent again */

struct rn_script_call;

struct rn_script_call_ops {
    /* Writes keys and arguments, and sends them by rn_script_call_send. False: not sent. */
    bool (*send)(struct rn_script_call *call);
    /* The end of the call. NULL: the reply is lost; Redis may have run the call. An error: Redis
     * has not run it, or it has failed. */
    void (*ended)(struct rn_script_call *call, const redisReply *reply);
    /* The slot migrates, and the keys are on different servers. True: the owner will send them
     * one by one, and this call has ended. NULL: the owner cannot. */
    bool (*split)(struct rn_script_call *call);
    /* The call will be sent again and again until its deadline: other calls need not wait for it.
     * NULL: none do. */
    void (*step_aside)(struct rn_script_call *call);
};

/* The calls of one rn_redis. */
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
    int64_t until_ns; /* the deadline: not sent again later */

    struct rn_shard *shard; /* the server it was sent to */
    struct rn_shard *guest; /* of ASK: the server to use instead of the owner; NULL: none */
    uint8_t hops;
    bool in_full, again;
    bool bare;                   /* sent without the history of its slot, which migrates */
    struct rn_script_call *next; /* among the parked calls */
};

void rn_script_call_init(struct rn_script_caller *calls, struct rn_routes *routes,
                         struct rn_redis_counts *counts);
/* Ends the parked calls. Must come before rn_routes_done. */
void rn_script_call_done(struct rn_script_caller *calls);
/* The routes may have improved: sends the parked calls that can be sent. */
void rn_script_call_retry(struct rn_script_caller *calls);

/* Begins a call whose first five fields are set and all others zero. False: the owner of the slot
 * is down; nothing was sent, and nothing follows. */
bool rn_script_call_begin(struct rn_script_call *call);

/* From `send`: this many keys, then arguments, RN_SCRIPT_CALL_WORDS in all at most. Scripts with
 * leases also get the history of their keys, and whether their server may have lost states:
 * scripts/leases.lua. */
#define RN_SCRIPT_CALL_WORDS 320
bool rn_script_call_send(struct rn_script_call *call, size_t keys, const struct rn_slice *words,
                         size_t count);

/* Reads the reply of a script that decides charges. False: the reply belongs to another call, or
 * is malformed. */
struct rn_script_call_answers {
    int64_t store_us;  /* the server's time */
    const char *bytes; /* RN_CODEC_ANSWER for each charge; borrowed from the reply */
};
bool rn_script_call_read(const redisReply *reply, uint64_t nonce, size_t count,
                         struct rn_script_call_answers *out);

/* The reply belongs to another call, or is malformed: later ones may, too, so the link reconnects.
 */
void rn_script_call_mismatch(struct rn_script_call *call);

/* One call that keeps its own copy of keys and arguments: for leases, reports and the fleet. */
#define RN_SCRIPT_REQUEST_KEYS 64
#define RN_SCRIPT_REQUEST_ARGS 192
/* NULL: lost; nobody knows whether Redis ran the script. An error reply: Redis has not run it, or
 * it has failed. Returns false if any other reply is not one to this request: the link then
 * reconnects. */
typedef bool rn_script_reply(void *arg, const redisReply *reply);
struct rn_script_request {
    enum rn_script script;
    const struct rn_slice *keys, *args; /* borrowed during the call only; all keys must be in the
                                           slot of the first */
    size_t key_count, arg_count;
    int64_t until_ns;       /* the deadline, of rn_wheel_now; 0: that of the store, from now */
    rn_script_reply *reply; /* called once if the request was sent */
    void *arg;
};
/* False: not sent. */
bool rn_script_call_request(struct rn_script_caller *calls,
                            const struct rn_script_request *request);

#endif
