/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a well-behaved client has earned: more of a rule's limit, in percent. Pure arithmetic on two
 * words of one client: its earned record, and its lapses, the refusals that count for `lost_by`.
 *
 *   percent                        lost_after refusals
 *     up_to         ┌────────────┐ within lost_within
 *             ┌─────┘            │
 *     100 ────┘                  └─────── the period begins again
 *         ^every ^every
 *
 * - The first admission opens a period. An admission `every` or more after its start earns one
 *   step and opens the next. So a time without admissions earns nothing.
 * - The first refusal opens a window of `lost_within`; `lost_after` refusals in it lose all steps,
 *   and the period starts again.
 * - A record is forgotten when `every` + `forget` have passed since its period opened.
 *
 * Rounding. The start of a period and of a window is rounded down to a tick of record.h: a step
 * comes, and a window ends, up to 67 ms early. The time until a record is forgotten is rounded up
 * to hours. All of this is in favour of the client.
 *
 * Clock. A clock that steps back to before the start of a period moves the start to the time of the
 * next admission. Before the start of a window it opens a new one: whatever the clock does,
 * refusals that lose the steps were less than `lost_within` apart by the clock.
 */
#ifndef RN_CORE_EARN_H
#define RN_CORE_EARN_H

#include "core/record.h"

/* `earn` of a rule. */
struct rn_earn_plan {
    int64_t every_ns;
    uint16_t add, up_to; /* percent */
    uint32_t lost_after; /* refusals */
    int64_t lost_within_ns;
    int64_t forget_ns;
};

#define RN_EARN_HOUR_NS (INT64_C(3600) * 1000000000)

/* Whether an earned record is not forgotten. A word of another kind, such as 0, is a client that is
 * not known. */
static inline bool rn_earn_is_known(uint64_t earned, int64_t now_ns)
{
    int64_t life_ns = (int64_t)((uint32_t)earned >> RN_RECORD_LIFE_AT) * RN_EARN_HOUR_NS;

    return rn_record_kind(earned) == RN_RECORD_EARNED &&
           now_ns - rn_record_time(earned, now_ns) < life_ns;
}

/* How many percent of the limit the client has, at least 100. */
static inline unsigned rn_earn_percent(const struct rn_earn_plan *plan, uint64_t earned,
                                       int64_t now_ns)
{
    unsigned percent = rn_earn_is_known(earned, now_ns) ? 100 + rn_record_surplus(earned) : 100;

    return percent < plan->up_to ? percent : plan->up_to;
}

/* Whether the period of a record that is known goes on: an admission changes nothing. */
static inline bool rn_earn_goes_on(const struct rn_earn_plan *plan, uint64_t earned, int64_t now_ns)
{
    int64_t age_ns = now_ns - rn_record_time(earned, now_ns);

    return age_ns >= 0 && age_ns < plan->every_ns && rn_earn_is_known(earned, now_ns);
}

/* The earned record after an admission. The same word: there is nothing to write. */
uint64_t rn_earn_admit(const struct rn_earn_plan *plan, uint64_t earned, int64_t now_ns);

/* The lapses after a refusal. 0: that was one too many, and the earned record is lost. */
uint64_t rn_earn_refuse(const struct rn_earn_plan *plan, uint64_t lapses, int64_t now_ns);

/* The earned record after that. The same word: there was nothing to lose. */
uint64_t rn_earn_lose(const struct rn_earn_plan *plan, uint64_t earned, int64_t now_ns);

#endif
