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

extern const uint64_t rn_pen_powers[RN_PEN_U64_MAX]; /* of ten; the first is 0 */
extern const char rn_pen_pairs[];                    /* "00", "01", ... "99" */

/* 1233 / 4096 is a little more than log10(2): the digits of the least number of so
 * many bits, less one; the number itself may have one more. */
static inline unsigned rn_pen_digits(uint64_t n)
{
    unsigned bits = 64 - (unsigned)__builtin_clzll(n | 1), digits = bits * 1233 >> 12;

    return digits + (n >= rn_pen_powers[digits]);
}

static inline char *rn_pen_u64(char *to, uint64_t n)
{
    char *end = to + rn_pen_digits(n), *p = end;

    for (; n >= 100; n /= 100)
        memcpy(p -= 2, rn_pen_pairs + 2 * (n % 100), 2);
    if (n >= 10)
        memcpy(p - 2, rn_pen_pairs + 2 * n, 2);
    else
        p[-1] = (char)('0' + n);
    return end;
}

/* At most three digits behind the point, rounded up. Below 0: 0. */
static inline char *rn_pen_seconds(char *to, int64_t ns)
{
    uint64_t ms = ((uint64_t)ns + 999999) / 1000000;
    unsigned part = (unsigned)(ms % 1000);

    if (ns <= 0) {
        *to = '0';
        return to + 1;
    }
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
