/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What follows from what rules have done: the facts of GET /v1/report, or of a replayed log, as
 * findings that a person can act on.
 */
#ifndef RN_CLI_REPORT_FINDINGS_H
#define RN_CLI_REPORT_FINDINGS_H

#include "base/buf.h"
#include "cli/client/json.h"

enum rn_finding_kind {
    RN_FINDING_NEVER_HIT,
    RN_FINDING_REFUSES_MANY,
    RN_FINDING_SHADOWED,
    RN_FINDING_NEAR,
    RN_FINDING_UNCOVERED,
    RN_FINDING_SIGNAL,
    RN_FINDING_SUGGESTION,
    RN_FINDING_KINDS,
};

struct rn_findings_item {
    enum rn_finding_kind kind;
    struct rn_slice rule; /* or the request that no rule covers */
    size_t at, len;       /* of its message in rn_findings.text */
};

struct rn_findings {
    uint64_t share_permille; /* a rule that refuses more of its clients is a finding */
    struct rn_findings_item *items;
    size_t count, room;
    struct rn_buf text;
    bool failed; /* out of memory */
};

/* Of a rule in the facts: its requests; its clients, and those that it has refused. A daemon and a
 * replay tell them in other members. */
uint64_t rn_findings_requests(const struct rn_cli_json *rule);
uint64_t rn_findings_clients(const struct rn_cli_json *rule);
uint64_t rn_findings_refused(const struct rn_cli_json *rule);

/* Fills `findings`, whose share is set, sorted by kind. Slices point into the facts. */
void rn_findings_draw(struct rn_findings *findings, const struct rn_cli_json *facts);
void rn_findings_done(struct rn_findings *findings);

struct rn_slice rn_findings_message(const struct rn_findings *findings,
                                    const struct rn_findings_item *finding);
/* "never_hit", as in JSON; and a heading. */
const char *rn_findings_word(enum rn_finding_kind kind);
const char *rn_findings_heading(enum rn_finding_kind kind);

#endif
