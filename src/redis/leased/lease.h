/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one worker holds of one key: units that it may spend until a deadline, and the
 * one call for more that may be in flight. Pure: time is an argument, in nanoseconds of
 * the boot-time clock, read after anything that may have taken long.
 *
 * On doubt, burn. The deadline counts from before the call was sent, so that it is over
 * here before it is there. What is not spent by then is gone. A call says how much is
 * held, not how much was spent since the last one: so it does not matter which of the
 * calls before were run, and what came of a lost one is never spent by anybody.
 */
#ifndef RN_REDIS_LEASE_H
#define RN_REDIS_LEASE_H

#include "redis/codec.h"
#include "redis/leased/sizing.h"

struct rn_lease {
    struct rn_sizing sizing;
    struct rn_demand demand;
    uint64_t units, known; /* to spend; the store knows of: units <= known */
    uint64_t late;         /* not to be spent until the call in flight says that they are kept */
    uint64_t half;         /* at this many, more are asked for */
    int64_t deadline_ns;   /* from here on, none may be spent */
    int64_t renew_ns;      /* from here on, more time is asked for */

    bool in_flight;
    bool scarce; /* the last call got little */
    int64_t sent_ns;
    uint64_t wanted, least; /* by the call in flight */

    int64_t pause_ns; /* before this, nothing is asked for that does not fit */
    uint64_t short_of;
    int64_t retry_ns; /* before this, nobody has `short_of` units to grant */

    /* As the store said last. */
    uint64_t left;
    int64_t reset_ns, mark;
    bool asked;      /* and was asked again since */
    int64_t ends_us; /* of the lease, by its clock; 0: whether it has one is not known */
};

/* What a call was answered. */
struct rn_grant {
    uint64_t granted, left;
    int64_t retry_after_ns, reset_after_ns, lease_ns;
    int64_t mark, ends_us;
    bool kept;
};

/* Drops what may not be spent any more; returns how much. Before anything else, each
 * time the clock was read. While a call is in flight nothing is dropped yet: it may have come
 * in time, and its answer tells. */
uint64_t rn_lease_expire(struct rn_lease *lease, int64_t now_ns);

/* False: not enough. */
bool rn_lease_spend(struct rn_lease *lease, uint64_t cost);
/* Undoes a spend that was answered with this mark. False: the store may have been told of it,
 * or somebody else has made it, and the store must be asked: only there is known what it is
 * worth by now. */
bool rn_lease_unspend(struct rn_lease *lease, uint64_t cost, int64_t mark);
/* Whether it is known without asking that there are not so many. */
bool rn_lease_refuses(const struct rn_lease *lease, uint64_t cost, int64_t now_ns);
/* Forgets what is known of that. */
void rn_lease_hope(struct rn_lease *lease);
/* Remaining, retry after a refusal and so on, as far as known. */
void rn_lease_answer(const struct rn_lease *lease, bool allowed, int64_t now_ns,
                     struct rn_answer *answer);

/* Worth a call although what there is will do for now. */
bool rn_lease_runs_low(const struct rn_lease *lease, int64_t now_ns);
/* The lease that was last granted is over so soon that it is not worth renewing: it ends with
 * its window. */
bool rn_lease_ends_soon(const struct rn_lease *lease);
/* Begins a call: holder and number are the caller's to fill in. `least` units are of
 * use, `waiting` are waited for. */
void rn_lease_ask(struct rn_lease *lease, uint64_t least, uint64_t waiting, int64_t now_ns,
                  struct rn_codec_lease_request *request);
/* The same, to give back all. */
void rn_lease_ask_out(struct rn_lease *lease, int64_t now_ns,
                      struct rn_codec_lease_request *request);
/* It was not sent. */
void rn_lease_unask(struct rn_lease *lease, const struct rn_codec_lease_request *request);
/* It was answered; returns how many units came too late or were taken away. */
uint64_t rn_lease_take_in(struct rn_lease *lease, const struct rn_grant *grant, int64_t now_ns);
/* It was not, and never will be; returns how many units are lost by that. */
uint64_t rn_lease_lose(struct rn_lease *lease);

#endif
