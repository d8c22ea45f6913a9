/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Times as access logs have them: 19/Nov/2026:21:13:23 +0000 with or without milliseconds,
 * 2026-11-19T21:13:23.123Z, and seconds, milliseconds, microseconds or nanoseconds since 1970.
 * Without an offset they are UTC.
 */
#ifndef RN_CLI_LOGS_MOMENT_H
#define RN_CLI_LOGS_MOMENT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

/* How fine times are written. */
enum rn_moment_grain { RN_MOMENT_SECONDS, RN_MOMENT_MILLISECONDS, RN_MOMENT_FINER };

/* The date and time of the last line: the next one mostly has the same, or the same day. */
struct rn_moment_memory {
    char text[32];
    uint8_t len;
    int64_t ns;
    enum rn_moment_grain grain;
};

/* False: it is none of these. Brackets around it are ignored. */
bool rn_moment_parse(struct rn_moment_memory *memory, struct rn_slice text, int64_t *ns,
                     enum rn_moment_grain *grain);
/* A number with or without decimals, times `unit_ns`. False: no such number, or above 2^62 ns. */
bool rn_moment_parse_length(struct rn_slice text, int64_t unit_ns, int64_t *ns);

#endif
