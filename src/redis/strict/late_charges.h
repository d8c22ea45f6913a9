/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Charges whose deadline passed while they were in flight. The caller goes on without an answer;
 * the reply still comes, and may say that Redis made the charge. If the request was refused, the
 * charge must be given back:
 *
 *   noted ---- reply: made ----> charged ---- unwanted ----> given back, once
 *     |  \---- unwanted --------> (the same in the other order)
 *     |------- reply: refused, or lost
 *
 * The charge of a request that was admitted is never called unwanted, and stands. There is room for
 * RN_LATE_CHARGES_MAX; a new one replaces the oldest, whose units are lost, unless its refund is
 * under way. Pure: the caller sends the refunds.
 */
#ifndef RN_REDIS_LATE_CHARGES_H
#define RN_REDIS_LATE_CHARGES_H

#include "redis/backend.h"

#define RN_LATE_CHARGES_MAX 4096

struct rn_late_charge {
    struct rn_backend_job job; /* of the refund; `done` is NULL as no caller waits */
    uint64_t id;               /* 0: unused */
    bool charged, unwanted;
    bool returning; /* the refund is in flight */
    struct rn_charge charge;
    struct rn_limit limit; /* a copy: the rules may be replaced meanwhile */
};

struct rn_late_charges {
    struct rn_late_charge *ring;
    uint64_t last; /* id */
};

/* Ids start at random, so that ids of another process do not match. False: out of memory. */
bool rn_late_charges_init(struct rn_late_charges *lates);
void rn_late_charges_done(struct rn_late_charges *lates);

/* The caller of a charge in flight has stopped waiting. Returns its id; 0: there is nothing to give
 * back, or no room. */
uint64_t rn_late_charges_note(struct rn_late_charges *lates, const struct rn_charge *charge);
/* There will be no reply. */
void rn_late_charges_forget(struct rn_late_charges *lates, uint64_t id);

/* The reply has come (RN_CODEC_ANSWER bytes); or the request of this charge was refused. Both
 * return the charge that must be given back now, NULL: none. */
struct rn_late_charge *rn_late_charges_answer(struct rn_late_charges *lates, uint64_t id,
                                              const char *answer);
struct rn_late_charge *rn_late_charges_disown(struct rn_late_charges *lates, uint64_t id,
                                              const struct rn_charge *charge);

/* The charge was given back, or could not be. */
static inline void rn_late_charges_end(struct rn_late_charge *late)
{
    late->id = 0;
    late->returning = false;
}

#endif
