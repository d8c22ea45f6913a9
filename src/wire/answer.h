/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A decision as HTTP tells it: rate limit headers of both families, the JSON
 * object, the body of a refusal.
 */
#ifndef RN_WIRE_ANSWER_H
#define RN_WIRE_ANSWER_H

#include <ration/rules.h>

#include "base/buf.h"

/* What the outcome itself does not know. */
struct rn_answer_extra {
    int64_t wall_ns;        /* Unix time of the decision */
    struct rn_slice lease;  /* the ticket; data NULL: none */
    struct rn_slice charge; /* that of what is charged by outcome, likewise */
    int64_t held_ns;        /* how long the reply was held; 0: not */
    bool ad_hoc;            /* limits came with the request: they have no rule */
};

/* 200, or how the refusal is to be answered. */
unsigned rn_answer_status(const struct ration_outcome *outcome);
/* Why it is refused, as programs read it: rate_limited, denied. */
const char *rn_answer_error(const struct ration_outcome *outcome);

/* {"allowed":…}: one decision, without what only refusals have. */
void rn_answer_put_json(struct rn_buf *out, const struct ration_outcome *outcome,
                        const struct rn_answer_extra *extra);
/* The body of an answer: as above, a refusal with error, message, window, reset;
 * `problem`: as RFC 9457 has it, application/problem+json. */
void rn_answer_put_body(struct rn_buf *out, const struct ration_outcome *outcome,
                        const struct rn_answer_extra *extra, bool problem);
/* Header lines, each with CRLF; none if no rule applied. */
void rn_answer_put_headers(struct rn_buf *out, const struct ration_outcome *outcome,
                           const struct rn_answer_extra *extra);

#endif
