/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Classes of bytes in a request's head (RFC 9110 §5.6, RFC 3986). A line is followed by its CR,
 * which is in no class.
 */
#ifndef RN_WIRE_HTTP_TEXT_H
#define RN_WIRE_HTTP_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

enum {
    RN_HTTP_TOKEN = 1,  /* the name of a header */
    RN_HTTP_TARGET = 2, /* a target: visible ASCII but # */
    RN_HTTP_HOST = 4,   /* a host name or IPv4 address */
    RN_HTTP_METHOD = 8, /* capitals and - */
};

extern const uint8_t rn_http_class[256];

/* The first byte from `p` on that is not in the class. The CR after the line ends the loop. */
static inline const char *rn_http_pass(const char *p, unsigned class)
{
    for (;; p += 4) {
        if (!(rn_http_class[(unsigned char)p[0]] & class))
            return p;
        if (!(rn_http_class[(unsigned char)p[1]] & class))
            return p + 1;
        if (!(rn_http_class[(unsigned char)p[2]] & class))
            return p + 2;
        if (!(rn_http_class[(unsigned char)p[3]] & class))
            return p + 3;
    }
}

/* Eight bytes or four, with the bit set that makes a letter lower case. */
static inline uint64_t small8(const char *p)
{
    uint64_t bytes;

    memcpy(&bytes, p, 8);
    return bytes | 0x2020202020202020;
}

static inline uint32_t small4(const char *p)
{
    uint32_t bytes;

    memcpy(&bytes, p, 4);
    return bytes | 0x20202020;
}

/* Compares a text of any case with `word`, which is 4 to 24 bytes, lower case. The text has no
 * control bytes, so that setting the bit makes no other bytes equal. Words of other lengths than
 * 4, 8, 16 or 24 are compared with an overlap. */
static inline bool rn_http_is_word(struct rn_slice text, const char *word, size_t len)
{
    const char *p = text.data;

    if (text.len != len)
        return false;
    if (len < 8)
        return small4(p) == small4(word) && small4(p + len - 4) == small4(word + len - 4);
    if (len > 16 && small8(p + 8) != small8(word + 8))
        return false;
    return small8(p) == small8(word) && small8(p + len - 8) == small8(word + len - 8);
}

#define RN_HTTP_IS(text, literal) rn_http_is_word(text, literal, sizeof(literal) - 1)

static inline struct rn_slice rn_http_between(const char *start, const char *end)
{
    return (struct rn_slice){start, (size_t)(end - start)};
}

static inline bool rn_http_is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* The text from `p` to `end` without white space at either end. *end is CR or a comma. */
static inline struct rn_slice rn_http_trim(const char *p, const char *end)
{
    while (*p == ' ' || *p == '\t')
        p++;
    while (p < end && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    return rn_http_between(p, end);
}

/* Whether the text is a name or address, and perhaps a port (RFC 9110 §7.2). It must be part of a
 * line, and the byte after it must not be in the class of hosts. */
bool rn_http_text_is_host(struct rn_slice text);

#endif
