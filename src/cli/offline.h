/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules that were loaded for one command, and the limiter they are tried on.
 */
#ifndef RN_CLI_OFFLINE_H
#define RN_CLI_OFFLINE_H

#include <ration/rules.h>

#include "cli/options.h"
#include "rules/envoy/envoy.h"
#include "rules/match/match.h"
#include "rules/report/report.h"

struct rn_offline {
    const struct rn_options *options;
    struct rn_report report;
    struct rn_ruleset *ruleset; /* NULL: not loaded; the limiter's as soon as there is one */
    struct ration *limiter;     /* NULL: not opened */
    int64_t now_ns;             /* of all decisions, on the limiter's time line */
    bool envoy;                 /* the request is a descriptor: domain=... comes first */
};

/* Whether native rules apply to the request, */
static inline bool rn_offline_is_native(const struct rn_offline *offline)
{
    return !offline->envoy || offline->ruleset->apply_to_envoy;
}
/* and whether this is one of them. */
static inline bool rn_offline_asks(const struct rn_offline *offline, const struct rn_rule *rule)
{
    return !rule->envoy && (!offline->envoy || rule->for_envoy);
}

/* Loads the rules. False: not possible; what is wrong with the rules is in the
 * report, all else has been said on stderr. rn_offline_done in any case. */
bool rn_offline_load(struct rn_offline *offline, const struct rn_options *options);
/* Opens the state, also a new one if `create`, and looks at the request. False
 * after saying on stderr what is wrong. */
bool rn_offline_open(struct rn_offline *offline, bool create);
void rn_offline_done(struct rn_offline *offline);

/* One decision on the request of the command line; `look` counts nothing. False
 * after saying why it could not be made. */
bool rn_offline_decide(struct rn_offline *offline, bool look, struct ration_outcome *outcome);

/* The request as descriptor; `entries` has room for RN_ENVOY_DEPTH_MAX. Returns
 * their number. */
size_t rn_offline_entries(const struct rn_offline *offline, struct rn_envoy_entry *entries);

#endif
