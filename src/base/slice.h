/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Borrowed text: a pointer and a length, not terminated. An empty slice may have a NULL
 * pointer; where a header says so, that means absent.
 */
#ifndef RN_BASE_SLICE_H
#define RN_BASE_SLICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define RN_COUNT(array) (sizeof(array) / sizeof((array)[0]))

struct rn_slice {
    const char *data;
    size_t len;
};

/* Of a string literal. RN_SLICE_INIT also initialises static data. */
#define RN_SLICE_INIT(literal)                                                                     \
    {                                                                                              \
        "" literal, sizeof(literal) - 1                                                            \
    }
#define RN_SLICE(literal) ((struct rn_slice)RN_SLICE_INIT(literal))

static inline struct rn_slice rn_slice_of(const char *text)
{
    return (struct rn_slice){text, strlen(text)};
}

static inline uint64_t rn_slice_load8(const char *p)
{
    uint64_t bytes;

    memcpy(&bytes, p, sizeof bytes);
    return bytes;
}

/* Whether two texts of this length are equal. Inline, for short texts that mostly are. */
static inline bool rn_slice_repeats(const char *a, const char *b, size_t len)
{
    if (len < 8)
        return len == 0 || memcmp(a, b, len) == 0;
    for (; len > 8; a += 8, b += 8, len -= 8)
        if (rn_slice_load8(a) != rn_slice_load8(b))
            return false;
    return rn_slice_load8(a + len - 8) == rn_slice_load8(b + len - 8); /* may overlap */
}

/* Uses the length of `b`, which the compiler may know. */
static inline bool rn_slice_equal(struct rn_slice a, struct rn_slice b)
{
    return a.len == b.len && (b.len == 0 || memcmp(a.data, b.data, b.len) == 0);
}

static inline bool rn_slice_is(struct rn_slice a, const char *text)
{
    return rn_slice_equal(a, rn_slice_of(text));
}

/* The index of the word that equals the slice; `count` if none does. */
static inline size_t rn_slice_find(struct rn_slice a, const char *const *words, size_t count)
{
    size_t i = 0;

    while (i < count && !rn_slice_is(a, words[i]))
        i++;
    return i;
}

static inline bool rn_slice_starts_with(struct rn_slice a, struct rn_slice prefix)
{
    return a.len >= prefix.len && (prefix.len == 0 || memcmp(a.data, prefix.data, prefix.len) == 0);
}

/* Copies into `size` bytes including the NUL; cuts to fit, never within a UTF-8 character. */
static inline void rn_slice_copy(char *out, size_t size, struct rn_slice text)
{
    size_t len = text.len < size ? text.len : size - 1;

    while (len < text.len && len > 0 && ((unsigned char)text.data[len] & 0xC0) == 0x80)
        len--;
    if (len != 0)
        memcpy(out, text.data, len);
    out[len] = '\0';
}

/* By bytes; a prefix comes first. Negative, 0 or positive. */
static inline int rn_slice_compare(struct rn_slice a, struct rn_slice b)
{
    size_t shorter = a.len < b.len ? a.len : b.len;
    int order = shorter == 0 ? 0 : memcmp(a.data, b.data, shorter);

    return order != 0 ? order : (a.len > b.len) - (a.len < b.len);
}

#endif
