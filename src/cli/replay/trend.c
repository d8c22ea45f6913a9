/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/replay/trend.h"

#include <string.h>

#define SECOND INT64_C(1000000000)

/* Two columns become one. */
static void widen(struct rn_trend *t)
{
    for (int row = 0; row < RN_TREND_ROWS; row++) {
        uint64_t *v = t->values[row];

        for (size_t i = 0; i < RN_TREND_COLUMNS / 2; i++)
            v[i] = v[2 * i] + v[2 * i + 1];
        memset(v + RN_TREND_COLUMNS / 2, 0, RN_TREND_COLUMNS / 2 * sizeof *v);
    }
    t->width_ns *= 2;
    t->count = (t->count + 1) / 2;
}

void rn_trend_add(struct rn_trend *t, enum rn_trend_row row, int64_t now_ns)
{
    size_t column;

    if (t->width_ns == 0) {
        t->width_ns = SECOND;
        t->from_ns = now_ns - now_ns % SECOND;
    }
    if (now_ns < t->from_ns)
        return;
    while ((now_ns - t->from_ns) / t->width_ns >= RN_TREND_COLUMNS)
        widen(t);
    column = (size_t)((now_ns - t->from_ns) / t->width_ns);
    t->values[row][column]++;
    t->count = column >= t->count ? column + 1 : t->count;
}

size_t rn_trend_peak(const struct rn_trend *t, enum rn_trend_row row)
{
    size_t peak = 0;

    for (size_t i = 1; i < t->count; i++)
        if (t->values[row][i] > t->values[row][peak])
            peak = i;
    return peak;
}
