/* SPDX-License-Identifier: Apache-2.0 */
/* Whether one condition follows from another, for lint. */
#ifndef RN_RULES_MATCH_CONDITION_IMPLIES_H
#define RN_RULES_MATCH_CONDITION_IMPLIES_H

#include "rules/ruleset.h"

/* Whether `wide` holds for every request that `narrow` holds for. False also where that
 * is not easily told. */
bool rn_condition_implies(const struct rn_condition *narrow, const struct rn_condition *wide);

#endif
