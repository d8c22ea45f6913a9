/* SPDX-License-Identifier: Apache-2.0 */
#include "core/escalate.h"

static uint64_t pack(int64_t time_ns, uint64_t span, uint32_t refusals, uint32_t level)
{
    return rn_record_stamp(time_ns) | (span & RN_RECORD_SPAN_MAX) << RN_RECORD_SPAN_AT |
           (uint64_t)refusals << RN_RECORD_REFUSALS_AT | (uint64_t)level << RN_RECORD_LEVEL_AT |
           RN_RECORD_OFFENCES;
}

static uint64_t pack_ban(const struct rn_escalate_plan *plan, uint32_t level, int64_t rest_ns,
                         int64_t now_ns)
{
    int64_t ends_ns = now_ns + rest_ns;

    return pack(ends_ns, (uint64_t)(ends_ns + plan->forget_ns) >> RN_RECORD_FORGET_BITS, 0, level);
}

uint64_t rn_escalate_refuse(const struct rn_escalate_plan *plan, uint64_t word, int64_t now_ns)
{
    bool known = rn_record_kind(word) == RN_RECORD_OFFENCES;
    uint32_t refusals = known ? rn_record_refusals(word) : 0;
    uint32_t level = known ? rn_record_level(word) : 0;
    int64_t time_ns = rn_record_time(word, now_ns);

    if (rn_escalate_rest_ns(plan, word, now_ns) != 0)
        return word;
    if (level != 0 && now_ns >= rn_record_forgotten(word, time_ns))
        level = 0;
    if (refusals == 0 || now_ns < time_ns || now_ns - time_ns >= plan->within_ns) {
        refusals = 0;
        time_ns = now_ns;
    }
    if (++refusals >= plan->after) {
        level = level < RN_LEVELS - 1 ? level + 1 : level;
        return pack_ban(plan, level, plan->ban_ns[level], now_ns);
    }
    uint64_t length = (((uint64_t)plan->within_ns - 1) >> RN_RECORD_WINDOW_BITS) + 1;

    return pack(time_ns, level != 0 ? rn_record_span(word) : length, refusals, level);
}

uint64_t rn_escalate_ban(const struct rn_escalate_plan *plan, uint32_t level, int64_t rest_ns,
                         int64_t now_ns)
{
    level = level < RN_LEVELS ? level : RN_LEVELS - 1;
    if (rest_ns > plan->ban_ns[level])
        rest_ns = plan->ban_ns[level];
    return pack_ban(plan, level, rest_ns, now_ns);
}
