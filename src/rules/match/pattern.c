/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Patterns: `*` over bytes, and paths segment by segment.
 *
 * A path is the list of its segments that are not empty. So /login, /login/ and
 * //login are one path to a rule: a client cannot walk around a limit by adding
 * slashes, and a pattern written with a trailing slash means the same as
 * without. `*` and `{name}` therefore never stand for nothing as a whole
 * segment: /api/ has one segment and does not match /api/(star).
 *
 * Both matchers remember only the last star (or double star) passed and, when
 * they are stuck, let it take one byte (or segment) more. Going back to an
 * earlier star is never needed: whatever it could take in addition the later one
 * can take as well. Each pair of a pattern byte and a text byte is compared at
 * most once, which is the bound of the header.
 */
#include "rules/match/pattern.h"

#include <stdint.h>
#include <string.h>

bool rn_pattern_match(struct rn_slice pattern, struct rn_slice text)
{
    size_t p = 0, t = 0, resume = 0, star = SIZE_MAX;

    while (t < text.len) {
        if (p < pattern.len && pattern.data[p] == '*') {
            star = p++;
            resume = t;
        } else if (p < pattern.len && pattern.data[p] == text.data[t]) {
            p++;
            t++;
        } else if (star != SIZE_MAX) {
            p = star + 1;
            t = ++resume;
        } else {
            return false;
        }
    }
    while (p < pattern.len && pattern.data[p] == '*')
        p++;
    return p == pattern.len;
}

/* Cuts the next segment off a path; data NULL when there is none. */
static struct rn_slice take_segment(struct rn_slice *path)
{
    const char *end;

    while (path->len > 0 && *path->data == '/') {
        path->data++;
        path->len--;
    }
    if (path->len == 0)
        return (struct rn_slice){NULL, 0};
    end = memchr(path->data, '/', path->len);

    struct rn_slice segment = {path->data, end ? (size_t)(end - path->data) : path->len};

    path->data += segment.len;
    path->len -= segment.len;
    return segment;
}

static bool is_double_star(struct rn_slice segment)
{
    return segment.len == 2 && segment.data[0] == '*' && segment.data[1] == '*';
}

static bool match_segments(struct rn_slice pattern, struct rn_slice text)
{
    struct rn_slice wanted = take_segment(&pattern), found = take_segment(&text);
    struct rn_slice after_stars = {NULL, 0}, resume = {NULL, 0};
    bool starred = false;

    while (found.data) {
        if (wanted.data && is_double_star(wanted)) {
            starred = true;
            after_stars = pattern;
            resume = text;
            wanted = take_segment(&pattern);
            if (!wanted.data)
                return true;
        } else if (wanted.data && (wanted.data[0] == '{' || rn_pattern_match(wanted, found))) {
            wanted = take_segment(&pattern);
            found = take_segment(&text);
        } else if (starred) {
            text = resume;
            found = take_segment(&text);
            resume = text;
            pattern = after_stars;
            wanted = take_segment(&pattern);
        } else {
            return false;
        }
    }
    while (wanted.data && is_double_star(wanted))
        wanted = take_segment(&pattern);
    return !wanted.data;
}

bool rn_pattern_match_path(struct rn_slice pattern, struct rn_slice path)
{
    size_t len = pattern.len < path.len ? pattern.len : path.len, common = 0;

    /* Skip the literal segments that both begin with, which are most of a path. */
    for (size_t i = 0; i < len; i++) {
        char c = pattern.data[i];

        if (c != path.data[i] || c == '*' || c == '{')
            break;
        if (c == '/')
            common = i;
    }
    if (common != 0) {
        pattern = (struct rn_slice){pattern.data + common, pattern.len - common};
        path = (struct rn_slice){path.data + common, path.len - common};
    }
    if (pattern.len == 3 && memcmp(pattern.data, "/**", 3) == 0 &&
        (path.len == 0 || path.data[0] == '/'))
        return true;
    return match_segments(pattern, path);
}

static const char *segment_fault(struct rn_slice segment)
{
    const char *open = memchr(segment.data, '{', segment.len);
    const char *close = memchr(segment.data, '}', segment.len);

    if (open || close) {
        if (open != segment.data || close != segment.data + segment.len - 1)
            return "{name} stands for a whole segment; write /users/{id}, or * for a part of one";
        if (segment.len == 2)
            return "{} has no name; write {id}, or * for any segment";
        return memchr(open + 1, '{', segment.len - 1)
                   ? "{name} stands for a whole segment; write /users/{id}, or * for a part of one"
                   : NULL;
    }
    for (size_t i = 0; segment.len > 2 && i + 1 < segment.len; i++)
        if (segment.data[i] == '*' && segment.data[i + 1] == '*')
            return "** stands for whole segments; write /files/**, or * for a part of one";
    return NULL;
}

const char *rn_pattern_fault(struct rn_slice pattern)
{
    struct rn_slice segment;
    const char *fault;

    if (pattern.len == 0)
        return "the path is empty; write / for the root or /** for every path";
    if (pattern.data[0] != '/')
        return "a path begins with a slash; write /api/** rather than api/**";
    for (size_t i = 0; i + 2 < pattern.len; i++) {
        char high = pattern.data[i + 1], low = (char)(pattern.data[i + 2] | 0x20);

        if (pattern.data[i] == '%' && /* %2A, %7B, %7D */
            ((high == '2' && low == 'a') || (high == '7' && (low == 'b' || low == 'd'))))
            return "an escaped *, { or } in a pattern would stand for more than itself; write "
                   "{equals: ...}, where it does not";
    }
    if (memchr(pattern.data, '?', pattern.len) || memchr(pattern.data, '#', pattern.len))
        return "a path ends before ? or #, so this can never match; leave the query away";
    while ((segment = take_segment(&pattern)).data)
        if ((fault = segment_fault(segment)))
            return fault;
    return NULL;
}

bool rn_pattern_path_begins(struct rn_slice path, struct rn_slice prefix)
{
    if (prefix.len == path.len + 1 && prefix.data[path.len] == '/')
        prefix.len--;
    return rn_slice_starts_with(path, prefix);
}

struct rn_slice rn_pattern_segment(struct rn_slice path, unsigned i)
{
    struct rn_slice rest = path, segment;

    do
        segment = take_segment(&rest);
    while (segment.data && i-- > 0);
    return segment;
}

/* The number of the first `**`; the number of segments if there is none. */
static unsigned find_stars(struct rn_slice pattern)
{
    struct rn_slice segment;
    unsigned i = 0;

    while ((segment = take_segment(&pattern)).data && !is_double_star(segment))
        i++;
    return i;
}

/* The wildcards of `narrow` are taken as text. Only a wildcard of `wide` can match those,
 * and it matches as well what they stand for, except that `**` may be many segments. */
bool rn_pattern_covers(struct rn_slice wide, struct rn_slice narrow)
{
    unsigned in_wide = find_stars(wide), in_narrow = find_stars(narrow);

    if (!rn_pattern_match_path(wide, narrow))
        return false;
    if (!rn_pattern_segment(narrow, in_narrow).data)
        return true;
    return in_wide <= in_narrow && rn_pattern_segment(wide, in_wide).data &&
           !rn_pattern_segment(wide, in_wide + 1).data;
}

/* Ends at a brace as well, which begins a {name} in paths; that it could go on
 * in other patterns only makes the answer shorter than it might be. */
struct rn_slice rn_pattern_literal(struct rn_slice pattern)
{
    size_t len = 0;

    while (len < pattern.len && pattern.data[len] != '*' && pattern.data[len] != '{')
        len++;
    return (struct rn_slice){pattern.data, len};
}
