/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes a decision for HTTP: rate limit headers of both families, the JSON object, the body of
 * a refusal.
 */
#ifndef RN_WIRE_ANSWER_H
#define RN_WIRE_ANSWER_H

#include <ration/rules.h>

#include "base/buf.h"

/* What the outcome itself does not hold. */
struct rn_answer_extra {
    int64_t wall_ns;        /* Unix time of the decision */
    struct rn_slice lease;  /* the ticket; data NULL: none */
    struct rn_slice charge; /* the ticket of a charge by outcome; data NULL: none */
    int64_t held_ns;        /* how long the reply was delayed; 0: not at all */
    bool ad_hoc;            /* the limits came with the request and have no rule */
};

/* 200, or the status of the refusal. */
unsigned rn_answer_status(const struct ration_outcome *outcome);
/* The code of the refusal for programs: rate_limited, denied, banned. */
const char *rn_answer_error(const struct ration_outcome *outcome);

/* {"allowed":…}: one decision, without the members that only refusals have. */
void rn_answer_put_json(struct rn_buf *out, const struct ration_outcome *outcome,
                        const struct rn_answer_extra *extra);
/* The body of an answer: as above, and for a refusal error, message, window and reset;
 * `problem`: as application/problem+json (RFC 9457). */
void rn_answer_put_body(struct rn_buf *out, const struct ration_outcome *outcome,
                        const struct rn_answer_extra *extra, bool problem);
/* Header lines, each with CRLF; none if no rule applied. */
void rn_answer_put_headers(struct rn_buf *out, const struct ration_outcome *outcome,
                           const struct rn_answer_extra *extra);

#endif
