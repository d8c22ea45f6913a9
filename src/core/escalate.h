/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bans that grow for clients that offend again: arithmetic on the offence record of one client
 * under one rule (record.h). Pure: no clock, no memory.
 *
 *   refusals  x xxx     x x x│                   │     x x x x│
 *   windows   [────)    [────│ ban of ban_ns[1]  │     [──────│ ban of ban_ns[2]  │ ... forgotten
 *                            └───────────────────┘            └───────────────────┴─ forget_ns ─>
 *
 * The first refusal opens a window, which lasts within_ns. `after` refusals in one window begin a
 * ban, one level above the last one. Refusals during a ban count nothing. A level is forgotten if
 * no ban has begun within forget_ns after the end of the last one.
 *
 * How times are rounded: the start of a window and the end of a ban down to a tick (67 ms), the
 * time at which a level is forgotten down to 2^40 ns (18 minutes). So all refusals that led to a
 * ban lie within less than within_ns, no ban is longer than the plan says, and no level is kept for
 * longer.
 *
 * If the clock steps: a refusal before the start of the window opens another one. A ban has
 * ended if more than a whole ban of its level, in the plan in force, would be left of it.
 */
#ifndef RN_CORE_ESCALATE_H
#define RN_CORE_ESCALATE_H

#include "core/record.h"

struct rn_escalate_plan {
    uint32_t after;    /* refusals, 1 to 1000, */
    int64_t within_ns; /* in a window of 1 s to 24 h */
    int64_t
        ban_ns[RN_LEVELS]; /* by level, 1 s to 365 days, never less than the one before; [0]: 0 */
    int64_t forget_ns;     /* 1 h to 365 days */
};

/* How long the client is still banned; 0: it is not. `word` may be 0 or of any kind. */
static inline int64_t rn_escalate_rest_ns(const struct rn_escalate_plan *plan, uint64_t word,
                                          int64_t now_ns)
{
    if (__builtin_expect(word == 0, 1) || rn_record_refusals(word) != 0 ||
        rn_record_kind(word) != RN_RECORD_OFFENCES)
        return 0;
    int64_t rest_ns = rn_record_time(word, now_ns) - now_ns;

    int64_t whole_ns = plan->ban_ns[rn_record_level(word)];

    if (rest_ns <= 0 || rest_ns > whole_ns + RN_RECORD_SKEW_NS)
        return 0;
    return rest_ns < whole_ns ? rest_ns : whole_ns;
}

/* The record after a refusal at `now_ns`; the same word: nothing to write. If a ban begins, it is
 * in force: rn_escalate_rest_ns(plan, result, now_ns) is not 0, and was 0 before. */
uint64_t rn_escalate_refuse(const struct rn_escalate_plan *plan, uint64_t word, int64_t now_ns);

/* The record of a ban of this level, 1 or more, with `rest_ns` left, at most a whole ban of the
 * level: of another node. */
uint64_t rn_escalate_ban(const struct rn_escalate_plan *plan, uint32_t level, int64_t rest_ns,
                         int64_t now_ns);

#endif
