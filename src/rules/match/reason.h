/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why a rule applies to a request or does not, in words: without capitals and
 * full stops, fit to stand behind a dash or a colon. Somebody's text is escaped.
 */
#ifndef RN_RULES_MATCH_REASON_H
#define RN_RULES_MATCH_REASON_H

#include "base/buf.h"
#include "rules/match/match.h"

/* A condition and what a request has to say to it. */
struct rn_finding {
    const struct rn_ruleset *ruleset;
    const struct rn_condition *condition;
    struct rn_slice value; /* data NULL: absent */
    bool holds;
    bool unreadable; /* of the path, which cannot be read: holds whatever it says */
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
