/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Charges whose deadline passed while they were on their way. The caller goes on without an
 * answer; the reply comes all the same, and may say that the charge was made. If the request was
 * refused, that must be given back:
 *
 *   noted ---- reply: made ----> charged ---- unwanted ----> given back, once
 *     |  \---- unwanted --------> (the same in the other order)
 *     |------- reply: refused, or lost
 *
 * Of a request that was admitted, nobody says that its charge is unwanted, and it stands. There
 * is room for RN_LATE_CHARGES_MAX; the oldest make room for others and are burnt, but for those on
 * their way back. Pure: what is given back, others send.
 */
#ifndef RN_REDIS_LATE_CHARGES_H
#define RN_REDIS_LATE_CHARGES_H

#include "redis/seat.h"

#define RN_LATE_CHARGES_MAX 4096

struct rn_late_charge {
    struct rn_job job; /* of the refund; nobody waits for it: done is NULL */
    uint64_t id;       /* 0: unused */
    bool charged, unwanted;
    bool returning; /* the refund is on its way */
    struct rn_charge charge;
    struct rn_limit limit; /* the charge's, which may be gone by then */
};

struct rn_late_charges {
    struct rn_late_charge *ring;
    uint64_t last; /* id */
};

/* Ids begin at random, so that no other process knows them. False: out of memory. */
bool rn_late_charges_init(struct rn_late_charges *lates);
void rn_late_charges_done(struct rn_late_charges *lates);

/* A charge that was sent will not be waited for any longer. Returns its id; 0: there is nothing
 * to give back, or no room. */
uint64_t rn_late_charges_note(struct rn_late_charges *lates, const struct rn_charge *charge);
/* There will be no reply. */
void rn_late_charges_forget(struct rn_late_charges *lates, uint64_t id);

/* The reply has come, and says so (RN_CODEC_ANSWER bytes); the request of this charge was refused.
 * Either returns what is to be given back now, NULL: nothing, or not yet. */
struct rn_late_charge *rn_late_charges_answer(struct rn_late_charges *lates, uint64_t id,
                                              const char *answer);
struct rn_late_charge *rn_late_charges_disown(struct rn_late_charges *lates, uint64_t id,
                                              const struct rn_charge *charge);

/* It was given back, or could not be. */
static inline void rn_late_charges_end(struct rn_late_charge *late)
{
    late->id = 0;
    late->returning = false;
}

#endif
