/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writing where there is room: a buffer is asked once for a few pieces of known
 * length, and not for each. Every function returns where the next piece goes.
 *
 *     char *to = rn_buf_reserve(out, 40);
 *     if (!to)
 *         return;
 *     to = RN_PEN_LITERAL(to, "n=");
 *     rn_pen_done(out, rn_pen_u64(to, n));
 */
#ifndef RN_WIRE_PEN_H
#define RN_WIRE_PEN_H

#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"

#define RN_PEN_U64_MAX 20     /* bytes of a number */
#define RN_PEN_SECONDS_MAX 24 /* bytes of seconds */

#define RN_PEN_LITERAL(to, literal) rn_pen_bytes(to, "" literal, sizeof(literal) - 1)

static inline char *rn_pen_bytes(char *to, const char *from, size_t len)
{
    memcpy(to, from, len);
    return to + len;
}

static inline char *rn_pen_u64(char *to, uint64_t n)
{
    unsigned digits = 1;

    for (uint64_t least = 10; n >= least; least *= 10)
        if (++digits == RN_PEN_U64_MAX)
            break;
    for (char *p = to + digits; p > to; n /= 10)
        *--p = (char)('0' + n % 10);
    return to + digits;
}

/* At most three digits behind the point, rounded up. Below 0: 0. */
static inline char *rn_pen_seconds(char *to, int64_t ns)
{
    uint64_t ms = ns <= 0 ? 0 : (uint64_t)ns / 1000000 + (ns % 1000000 != 0);
    unsigned part = (unsigned)(ms % 1000);

    to = rn_pen_u64(to, ms / 1000);
    if (part == 0)
        return to;
    *to++ = '.';
    for (; part != 0; part = part % 100 * 10)
        *to++ = (char)('0' + part / 100);
    return to;
}

static inline void rn_pen_done(struct rn_buf *out, const char *to)
{
    out->len = (size_t)(to - out->data);
    assert(out->len <= out->size);
}

#endif
