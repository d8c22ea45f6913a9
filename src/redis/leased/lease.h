/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker's lease of one key: units that it may spend until a deadline, and the one call for more
 * that may be in flight. Pure: time is an argument, in nanoseconds of the boot-time clock, read
 * after anything that may have taken long.
 *
 * In doubt, units are lost rather than admitted twice. The deadline counts from before the call was
 * sent, so the lease ends here before it ends in Redis. Units not spent by then are lost. A call
 * says how many units the worker holds, not how many it spent since the last call: so it does not
 * matter which earlier calls Redis ran, and no one spends the grant of a lost call.
 */
#ifndef RN_REDIS_LEASE_H
#define RN_REDIS_LEASE_H

#include "redis/codec.h"
#include "redis/leased/sizing.h"

struct rn_lease {
    struct rn_sizing sizing;
    struct rn_demand demand;
    uint64_t units, known; /* left to spend; that Redis knows of: units <= known */
    uint64_t late;         /* not to be spent unless the reply in flight says that they are kept */
    uint64_t half;         /* at this many units, ask for more */
    int64_t deadline_ns;   /* from then on, no unit may be spent */
    int64_t renew_ns;      /* from then on, ask for more time */

    bool in_flight;
    bool scarce;                    /* the last grant was small */
    uint16_t percent, sent_percent; /* the factor; that of the call in flight */
    int64_t sent_ns;
    uint64_t wanted, least; /* units, by the call in flight */

    int64_t pause_ns; /* before then, do not ask for what does not fit */
    uint64_t short_of;
    int64_t retry_ns; /* before then, Redis cannot grant `short_of` units */

    /* From the last reply. */
    uint64_t left;
    int64_t reset_ns, mark;
    bool asked;      /* a call was sent since */
    int64_t ends_us; /* when the lease ends, by Redis's clock; 0: not known */
};

/* The reply to a call. */
struct rn_grant {
    uint64_t granted, left;
    int64_t retry_after_ns, reset_after_ns, lease_ns;
    int64_t mark, ends_us;
    bool kept;
};

/* Drops units that may not be spent any more; returns how many. Call it first, each time the clock
 * was read. While a call is in flight nothing is lost yet: the reply may say that Redis got it in
 * time. */
uint64_t rn_lease_expire(struct rn_lease *lease, int64_t now_ns);

/* The factor is now this. If it has fallen, as much is cut of what is held, and of what a call in
 * flight may bring: to Redis that is spent. If it has risen, what is held stays. */
void rn_lease_set_factor(struct rn_lease *lease, unsigned percent);

/* False: not enough. */
bool rn_lease_spend(struct rn_lease *lease, uint64_t cost);
/* Undoes a spend that was answered with this mark. False: Redis may know of the spend, or another
 * worker made it; then Redis must decide, which knows what the spend is worth by now. */
bool rn_lease_unspend(struct rn_lease *lease, uint64_t cost, int64_t mark);
/* Whether it is known without a call that fewer units than that are left. */
bool rn_lease_refuses(const struct rn_lease *lease, uint64_t cost, int64_t now_ns);
/* Forgets known refusals: units may have come back. */
void rn_lease_forget_refusal(struct rn_lease *lease);
/* Fills in remaining, retry-after and so on, as far as they are known. */
void rn_lease_answer(const struct rn_lease *lease, bool allowed, int64_t now_ns,
                     struct rn_answer *answer);

/* Whether to ask for more although the units suffice for now. */
bool rn_lease_runs_low(const struct rn_lease *lease, int64_t now_ns);
/* Whether the lease last granted is too short to be renewed: it ends with its window. */
bool rn_lease_ends_soon(const struct rn_lease *lease);
/* Begins a call; the caller must fill in holder and number. A grant below `least` units is of no
 * use; `waiting` units are waited for. */
void rn_lease_ask(struct rn_lease *lease, uint64_t least, uint64_t waiting, int64_t now_ns,
                  struct rn_codec_lease_request *request);
/* The same, to give back all units. */
void rn_lease_ask_out(struct rn_lease *lease, int64_t now_ns,
                      struct rn_codec_lease_request *request);
/* The call was not sent. */
void rn_lease_unask(struct rn_lease *lease, const struct rn_codec_lease_request *request);
/* The call was answered; returns how many units are lost: they came too late or were revoked. */
uint64_t rn_lease_take_in(struct rn_lease *lease, const struct rn_grant *grant, int64_t now_ns);
/* The call will never be answered; returns how many units are lost. */
uint64_t rn_lease_lose(struct rn_lease *lease);

#endif
