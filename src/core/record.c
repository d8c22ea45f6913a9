/* SPDX-License-Identifier: Apache-2.0 */
#include "core/record.h"

static void view_offences(uint64_t word, int64_t now_ns, struct rn_record_view *v)
{
    uint32_t level = rn_record_level(word), refusals = rn_record_refusals(word);
    int64_t age_ns = now_ns - v->since_ns;
    bool kept = level != 0 && now_ns < rn_record_forgotten(word, v->since_ns);

    if (refusals == 0) {
        v->banned = level != 0 && age_ns < 0 && -age_ns <= RN_RECORD_BAN_MAX_NS + RN_RECORD_SKEW_NS;
        v->ends_ns = v->banned ? v->since_ns : 0;
    } else if (level == 0) {
        int64_t length_ns = (int64_t)(rn_record_span(word) << RN_RECORD_WINDOW_BITS);

        kept = age_ns < length_ns && age_ns >= -RN_RECORD_SKEW_NS;
    }
    v->live = kept || v->banned;
    v->level = v->live ? level : 0;
    v->refusals = v->live ? refusals : 0;
}

static void view_earned(uint64_t word, int64_t now_ns, struct rn_record_view *v)
{
    const int64_t hour_ns = INT64_C(3600) * 1000000000;

    v->live = now_ns - v->since_ns < (int64_t)((uint32_t)word >> RN_RECORD_LIFE_AT) * hour_ns;
    v->percent = v->live ? 100 + rn_record_surplus(word) : 100;
}

static void view_lapses(uint64_t word, int64_t now_ns, struct rn_record_view *v)
{
    int64_t life_ns = (int64_t)(rn_record_span(word) << RN_RECORD_LAPSES_BITS);

    v->live = now_ns - v->since_ns < life_ns;
    v->refusals = v->live ? rn_record_refusals(word) : 0;
}

void rn_record_view(uint64_t word, int64_t now_ns, struct rn_record_view *v)
{
    *v = (struct rn_record_view){
        .kind = rn_record_kind(word), .percent = 100, .since_ns = rn_record_time(word, now_ns)};
    switch (v->kind) {
    case RN_RECORD_OFFENCES:
        view_offences(word, now_ns, v);
        return;
    case RN_RECORD_EARNED:
        view_earned(word, now_ns, v);
        return;
    case RN_RECORD_LAPSES:
        view_lapses(word, now_ns, v);
        return;
    case RN_RECORD_NONE:
        return;
    }
}

/* class (8 bits) | worth within the class (16 bits) | ticks (40 bits) */
static uint64_t rank(uint64_t class, uint32_t worth, int64_t time_ns)
{
    return class << 56 | (uint64_t)worth << 40 | (uint64_t)time_ns >> RN_RECORD_TICK_BITS;
}

uint64_t rn_record_rank(uint64_t word, int64_t now_ns)
{
    enum { COUNTS = 1, LEVELS, EARNED, BANS };
    struct rn_record_view v;

    rn_record_view(word, now_ns, &v);
    if (!v.live)
        return 0;
    int64_t recent_ns = v.since_ns - now_ns + RN_RECORD_AHEAD_NS; /* the newer, the more */

    recent_ns = recent_ns > 0 ? recent_ns : 0;
    if (v.banned)
        return rank(BANS, v.level, v.ends_ns - now_ns);
    if (v.percent != 100)
        return rank(EARNED, v.percent, recent_ns);
    if (v.kind == RN_RECORD_EARNED) /* the longer under way, the closer to the first step */
        return rank(COUNTS, 0, v.since_ns < now_ns ? now_ns - v.since_ns : 1);
    return v.level != 0 ? rank(LEVELS, v.level, recent_ns) : rank(COUNTS, v.refusals, recent_ns);
}
