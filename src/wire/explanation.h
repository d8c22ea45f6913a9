/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Explains a decision as JSON, for a running daemon and for rules files alike.
 */
#ifndef RN_WIRE_EXPLANATION_H
#define RN_WIRE_EXPLANATION_H

#include "limiter/rulebook/explain.h"
#include "wire/members.h"

/* The request is a descriptor of Envoy's, which the caller explains; native rules are asked if
 * they apply to Envoy, too. Each function may be NULL. */
struct rn_explanation_descriptor {
    void (*put)(void *arg, struct rn_members *m);      /* adds members to the object */
    void (*put_rule)(void *arg, struct rn_members *m); /* adds the rule it finds to the rules */
    void *arg;
};

struct rn_explanation {
    const struct ration_request *request;
    const struct ration_outcome *outcome;               /* of a peek */
    int64_t now_ns;                                     /* the time of the peek */
    bool matching;                                      /* leave out rules that do not apply */
    const struct rn_explanation_descriptor *descriptor; /* NULL: it is not one */
};

/* Writes members into an open object. Returns 0, or RATION_E* of the store: then discard the
 * output. */
int rn_explanation_put(struct rn_members *m, struct ration *limiter,
                       const struct rn_explanation *explanation);

/* One element for each limit of a rule that applies. Returns 0, or seen->error. */
int rn_explanation_put_limits(struct rn_members *m, const struct rn_explained_rule *seen);

/* Members `escalate` and `earn` of a rule that applies, where it has them: what it says, and what
 * it keeps of the client. */
void rn_explanation_put_reputation(struct rn_members *m, const struct rn_explained_rule *seen);

/* Member `queue` of a rule under which requests wait in line. */
void rn_explanation_put_queue(struct rn_members *m, const struct rn_rule *rule);
/* Member `line` of a limit: who waits there, and where the request would stand. */
void rn_explanation_put_line(struct rn_members *m, const struct ration_line *line);

#endif
