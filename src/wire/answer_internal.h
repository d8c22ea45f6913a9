/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by answer.c and answer_headers.c. */
#ifndef RN_WIRE_ANSWER_INTERNAL_H
#define RN_WIRE_ANSWER_INTERNAL_H

#include "wire/answer.h"
#include "wire/format.h"

/* The names of limits in header fields: printable ASCII, each only once. The limits of one rule
 * are "api", "api-2", ... */
struct rn_answer_policy_names {
    struct {
        uint8_t len;
        bool plain; /* no character needs a backslash */
        char text[RATION_NAME_SIZE + RN_FORMAT_U64_MAX];
    } items[RATION_OUTCOME_LIMITS]; /* in the order of outcome->limits */
};

void rn_answer_policy_names_init(struct rn_answer_policy_names *names,
                                 const struct ration_outcome *outcome);

/* The limit that decided; NULL if none did. */
static inline const struct ration_outcome_limit *rn_answer_decider(const struct ration_outcome *o)
{
    int i = o->decision.decided_by;

    return i >= 0 && (uint32_t)i < o->listed ? &o->limits[i] : NULL;
}

/* An unlimited verdict has no numbers. */
static inline bool rn_answer_has_numbers(const struct ration_verdict *v)
{
    return v->limit != UINT64_MAX;
}

/* A decision that no limit made, by a list for example, has no numbers either. */
static inline bool rn_answer_is_counted(const struct ration_outcome *o)
{
    return o->kind == RATION_BY_LIMITS && rn_answer_has_numbers(&o->decision.verdict);
}

/* By an operator, or by a rule with `escalate`. */
static inline bool rn_answer_is_banned(const struct ration_outcome *o)
{
    return o->kind == RATION_BY_BAN || o->kind == RATION_BY_ESCALATION;
}

/* Whole seconds, rounded up. */
static inline uint64_t rn_answer_seconds(int64_t ns)
{
    return ns <= 0 ? 0 : ((uint64_t)ns - 1) / 1000000000 + 1;
}

/* The Unix time `after_ns` after the decision, in whole seconds rounded up. */
static inline uint64_t rn_answer_epoch(const struct rn_answer_extra *extra, int64_t after_ns)
{
    int64_t ns;

    return rn_answer_seconds(__builtin_add_overflow(extra->wall_ns, after_ns, &ns) ? INT64_MAX
                                                                                   : ns);
}

#endif
