/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The patterns of rules/match/pattern.h as one would explain them: recursive, slow
 * (exponential in the number of stars), obviously right. For short inputs.
 */
#ifndef NAIVE_PATTERN_H
#define NAIVE_PATTERN_H

#include <stdbool.h>
#include <string.h>

#include "base/slice.h"

#define NAIVE_SEGMENTS 64

static inline struct rn_slice naive_after(struct rn_slice s, size_t n)
{
    return (struct rn_slice){s.data + n, s.len - n};
}

static inline bool naive_glob(struct rn_slice pattern, struct rn_slice text)
{
    if (pattern.len == 0)
        return text.len == 0;
    if (*pattern.data == '*')
        return naive_glob(naive_after(pattern, 1), text) ||
               (text.len > 0 && naive_glob(pattern, naive_after(text, 1)));
    return text.len > 0 && *text.data == *pattern.data &&
           naive_glob(naive_after(pattern, 1), naive_after(text, 1));
}

/* The segments of a path that are not empty. */
static inline size_t naive_split(struct rn_slice path, struct rn_slice out[NAIVE_SEGMENTS])
{
    size_t count = 0, begin = 0;

    for (size_t i = 0; i <= path.len; i++)
        if (i == path.len || path.data[i] == '/') {
            if (i > begin && count < NAIVE_SEGMENTS)
                out[count++] = (struct rn_slice){path.data + begin, i - begin};
            begin = i + 1;
        }
    return count;
}

static inline bool naive_segments(const struct rn_slice *p, size_t pn, const struct rn_slice *t,
                                  size_t tn)
{
    if (pn == 0)
        return tn == 0;
    if (p->len == 2 && memcmp(p->data, "**", 2) == 0)
        return naive_segments(p + 1, pn - 1, t, tn) ||
               (tn > 0 && naive_segments(p, pn, t + 1, tn - 1));
    return tn > 0 && (*p->data == '{' || naive_glob(*p, *t)) &&
           naive_segments(p + 1, pn - 1, t + 1, tn - 1);
}

static inline bool naive_path(struct rn_slice pattern, struct rn_slice path)
{
    struct rn_slice p[NAIVE_SEGMENTS], t[NAIVE_SEGMENTS];
    size_t pn = naive_split(pattern, p), tn = naive_split(path, t);

    return naive_segments(p, pn, t, tn);
}

#endif
