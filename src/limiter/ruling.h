/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request under rules: the limits that apply are gathered, charged together
 * (check.h), and what comes of it is told and counted.
 */
#ifndef RN_LIMITER_RULING_H
#define RN_LIMITER_RULING_H

#include <ration/rules.h>

#include "limiter/check.h"
#include "rules/envoy.h"
#include "rules/match.h"

/* A rule that applies, and how. The slices are borrowed until the end. */
struct rn_applied {
    const struct rn_rule *rule;
    struct rn_rule_limit *const *limits; /* of its tier; none: unlimited */
    uint32_t limit_count;
    const struct rn_compiled *instead; /* of an override: compiled, its one limit; NULL: none */
    const struct rn_slice *key;
    const struct rn_slice *key_names; /* NULL, or data NULL where there is nothing to tell apart */
    uint32_t key_count;
    uint64_t cost;
    uint8_t keep_percent;
    bool shadow;
};

/* Large (about 45 KB), on the stack. */
struct rn_ruling {
    struct ration *r;
    const struct rn_book *book;
    uint32_t rule_count;
    struct rn_applied rules[RN_MATCHES_MAX];

    /* By charge. */
    uint8_t rule_of[RATION_CHARGES_MAX];
    const struct rn_rule_limit *limits[RATION_CHARGES_MAX];
    struct ration_charge charges[RATION_CHARGES_MAX];

    int error;      /* too many limits */
    uint64_t lease; /* 0: no concurrency limit applies */
    uint32_t lease_count;
    struct rn_check check;
};

/* `now_ns` may be RATION_NOW. */
void rn_ruling_init(struct rn_ruling *g, struct ration *r, const struct rn_book *book,
                    int64_t now_ns);
/* That there are too many limits is for rn_ruling_run to say. */
void rn_ruling_add(struct rn_ruling *g, const struct rn_applied *applied);
/* Charges (or only looks), fills `out`, counts. An error leaves `out` alone. */
int rn_ruling_run(struct rn_ruling *g, bool look_only, struct ration_outcome *out);

/* A refusal or an admission without limits; counted unless `look_only`. */
void rn_ruling_by_list(struct rn_ruling *g, enum ration_outcome_kind kind, bool look_only,
                       struct ration_outcome *out);

/* The same for a client that is banned for `left_ns` more. */
void rn_ruling_by_ban(struct rn_ruling *g, struct rn_slice reason, int64_t left_ns, bool look_only,
                      struct ration_outcome *out);

/* outcome.c: as of no limit. Sets all but what lies behind counts. */
void rn_outcome_init(struct ration_outcome *out, enum ration_outcome_kind kind);
/* From a check that has ended without an error. */
void rn_outcome_fill(struct ration_outcome *out, const struct rn_ruling *g);

/* Whether a rule that enforces (or one that does not) would have refused. */
bool rn_ruling_refused(const struct rn_ruling *g, uint32_t rule, bool shadow);

#endif
