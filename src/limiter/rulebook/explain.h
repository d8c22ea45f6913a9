/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Explains what every rule makes of a request, one rule after the other. Nothing is charged or
 * counted.
 */
#ifndef RN_LIMITER_RULEBOOK_EXPLAIN_H
#define RN_LIMITER_RULEBOOK_EXPLAIN_H

#include <ration/reputation.h>
#include <ration/rules.h>
#include <ration/wait.h>

#include "rules/match/match.h"

/* One rule. Valid while `see` runs. */
struct rn_explained_rule {
    const struct rn_ruleset *ruleset;
    const struct rn_rule *rule;
    const struct rn_values *values; /* of the request */
    struct rn_reason reason;
    bool applies;
    /* If it applies: */
    const struct rn_match *match;
    uint64_t cost;
    uint64_t hash;                       /* of the client under the rule; 0: no limit */
    bool overridden;                     /* the limits are of an override, not of the tier */
    unsigned factor;                     /* in force, in percent; 0: the rule has no factors */
    struct ration_reputation reputation; /* of the client, if the rule has escalate or earn */
    int64_t pause_ns;                    /* how long the client is paused; 0: it is not */
    int error;                           /* 0, or why there are no verdicts */
    /* The verdicts of `limits` as if this rule were the only one; at most RATION_OUTCOME_LIMITS. */
    const struct ration_outcome *outcome;
    const struct rn_rule_limit *const *limits;
    const struct rn_transaction_item *items;         /* the answers behind the verdicts */
    struct ration_line lines[RATION_OUTCOME_LIMITS]; /* for each limit, if somebody waits there */
    uint32_t limit_count;                            /* 0: unlimited */
};

/* The request. Valid while `begin` runs. */
struct rn_explained_request {
    const struct rn_ruleset *ruleset;
    const struct rn_values *values;
    const struct rn_list_entry *entry; /* allows or denies the request before any rule; or NULL */
};

struct rn_explain {
    const struct ration_request *request;
    int64_t now_ns; /* or RATION_NOW */
    void *arg;
    void (*begin)(void *arg, const struct rn_explained_request *request); /* once; may be NULL */
    /* Called for each native rule, in the order of the files, until it returns non-zero; also if a
     * list allows or denies the request. */
    int (*see)(void *arg, const struct rn_explained_rule *rule);
};

/* Calls nothing if no rules are loaded. A reload waits until it is done: the calls must not load
 * rules. 0 or RATION_ENOMEM. */
int rn_explain_run(struct ration *r, const struct rn_explain *explain);

/* One sentence about the attribute that is probably misspelt or, if none is, about the first that
 * no rule looks at; empty if rules look at all of them. Headers do not count: proxies pass them all
 * on. Compares with every name that the rules know: for calls that are rare, or that no rule
 * matched. */
void rn_explain_unused_attribute(struct ration *r, const struct ration_attribute *attributes,
                                 size_t count, char note[RATION_MESSAGE_SIZE]);

#endif
