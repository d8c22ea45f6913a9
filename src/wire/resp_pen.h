/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pieces of replies of the Redis protocol, written where there is room; see wire/pen.h.
 */
#ifndef RN_WIRE_RESP_PEN_H
#define RN_WIRE_RESP_PEN_H

#include "wire/pen.h"

#define RN_RESP_PEN_MAX 24 /* a type, a number of up to 20 digits with its sign, CR LF */

static inline char *rn_resp_pen_crlf(char *to)
{
    return RN_PEN_LITERAL(to, "\r\n");
}

/* A type and a number: what most replies begin with. */
static inline char *rn_resp_pen_head(char *to, char type, uint64_t n)
{
    *to++ = type;
    return rn_resp_pen_crlf(rn_pen_u64(to, n));
}

static inline char *rn_resp_pen_integer(char *to, int64_t n)
{
    if (n >= 0)
        return rn_resp_pen_head(to, ':', (uint64_t)n);
    to = RN_PEN_LITERAL(to, ":-");
    return rn_resp_pen_crlf(rn_pen_u64(to, -(uint64_t)n));
}

#endif
