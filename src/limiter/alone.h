/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What holds for a request if a server that decides for many nodes does not answer
 * (a shared store below the limiter has policy.h). Each rule says so itself, by its
 * on_store_failure:
 *
 *   local    it is counted here
 *   allow    it is as if it were not there
 *   refuse   whom it applies to is refused, to be tried again in a second; nothing is
 *            charged
 *
 * Lists and bans are as ever; a rule in shadow mode refuses nobody.
 */
#ifndef RN_LIMITER_ALONE_H
#define RN_LIMITER_ALONE_H

#include <ration/rules.h>

#include "rules/match.h"

/* ration_decide, by that. */
int rn_alone_decide(struct ration *r, const struct ration_request *request, int64_t now_ns,
                    struct ration_outcome *out);

/* For those who gather the rules: whether one of them takes part, */
bool rn_alone_counts(const struct rn_rule *rule);
/* and the first one that refuses; NULL: none. */
const struct rn_rule *rn_alone_refuser(const struct rn_matches *matches);

#endif
