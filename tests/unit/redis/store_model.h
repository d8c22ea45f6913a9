/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A state as Redis holds it, naively: charged by reports whatever is left, aged by the
 * store's clock in whole microseconds, and told in the numbers of scripts/report.lua.
 */
#ifndef TEST_REDIS_STORE_MODEL_H
#define TEST_REDIS_STORE_MODEL_H

#include <string.h>

#include "redis/codec.h"

__extension__ typedef __int128 model_wide;

struct store_model {
    const struct rn_limit *limit;
    struct rn_codec_parts parts; /* of buckets: the unit of what is told */
    long long told[3];
    bool forgiving; /* a planted fault: what exceeds the limit is forgotten */
};

static inline struct store_model store_model_of(const struct rn_limit *limit)
{
    struct store_model m = {.limit = limit};

    if (rn_codec_script(limit) == RN_SCRIPT_BUCKET)
        rn_codec_bucket(limit, &m.parts);
    return m;
}

static inline long long period_us(const struct store_model *m)
{
    return m->limit->period_ns / 1000;
}

static inline void model_age(struct store_model *m, long long now_us)
{
    long long *t = m->told, tick, number;

    if (rn_codec_script(m->limit) == RN_SCRIPT_BUCKET) {
        for (tick = now_us / m->parts.tick_us; t[1] < tick && t[0] > 0;) {
            long long most = t[0] / m->parts.paid + 1,
                      ticks = tick - t[1] < most ? tick - t[1] : most;

            t[0] = t[0] > ticks * m->parts.paid ? t[0] - ticks * m->parts.paid : 0;
            t[1] += ticks;
        }
        t[1] = t[1] > tick ? t[1] : tick;
    } else if (rn_codec_script(m->limit) == RN_SCRIPT_WINDOW) {
        if (t[0] <= now_us)
            t[0] = t[1] = 0;
    } else {
        for (number = now_us / period_us(m); t[0] < number && (t[1] > 0 || t[2] > 0); t[0]++) {
            t[1] = t[2];
            t[2] = 0;
        }
        t[0] = t[0] > number ? t[0] : number;
    }
}

static inline long long model_left(struct store_model *m, long long now_us)
{
    long long *t = m->told;
    model_wide area;

    model_age(m, now_us);
    if (rn_codec_script(m->limit) == RN_SCRIPT_BUCKET) {
        area = (model_wide)m->parts.full - t[0];
        return (long long)(area >= 0 ? area / m->parts.unit
                                     : -((m->parts.unit - 1 - area) / m->parts.unit));
    }
    if (rn_codec_script(m->limit) == RN_SCRIPT_WINDOW)
        return (long long)m->limit->amount - t[1];
    area = ((model_wide)m->limit->amount - t[2]) * period_us(m) -
           (model_wide)t[1] * ((t[0] + 1) * period_us(m) - now_us);
    return (long long)(area >= 0 ? area / period_us(m)
                                 : -((period_us(m) - 1 - area) / period_us(m)));
}

static inline void model_charge(struct store_model *m, long long now_us, long long units)
{
    long long *t = m->told, left = model_left(m, now_us);

    if (m->forgiving && units > left)
        units = left > 0 ? left : 0;
    if (rn_codec_script(m->limit) == RN_SCRIPT_BUCKET) {
        t[0] += units * m->parts.unit;
    } else if (rn_codec_script(m->limit) == RN_SCRIPT_WINDOW) {
        if (units > 0 && t[0] == 0)
            t[0] = m->limit->from_first ? now_us + period_us(m)
                                        : (now_us / period_us(m) + 1) * period_us(m);
        t[1] += units;
    } else {
        t[2] += units;
    }
}

#endif
