/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decisions without a daemon: rules from files, and a limiter to try them on.
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
    struct rn_ruleset *ruleset; /* NULL: not loaded. Owned by the limiter once it is open */
    struct ration *limiter;     /* NULL: not opened */
    int64_t now_ns;             /* time of all decisions, on the limiter's time line */
    bool envoy;                 /* the request is a descriptor: its first attribute is domain=... */
};

/* Loads the rules. False on failure: the report has the errors in the rules; all other errors were
 * printed on stderr. Call rn_offline_done in any case. */
bool rn_offline_load(struct rn_offline *offline, const struct rn_options *options);
/* Opens the state, creating it if `create`, and checks the request. False after an error message on
 * stderr. */
bool rn_offline_open(struct rn_offline *offline, bool create);
void rn_offline_done(struct rn_offline *offline);

/* Decides the request of the command line; `look`: counts nothing. False after an error message. */
bool rn_offline_decide(struct rn_offline *offline, bool look, struct ration_outcome *outcome);

/* The request as a descriptor; `entries` has room for RN_ENVOY_DEPTH_MAX. Returns their number. */
size_t rn_offline_entries(const struct rn_offline *offline, struct rn_envoy_entry *entries);

#endif
