/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The arithmetic of earned records and lapses; what it promises is in the header.
 * limiter/reputation/ keeps the words and calls it.
 */
#include "core/earn.h"

#define WRITTEN 100U /* percent */

/* A period that opens now. Its start is rounded down by up to one tick, which its life makes up
 * for. */
static uint64_t open_period(const struct rn_earn_plan *plan, uint32_t surplus, int64_t now_ns)
{
    int64_t life_ns = plan->every_ns + plan->forget_ns + RN_RECORD_TICK_NS;
    uint64_t hours = (uint64_t)((life_ns + RN_EARN_HOUR_NS - 1) / RN_EARN_HOUR_NS);

    return rn_record_stamp(now_ns) | hours << RN_RECORD_LIFE_AT |
           (uint64_t)surplus << RN_RECORD_SURPLUS_AT | RN_RECORD_EARNED;
}

uint64_t rn_earn_admit(const struct rn_earn_plan *plan, uint64_t earned, int64_t now_ns)
{
    if (!rn_earn_is_known(earned, now_ns))
        return open_period(plan, 0, now_ns);
    uint32_t surplus = rn_record_surplus(earned), most = plan->up_to - WRITTEN;

    if (rn_earn_goes_on(plan, earned, now_ns))
        return earned;
    if (now_ns < rn_record_time(earned, now_ns)) /* the clock has stepped back */
        return open_period(plan, surplus, now_ns);
    surplus += plan->add;
    return open_period(plan, surplus < most ? surplus : most, now_ns);
}

uint64_t rn_earn_refuse(const struct rn_earn_plan *plan, uint64_t lapses, int64_t now_ns)
{
    uint64_t length = (((uint64_t)plan->lost_within_ns - 1) >> RN_RECORD_LAPSES_BITS) + 1;
    uint64_t stamp = rn_record_stamp(now_ns);
    uint64_t refusals = 1;
    int64_t age_ns = now_ns - rn_record_time(lapses, now_ns);

    if (rn_record_kind(lapses) == RN_RECORD_LAPSES && age_ns >= 0 &&
        age_ns < plan->lost_within_ns) {
        refusals += rn_record_refusals(lapses);
        stamp = lapses >> 32 << 32;
    }
    if (refusals >= plan->lost_after)
        return 0;
    return stamp | length << RN_RECORD_SPAN_AT | refusals << RN_RECORD_REFUSALS_AT |
           RN_RECORD_LAPSES;
}

uint64_t rn_earn_lose(const struct rn_earn_plan *plan, uint64_t earned, int64_t now_ns)
{
    return rn_earn_is_known(earned, now_ns) ? open_period(plan, 0, now_ns) : earned;
}
