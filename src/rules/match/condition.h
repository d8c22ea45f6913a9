/* SPDX-License-Identifier: Apache-2.0 */
/* Evaluates conditions. For match/ and lint/; other rooms use match.h. */
#ifndef RN_RULES_MATCH_CONDITION_H
#define RN_RULES_MATCH_CONDITION_H

#include "rules/match/match.h"

/* The input of a condition. */
struct rn_match_input {
    const struct rn_ruleset *ruleset;
    struct rn_values *values;
    const struct rn_match_index *index; /* NULL: compare with every value */
};

/* The index of the first condition that does not hold, or their count. Every condition on an
 * unreadable path holds. */
uint32_t rn_condition_first_false(const struct rn_match_input *scene,
                                  const struct rn_condition *conditions, uint32_t count);

/* Whether a value passes a test of texts or numbers with the condition's value `wanted`. */
bool rn_condition_accepts(const struct rn_condition *condition, struct rn_slice wanted,
                          struct rn_slice value);

/* Whether an attribute is the path or a part of it. */
bool rn_condition_is_on_path(const struct rn_ruleset *ruleset, uint16_t attribute);

/* Whether `wide` holds for every request that `narrow` holds for. May return false if the two are
 * hard to compare. For lint; in condition_implies.c. */
bool rn_condition_implies(const struct rn_condition *narrow, const struct rn_condition *wide);
/* The same for alternatives: whether some condition of `narrow` implies each of `wide`. */
bool rn_condition_implies_all(const struct rn_alternative *narrow,
                              const struct rn_alternative *wide);

#endif
