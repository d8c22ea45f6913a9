/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Detects paths with one reading, themselves, which nearly all are: scans 16 bytes at a time.
 */
#include "base/hints.h"
#include "rules/match/path.h"

typedef signed char bytes16 __attribute__((vector_size(16)));
typedef uint64_t words2 __attribute__((vector_size(16)));

/* Bytes that are not 0 where `c` may be read in another way than as itself: control
 * characters, space, above 0x7F; ; ?; # % (with ! and '); \; a slash or a dot behind a
 * slash. */
static inline bytes16 find_odd(bytes16 c, bytes16 before)
{
    return (bytes16)(c < 0x21) | (bytes16)((c | 4) == '?') | (bytes16)((c & ~6) == '!') |
           (bytes16)(c == '\\') | ((bytes16)((c | 1) == '/') & (bytes16)(before == '/'));
}

static inline bool any(bytes16 odd)
{
    words2 words = (words2)odd;

    return (words[0] | words[1]) != 0;
}

static inline bytes16 load16(const char *p)
{
    bytes16 bytes;

    memcpy(&bytes, p, sizeof bytes);
    return bytes;
}

static inline bytes16 load_two(const char *p, const char *q)
{
    return (bytes16)(words2){rn_slice_load8(p), rn_slice_load8(q)};
}

static inline uint64_t load4(const char *p)
{
    uint32_t bytes;

    memcpy(&bytes, p, sizeof bytes);
    return bytes;
}

static inline bytes16 load_short(const char *p, const char *q)
{
    uint64_t word = load4(p) | load4(q) << 32;

    return (bytes16)(words2){word, word};
}

/* Looks at every byte but the first, together with the one before; loads overlap
 * at the end. */
static inline bool has_odd(const char *p, size_t len)
{
    const char *last = p + len;
    bytes16 odd;

    if (len > 16) {
        odd = find_odd(load16(last - 16), load16(last - 17));
        for (const char *at = p + 1; at < last - 16; at += 16)
            odd |= find_odd(load16(at), load16(at - 1));
        return any(odd);
    }
    if (len > 8)
        return any(find_odd(load_two(p + 1, last - 8), load_two(p, last - 9)));
    if (len > 4)
        return any(find_odd(load_short(p + 1, last - 4), load_short(p, last - 5)));
    for (size_t i = 1; i < len; i++) {
        signed char c = (signed char)p[i]; /* plain char has no sign on arm64 */

        if (c < 0x21 || (c | 4) == '?' || (c & ~6) == '!' || c == '\\' ||
            ((c | 1) == '/' && p[i - 1] == '/'))
            return true;
    }
    return false;
}

RN_HOT bool rn_path_is_plain(struct rn_slice path, const struct rn_path_settings *settings)
{
    if (path.len == 0 || path.data[0] != '/' || (path.len > 1 && path.data[path.len - 1] == '/') ||
        has_odd(path.data, path.len))
        return false;
    if (rn_unlikely(settings->ignore_extension) && memchr(path.data, '.', path.len))
        return false;
    for (size_t i = 0; rn_unlikely(settings->ignore_case) && i < path.len; i++)
        if (path.data[i] >= 'A' && path.data[i] <= 'Z')
            return false;
    return true;
}
