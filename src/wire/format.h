/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes into reserved room: the caller reserves once for several pieces of known length. Each
 * function returns where the next piece goes.
 *
 *     char *to = rn_buf_reserve(out, 40);
 *     if (!to)
 *         return;
 *     to = RN_FORMAT_LITERAL(to, "n=");
 *     rn_format_done(out, rn_format_u64(to, n));
 */
#ifndef RN_WIRE_FORMAT_H
#define RN_WIRE_FORMAT_H

#include <assert.h>
#include <stdint.h>
#include <string.h>

#include "base/buf.h"

#define RN_FORMAT_U64_MAX 20     /* bytes that a number needs */
#define RN_FORMAT_SECONDS_MAX 24 /* bytes that seconds need */

#define RN_FORMAT_LITERAL(to, literal) rn_format_bytes(to, "" literal, sizeof(literal) - 1)

static inline char *rn_format_bytes(char *to, const char *from, size_t len)
{
    memcpy(to, from, len);
    return to + len;
}

/* The eight digits of a number below 10^8 as bytes 0 to 9, in the order of memory. The number is
 * split into halves of four digits, then pairs, then digits, all at once: x * 10486 >> 20 is
 * x / 100 below 10^4, x * 103 >> 10 is x / 10 below 100, and no product overflows into the next
 * part. */
static inline uint64_t rn_format_split(uint32_t n)
{
    uint64_t halves = n / 10000 | (uint64_t)(n % 10000) << 32;
    uint64_t hundreds = (halves * 10486 >> 20) & UINT64_C(0x0000007f0000007f);
    uint64_t pairs = hundreds | (halves - 100 * hundreds) << 16;
    uint64_t tens = (pairs * 103 >> 10) & UINT64_C(0x000f000f000f000f);

    return tens | (pairs - 10 * tens) << 8;
}

/* The same for the four digits of a number below 10^4. */
static inline uint32_t rn_format_split4(uint32_t n)
{
    uint32_t hundreds = n * 10486 >> 20, pairs = hundreds | (n - 100 * hundreds) << 16;
    uint32_t tens = (pairs * 103 >> 10) & 0x000f000f;

    return tens | (pairs - 10 * tens) << 8;
}

/* Writes eight digits from rn_format_split. */
static inline void rn_format_store(char *to, uint64_t digits)
{
    digits |= UINT64_C(0x3030303030303030);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    digits = __builtin_bswap64(digits);
#endif
    memcpy(to, &digits, sizeof digits);
}

/* For rn_format_u64: a number of five to eight digits, and one of more. */
static inline char *rn_format_eight(char *to, uint32_t n)
{
    uint64_t digits = rn_format_split(n);
    int zeros = __builtin_ctzll(digits) / 8;

    rn_format_store(to, digits >> 8 * zeros);
    return to + 8 - zeros;
}
char *rn_format_long(char *to, uint64_t n);

static inline void rn_format_store4(char *to, uint32_t digits)
{
    digits |= UINT32_C(0x30303030);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    digits = __builtin_bswap32(digits);
#endif
    memcpy(to, &digits, sizeof digits);
}

/* Needs room for RN_FORMAT_U64_MAX bytes, however small the number: it also overwrites bytes after
 * the digits. */
static inline char *rn_format_u64(char *to, uint64_t n)
{
    if (n < 10) {
        *to = (char)('0' + n);
        return to + 1;
    }
    if (n < 10000) {
        uint32_t digits = rn_format_split4((uint32_t)n);
        int zeros = __builtin_ctz(digits) / 8;

        rn_format_store4(to, digits >> 8 * zeros);
        return to + 4 - zeros;
    }
    return n < 100000000 ? rn_format_eight(to, (uint32_t)n) : rn_format_long(to, n);
}

/* At most three digits after the point, rounded up. Below 0: 0. Needs room for
 * RN_FORMAT_SECONDS_MAX bytes. */
static inline char *rn_format_seconds(char *to, int64_t ns)
{
    uint64_t ms = ((uint64_t)ns + 999999) / 1000000;
    unsigned part = (unsigned)(ms % 1000);

    if (ns <= 0) {
        *to = '0';
        return to + 1;
    }
    to = rn_format_u64(to, ms / 1000);
    if (part == 0)
        return to;
    *to = '.';
    rn_format_store4(to + 1, rn_format_split4(part * 10));
    return to + 4 - (part % 10 == 0) - (part % 100 == 0);
}

static inline void rn_format_done(struct rn_buf *out, const char *to)
{
    out->len = (size_t)(to - out->data);
    assert(out->len <= out->size);
}

#endif
