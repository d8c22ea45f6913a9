/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts over time, in at most RN_TREND_COLUMNS columns of one width: it doubles as often as the
 * time that passes asks for it.
 */
#ifndef RN_CLI_REPLAY_TREND_H
#define RN_CLI_REPLAY_TREND_H

#include <stddef.h>
#include <stdint.h>

#define RN_TREND_COLUMNS 180

enum rn_trend_row {
    RN_TREND_ALLOWED,
    RN_TREND_DELAYED,
    RN_TREND_REFUSED,
    RN_TREND_REFUSED_BEFORE, /* by the rules that those are compared with */
    RN_TREND_ROWS
};

struct rn_trend {
    int64_t from_ns, width_ns; /* width 0: nothing counted yet */
    size_t count;              /* columns in use */
    uint64_t values[RN_TREND_ROWS][RN_TREND_COLUMNS];
};

void rn_trend_add(struct rn_trend *trend, enum rn_trend_row row, int64_t now_ns);
/* The column with most of a row. */
size_t rn_trend_peak(const struct rn_trend *trend, enum rn_trend_row row);

#endif
