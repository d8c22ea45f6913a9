/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the requests of access logs through rules, on the time of the logs.
 */
#ifndef RN_CLI_REPLAY_RUN_H
#define RN_CLI_REPLAY_RUN_H

#include <stdio.h>

#include "base/arena.h"
#include "cli/logs/feed.h"
#include "cli/logs/reorder.h"
#include "cli/offline.h"
#include "cli/replay/pending.h"
#include "cli/replay/tally.h"

/* One set of rules and what it did. */
struct rn_run_side {
    const char *name; /* of its first file */
    struct rn_offline offline;
    const struct rn_ruleset *ruleset; /* owned by the limiter */
    struct ration *limiter;
    struct rn_tally_side tally;
};

struct rn_run {
    const struct rn_options *options;
    /* Not NULL: gets each request in order of time, instead of the rules. */
    void (*see)(struct rn_run *run, const struct rn_logs_entry *entry,
                const struct ration_request *request);
    void *arg; /* for `see` */
    struct rn_run_side sides[RN_SIDES];
    unsigned side_count;

    struct rn_arena names; /* of attributes in the plan */
    struct rn_logs_plan plan;
    struct rn_feeds feeds;
    struct rn_reorder reorder;
    struct rn_pending pending;
    struct rn_tally_shared shared;
    struct ration_attribute given[RN_LOGS_ATTRIBUTES]; /* --set */
    uint32_t given_count, given_used;                  /* bits: those that anything looks at */
    uint32_t whole; /* the attribute that says which client it is; its number in the plan */
    struct rn_slice whole_given; /* it is the same for all, by --set; data NULL: it is not */

    uint64_t requests, outside;           /* replayed; before --from or after --to */
    uint64_t present[RN_LOGS_ATTRIBUTES]; /* requests that have the attribute */
    uint64_t both_refused, newly_refused, no_longer_refused;
    int64_t first_ns, last_ns, outside_first_ns, outside_last_ns;
    int64_t took_ns; /* of wall time */
    FILE *decisions; /* NULL: not wanted */
    struct ration_outcome outcome;
};

/* Loads rules (`text`, if the options name no files; NULL: that is an error) and opens logs by the
 * options. False after error messages on stderr. Call rn_run_done
 * in any case. */
bool rn_run_open(struct rn_run *run, const struct rn_options *options, const char *text);
void rn_run_done(struct rn_run *run);
/* How many clients were refused by neither, only by the first, only by the second, by both. */
void rn_run_count_changed(const struct rn_run *run, uint64_t clients[4]);
/* Reads the logs to their end. False after an error message. */
bool rn_run_all(struct rn_run *run);
/* Lines that are no requests, of all logs. */
uint64_t rn_run_faulty(const struct rn_run *run);

#endif
