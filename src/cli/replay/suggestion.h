/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The limit that `ration suggest` suggests for a tier of a rule, and the distribution that it comes
 * from.
 */
#ifndef RN_CLI_REPLAY_SUGGESTION_H
#define RN_CLI_REPLAY_SUGGESTION_H

#include "cli/replay/fit.h"
#include "cli/replay/run.h"

#define RN_SUGGESTION_CLASSES 48 /* of the distribution */

struct rn_suggestion {
    const struct rn_tier *tier;
    uint64_t requests; /* of the sample */
    size_t clients, touched;
    struct ration_limit limit;
    uint64_t *needs; /* by client, ascending: the least amount that admits all its requests */
    uint64_t most;   /* the largest amount that there is; needs above it: none is enough */
    uint64_t from[RN_SUGGESTION_CLASSES + 1]; /* where the classes of amounts begin */
    uint64_t counts[RN_SUGGESTION_CLASSES];   /* clients whose need is in each */
    size_t classes, mark;                     /* the limit is at the beginning of class `mark` */
    bool has_none;                            /* the last class is of those with no such amount */
};

/* What they are for. */
struct rn_suggestion_list {
    struct rn_run *run;
    const struct rn_rule *rule;
    double touch; /* at most this share of clients */
    unsigned halvings;
    struct rn_suggestion items[RN_DEMAND_TIERS];
    size_t count;
};

/* The least amount that touches at most a share of clients. */
uint64_t rn_suggestion_amount(const struct rn_suggestion *suggestion, double share);

void rn_suggestion_text(const struct rn_suggestion_list *list);
void rn_suggestion_json(const struct rn_suggestion_list *list);
/* False after an error message. */
bool rn_suggestion_page(const struct rn_suggestion_list *list, const char *path);

#endif
