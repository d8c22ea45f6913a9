/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every rule makes of a request, for people who wonder: the slow way, one
 * rule after the other. Nothing is charged or counted.
 */
#ifndef RN_LIMITER_RULEBOOK_EXPLAIN_H
#define RN_LIMITER_RULEBOOK_EXPLAIN_H

#include <ration/rules.h>

#include "rules/match/match.h"

/* One rule, as long as `see` runs. */
struct rn_explained_rule {
    const struct rn_ruleset *ruleset;
    const struct rn_rule *rule;
    const struct rn_values *values; /* of the request, as the rules see it */
    struct rn_reason reason;
    bool applies;
    /* If it applies: */
    const struct rn_match *match;
    uint64_t cost;
    bool overridden; /* the limits are of an override, not of the tier */
    int error;       /* 0, or why there are no verdicts */
    /* The verdicts of the limits, as of this rule alone: for `limits`, of which at
     * most RATION_OUTCOME_LIMITS are there. */
    const struct ration_outcome *outcome;
    const struct rn_rule_limit *const *limits;
    uint32_t limit_count; /* 0: unlimited */
};

/* The request, as long as `begin` runs. */
struct rn_explained_request {
    const struct rn_ruleset *ruleset;
    const struct rn_values *values;
    const struct rn_list_entry *entry; /* takes the request aside before any rule; or NULL */
};

struct rn_explain {
    const struct ration_request *request;
    int64_t now_ns; /* or RATION_NOW */
    void *arg;
    void (*begin)(void *arg, const struct rn_explained_request *request); /* once; may be NULL */
    /* Each native rule, in the order of the files, until it returns non-zero; also if an entry
     * takes the request aside. */
    int (*see)(void *arg, const struct rn_explained_rule *rule);
};

/* Calls nothing if no rules are loaded. A reload waits until it is done: the calls must not load
 * rules. Uses about 150 KB of stack. */
void rn_explain_run(struct ration *r, const struct rn_explain *explain);

#endif
