/* SPDX-License-Identifier: Apache-2.0 */
/* Shared by the files of the JSON reader. Offsets are from json->text. */
#ifndef RN_WIRE_JSON_INTERNAL_H
#define RN_WIRE_JSON_INTERNAL_H

#ifdef __SSE2__
#include <emmintrin.h>
#endif
#include <string.h>

#include "wire/json.h"

/* Whether a byte is plain, that is, needs no escape in a string: ASCII but for control characters,
 * the quote and the backslash. */
extern const bool rn_json_plain[256];

/* Takes eight bytes, the first in the lowest bits. Sets the top bit of the first byte that is not
 * plain, and perhaps of later ones; 0: all are plain. The subtraction sets the top bit of a byte
 * below 0x20, or equal to the quote or the backslash, and borrows from the next byte only then. */
static inline uint64_t rn_json_mark_special(uint64_t bytes)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);

    return ((bytes - ones * 0x20) | ((bytes ^ ones * '"') - ones) | ((bytes ^ ones * '\\') - ones) |
            bytes) &
           ones << 7;
}

#ifdef __SSE2__
/* The same for sixteen bytes, with one exact bit for each. As signed numbers, bytes above 0x7f are
 * below the space, as control characters are. */
static inline unsigned rn_json_mark_special16(const char *p)
{
    __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)p);
    __m128i low = _mm_cmplt_epi8(bytes, _mm_set1_epi8(0x20));
    __m128i quotes = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('"'));
    __m128i backslashes = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\\'));

    return (unsigned)_mm_movemask_epi8(_mm_or_si128(_mm_or_si128(low, quotes), backslashes));
}
#endif

/* The first byte that is not plain, or `end`. */
static inline const char *rn_json_pass_plain(const char *p, const char *end)
{
#ifdef __SSE2__
    for (; end - p >= 16; p += 16) {
        unsigned marks = rn_json_mark_special16(p);

        if (marks != 0)
            return p + __builtin_ctz(marks);
    }
#endif
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    for (; end - p >= 8; p += 8) {
        uint64_t bytes, marks;

        memcpy(&bytes, p, sizeof bytes);
        if ((marks = rn_json_mark_special(bytes)) != 0)
            return p + __builtin_ctzll(marks) / 8;
    }
#endif
    while (p < end && rn_json_plain[(unsigned char)*p])
        p++;
    return p;
}

/* Describes what is at `at`: `the end of the text`, `','`, `a string`. */
struct rn_json_found {
    char text[48];
};
struct rn_json_found rn_json_found(const struct rn_json *json, const char *at);

/* The readers begin at `at` and return where the token ends; NULL: BAD. */

/* From the opening quote; the `plain` bytes after it are plain. */
char *rn_json_read_special(struct rn_json *json, char *at, size_t plain, struct rn_slice *out);
/* From a digit or a minus. */
char *rn_json_read_number(struct rn_json *json, char *at, struct rn_slice *out);

/* From the opening quote. Most strings have nothing to unescape and are not written to. */
static inline char *rn_json_read_string(struct rn_json *json, char *at, struct rn_slice *out)
{
    size_t len = (size_t)(rn_json_pass_plain(at + 1, json->end) - (at + 1));
    char *end = at + 1 + len;

    if (end == json->end || *end != '"')
        return rn_json_read_special(json, at, len, out);
    *out = (struct rn_slice){at + 1, len};
    return end + 1;
}

#endif
