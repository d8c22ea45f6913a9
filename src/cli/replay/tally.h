/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What rules made of the requests of a log: counts by rule, by client and over time. Its memory is
 * bounded; beyond that numbers of clients are estimates.
 */
#ifndef RN_CLI_REPLAY_TALLY_H
#define RN_CLI_REPLAY_TALLY_H

#include <ration/rules.h>

#include "cli/replay/distinct.h"
#include "cli/replay/population.h"
#include "cli/replay/touched.h"
#include "cli/replay/trend.h"
#include "rules/match/match.h"

/* Clients of a rule, or of all. */
struct rn_tally_clients {
    uint64_t seen, refused; /* that have a row in the population */
    struct rn_distinct all_seen, all_refused;
};

struct rn_tally_rule {
    uint64_t requests, refused, delayed, shadowed;
    uint64_t in_line;          /* of those delayed: would stand in line */
    int64_t first_ns, last_ns; /* of refusals and delays; 0: none */
    /* How long all its clients together were told to stay away: centuries, of a long period. */
    uint64_t limited_s;
    int64_t limited_rest_ns; /* and less than a second */
    struct rn_tally_clients clients;
};

/* What one set of rules did. */
struct rn_tally_side {
    unsigned side;
    const struct rn_ruleset *ruleset;
    uint64_t requests, refused, delayed, shadowed, unmatched, listed, banned, errors;
    struct rn_tally_rule *rules; /* by index */
    struct rn_tally_clients clients;
    struct rn_touched_table touched;
};

/* A change of a client's row, made some requests later, when its memory has been fetched. */
struct rn_tally_change {
    uint64_t hash;
    struct rn_tally_clients *clients;
    bool counts, refused;
    uint8_t side;
};
#define RN_TALLY_DELAYED 32

/* What all sides share. */
struct rn_tally_shared {
    struct rn_population population;
    struct rn_trend trend;
    struct rn_tally_change changes[RN_TALLY_DELAYED];
    unsigned change_count;
};

bool rn_tally_init(struct rn_tally_side *tally, const struct rn_ruleset *ruleset, unsigned side,
                   uint64_t bytes);
void rn_tally_done(struct rn_tally_side *tally);

/* How a request ended. */
enum rn_tally_result { RN_TALLY_ADMITTED, RN_TALLY_WAITS, RN_TALLY_REFUSED };

/* The client that made a request, for all rules together, and its hash. data NULL: it has none. */
struct rn_tally_whole {
    struct rn_slice client;
    uint64_t hash;
};
struct rn_tally_whole rn_tally_whole(struct rn_slice client);

/* Counts a decision. */
enum rn_tally_result rn_tally_add(struct rn_tally_side *tally, struct rn_tally_shared *shared,
                                  const struct ration_outcome *outcome,
                                  const struct rn_matches *matches,
                                  const struct rn_tally_whole *whole, int64_t now_ns);
/* Makes the changes that are left. */
void rn_tally_flush(struct rn_tally_shared *shared);

/* How many clients; *exact: it is no estimate. */
uint64_t rn_tally_seen(const struct rn_tally_shared *shared, const struct rn_tally_clients *clients,
                       bool *exact);
uint64_t rn_tally_refused(const struct rn_tally_shared *shared,
                          const struct rn_tally_clients *clients, bool *exact);

#endif
