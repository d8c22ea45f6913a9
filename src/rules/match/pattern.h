/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Patterns without regular expressions.
 *
 * In a path, `*` stands for one segment or a part of one, `**` for any number
 * of segments (also none), `{name}` for a whole segment. Empty segments do not
 * count, neither in patterns nor in paths: //login/ is /login. Paths are
 * compared as they stand: both sides must be spelt alike (path.h). Elsewhere
 * `*` stands for any bytes. Matching takes time proportional to pattern times text
 * at worst and does not recurse.
 */
// /api/**            matches /api, /api/ and /api/a/b, not /apis
// /users/{id}/posts  matches /users/42/posts, not /users//posts
// /v*/x              matches /v2/x and /v/x, not /v/2/x
#ifndef RN_RULES_MATCH_PATTERN_H
#define RN_RULES_MATCH_PATTERN_H

#include <stdbool.h>

#include "base/slice.h"

bool rn_pattern_match(struct rn_slice pattern, struct rn_slice text);
bool rn_pattern_match_path(struct rn_slice pattern, struct rn_slice path);

/* Whether `wide` matches every path that `narrow` matches. Also false where this is hard to find
 * out: if `narrow` has a `**`, and `wide` has one later or not at its end. */
bool rn_pattern_covers(struct rn_slice wide, struct rn_slice narrow);

/* NULL, or an error in a path pattern and what to write instead. */
const char *rn_pattern_fault(struct rn_slice pattern);

/* Whether a path begins with a text; a slash at the end of the text may be missing
 * at the end of the path. */
bool rn_pattern_path_begins(struct rn_slice path, struct rn_slice prefix);

/* Segment number `i` (from 0) of a path; data NULL if it has fewer. */
struct rn_slice rn_pattern_segment(struct rn_slice path, unsigned i);

/* The longest literal beginning of a pattern. */
struct rn_slice rn_pattern_literal(struct rn_slice pattern);

#endif
