/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The bytes that a head is made of (RFC 9110 §5.6, RFC 3986), for whoever reads its
 * lines. A line is followed by its CR, which is of no class.
 */
#ifndef RN_WIRE_HTTP_TEXT_H
#define RN_WIRE_HTTP_TEXT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

enum {
    RN_HTTP_TOKEN = 1,  /* of a header's name */
    RN_HTTP_TARGET = 2, /* of a target: visible ASCII but # */
    RN_HTTP_HOST = 4,   /* of a host's name or IPv4 address */
    RN_HTTP_METHOD = 8, /* capitals and - */
};

extern const uint8_t rn_http_class[256];

/* Behind the bytes of that class at p. The CR behind the line is of no class. */
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

/* Eight bytes or four, with the bit set that makes a letter small. */
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

/* Lower-case letters, - and such in `word`, 4 to 24 of them; any case in the text. It
 * has no control bytes, so that setting that bit makes nothing else equal. Where the
 * word is no multiple of what is compared at once, the end overlaps. */
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

/* Without white space at either end. There is none behind it, but a CR or a comma. */
static inline struct rn_slice rn_http_trim(const char *p, const char *end)
{
    while (*p == ' ' || *p == '\t')
        p++;
    while (p < end && (end[-1] == ' ' || end[-1] == '\t'))
        end--;
    return rn_http_between(p, end);
}

/* A name or address and perhaps a port, nothing else (RFC 9110 §7.2). It stands in a
 * line, and what is behind it is of no host. */
bool rn_http_text_is_host(struct rn_slice text);

#endif
