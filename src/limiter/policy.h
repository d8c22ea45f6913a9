/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What holds if a server or store that counts for many nodes does not answer. Each
 * rule says so itself (on_store_failure):
 *
 *   local    it is counted here
 *   allow    it is as if it were not there
 *   refuse   whom it applies to is refused, and nothing is charged
 *
 * Lists and bans are as ever; a rule in shadow mode refuses nobody.
 */
#ifndef RN_LIMITER_POLICY_H
#define RN_LIMITER_POLICY_H

#include <ration/rules.h>

#include "rules/match.h"

/* ration_decide, by that. */
int rn_policy_decide(struct ration *r, const struct ration_request *request, int64_t now_ns,
                     struct ration_outcome *out);

/* For those who gather the rules: whether one of them takes part, */
bool rn_policy_counts(const struct rn_rule *rule);
/* and the first one that refuses; NULL: none. */
const struct rn_rule *rn_policy_refuser(const struct rn_matches *matches);

#endif
