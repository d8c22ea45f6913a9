/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes pieces of replies of the Redis protocol into reserved room; see wire/format.h. Each needs
 * room for RN_RESP_FORMAT_MAX bytes, and for its text. `version` is 2 or 3.
 */
#ifndef RN_WIRE_RESP_FORMAT_H
#define RN_WIRE_RESP_FORMAT_H

#include "wire/format.h"

/* A type, a number of up to 20 digits, CR LF; or seconds as text in RESP2. */
#define RN_RESP_FORMAT_MAX 48

/* A constant name as a bulk string; does not compile unless `size` is its length. */
#define RN_RESP_FORMAT_NAME(to, size, name)                                                        \
    (RN_FORMAT_LITERAL(to, "$" #size "\r\n" name "\r\n") +                                         \
     0 * sizeof(char[sizeof(name) - 1 == (size) ? 1 : -1]))

static inline char *rn_resp_format_crlf(char *to)
{
    return RN_FORMAT_LITERAL(to, "\r\n");
}

/* A type and a number, with which most replies begin. */
static inline char *rn_resp_format_head(char *to, char type, uint64_t n)
{
    *to++ = type;
    return rn_resp_format_crlf(rn_format_u64(to, n));
}

static inline char *rn_resp_format_integer(char *to, int64_t n)
{
    if (n >= 0)
        return rn_resp_format_head(to, ':', (uint64_t)n);
    to = RN_FORMAT_LITERAL(to, ":-");
    return rn_resp_format_crlf(rn_format_u64(to, -(uint64_t)n));
}

static inline char *rn_resp_format_bulk(char *to, struct rn_slice text)
{
    to = rn_resp_format_head(to, '$', text.len);
    if (text.len > 0)
        to = rn_format_bytes(to, text.data, text.len);
    return rn_resp_format_crlf(to);
}

static inline char *rn_resp_format_null(char *to, int version)
{
    return version >= 3 ? RN_FORMAT_LITERAL(to, "_\r\n") : RN_FORMAT_LITERAL(to, "$-1\r\n");
}

/* RESP2: 1 or 0. */
static inline char *rn_resp_format_bool(char *to, int version, bool value)
{
    if (version < 3)
        return value ? RN_FORMAT_LITERAL(to, ":1\r\n") : RN_FORMAT_LITERAL(to, ":0\r\n");
    return value ? RN_FORMAT_LITERAL(to, "#t\r\n") : RN_FORMAT_LITERAL(to, "#f\r\n");
}

/* Seconds as a decimal of at most three digits (1, 0.5, 12.025), rounded up to the
 * millisecond, not below 0; RESP3 double, RESP2 bulk. */
static inline char *rn_resp_format_seconds(char *to, int version, int64_t ns)
{
    char text[RN_FORMAT_SECONDS_MAX];

    if (version >= 3) {
        *to++ = ',';
        return rn_resp_format_crlf(rn_format_seconds(to, ns));
    }
    if (ns <= 0)
        return RN_RESP_FORMAT_NAME(to, 1, "0");
    size_t len = (size_t)(rn_format_seconds(text, ns) - text);

    to = rn_resp_format_head(to, '$', len);
    memcpy(to, text, sizeof text); /* a constant size; the next piece overwrites the rest */
    return rn_resp_format_crlf(to + len);
}

#endif
