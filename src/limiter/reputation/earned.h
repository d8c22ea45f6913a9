/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What clients have earned (core/earn.h) and its part in a decision: one probe before the charge,
 * which gives the step of the limit, and a write when a period opens or all is lost.
 *
 * Only this node's requests count: records of other nodes are not known here. Under limits that are
 * shared, the step travels with the charge, and the larger of two nodes' steps bounds both.
 */
#ifndef RN_LIMITER_REPUTATION_EARNED_H
#define RN_LIMITER_REPUTATION_EARNED_H

#include "base/hints.h"
#include "core/earn.h"
#include "limiter/limiter.h"

/* One client under a rule that has `earn`. */
struct rn_earned {
    const struct rn_earn_plan *plan;
    uint64_t rule; /* rn_reputation_rule */
    uint64_t hash; /* of the client, without a salt */
    int64_t now_ns;
};

/* The earned record of a client; 0: there is none. */
static inline uint64_t rn_earned_find(const struct ration *r, uint64_t hash)
{
    return rn_records_find(&r->reputation.records, rn_records_key(hash, RN_RECORD_EARNED));
}

/* How many percent of the limit a client has; 100 under a rule without `earn`. */
static inline unsigned rn_earned_percent(const struct ration *r, const struct rn_rule *rule,
                                         uint64_t hash, int64_t now_ns)
{
    if (rn_likely(rule->earn == NULL))
        return 100;
    return rn_earn_percent(rule->earn, rn_earned_find(r, hash), now_ns);
}

/* An admission. Writes if a period opens; most do not: rn_earn_goes_on. */
void rn_earned_admit(struct ration *r, const struct rn_earned *client);

/* A refusal that counts for lost_by. */
void rn_earned_refuse(struct ration *r, const struct rn_earned *client);

#endif
