/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Says in words why a rule applies to a request or does not. The text has no capitals
 * and no full stop, so it can follow a dash or a colon. Values are escaped.
 */
#ifndef RN_RULES_MATCH_REASON_H
#define RN_RULES_MATCH_REASON_H

#include "base/buf.h"
#include "rules/match/match.h"

/* A condition and the request's value for it. */
struct rn_finding {
    const struct rn_ruleset *ruleset;
    const struct rn_condition *condition;
    struct rn_slice value; /* data NULL: absent */
    bool holds;
    bool unreadable; /* the path is unreadable, so the condition holds */
};
struct rn_finding rn_reason_find(const struct rn_ruleset *ruleset,
                                 const struct rn_condition *condition,
                                 const struct rn_values *values);

/* `method "GET" is not POST` */
void rn_reason_write_finding(struct rn_buf *out, const struct rn_finding *finding);

/* The reason that rn_match_explain found: of each alternative the first condition that does
 * not hold, or all of the alternative that does; `no key: user and api_key are absent`, `no tier:
 * plan "gold" is none of free, pro, and there is no default`. */
void rn_reason_write(struct rn_buf *out, const struct rn_ruleset *ruleset,
                     const struct rn_rule *rule, const struct rn_values *values,
                     struct rn_reason reason);

#endif
