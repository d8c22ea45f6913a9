/* SPDX-License-Identifier: Apache-2.0 */
/* What the files that write answers share. */
#ifndef RN_WIRE_ANSWER_INTERNAL_H
#define RN_WIRE_ANSWER_INTERNAL_H

#include "wire/answer.h"
#include "wire/format.h"

/* Rule names as header fields have them: printable ASCII, each only once. A rule
 * with several limits is "api", "api-2", ... */
struct rn_answer_policy_names {
    struct {
        uint8_t len;
        bool plain; /* nothing in it needs a backslash in a string */
        char text[RATION_NAME_SIZE + RN_FORMAT_U64_MAX];
    } items[RATION_OUTCOME_LIMITS]; /* as in outcome->limits */
};

void rn_answer_policy_names_init(struct rn_answer_policy_names *names,
                                 const struct ration_outcome *outcome);

/* The limit that decided; NULL if none did. */
static inline const struct ration_outcome_limit *rn_answer_decider(const struct ration_outcome *o)
{
    int i = o->decision.decided_by;

    return i >= 0 && (uint32_t)i < o->listed ? &o->limits[i] : NULL;
}

/* Unlimited ones have no numbers to tell. */
static inline bool rn_answer_has_numbers(const struct ration_verdict *v)
{
    return v->limit != UINT64_MAX;
}

/* Nor has a decision that no limit made: by a list, say. */
static inline bool rn_answer_is_counted(const struct ration_outcome *o)
{
    return o->kind == RATION_BY_LIMITS && rn_answer_has_numbers(&o->decision.verdict);
}

/* Whole seconds, rounded up. */
static inline uint64_t rn_answer_seconds(int64_t ns)
{
    return ns <= 0 ? 0 : ((uint64_t)ns - 1) / 1000000000 + 1;
}

/* The Unix time, in whole seconds rounded up, of something so long from now. */
static inline uint64_t rn_answer_epoch(const struct rn_answer_extra *extra, int64_t after_ns)
{
    int64_t ns;

    return rn_answer_seconds(__builtin_add_overflow(extra->wall_ns, after_ns, &ns) ? INT64_MAX
                                                                                   : ns);
}

#endif
