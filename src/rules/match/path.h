/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the path of a request for rules and keys.
 *
 * A path has many spellings, and servers do not agree on all of them: %2F is a slash to one server
 * and part of a name to another. A *reading* is the path as some server would read it. A rule
 * applies if it applies to any of the readings, so that no spelling reaches an application
 * uncounted. docs/rules.md has the exact rules, with examples that the tests run.
 *
 * In every reading, escapes are decoded, empty segments are dropped and there is no slash at the
 * end. Characters that would change the path if decoded stay escaped, in capitals: %25 %2F %3F %23.
 * The first reading is a path that has no other reading.
 *
 * Reading takes at most RN_PATH_READINGS_MAX + 2 passes over the path and allocates nothing.
 */
#ifndef RN_RULES_MATCH_PATH_H
#define RN_RULES_MATCH_PATH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

#define RN_PATH_READINGS_MAX 8     /* for three differences between servers in one path */
#define RN_PATH_READINGS_ROOM 8192 /* bytes for all readings of a path that must be rewritten */

enum rn_path_parameters {
    RN_PARAMETERS_EITHER, /* ;v=1 is dropped in one reading and kept in the other */
    RN_PARAMETERS_KEEP,
    RN_PARAMETERS_IGNORE,
};

/* `paths:` of a rules file. All zero: the defaults. */
struct rn_path_settings {
    bool ignore_case;      /* of ASCII letters */
    bool ignore_extension; /* /login.json is also /login */
    enum rn_path_parameters parameters;
};

struct rn_path_readings {
    uint32_t count; /* at least 1 */
    /* There are too many readings, or they depend on each other, or the path is too long. Every
     * condition on the path then counts as true. text[0] is "%", which is no path's reading. */
    bool unreadable;
    struct rn_slice text[RN_PATH_READINGS_MAX]; /* in the target or `room`; the reading that most
                                                   spellings share comes first */
    char room[RN_PATH_READINGS_ROOM];
};

/* A request target up to its query. */
static inline struct rn_slice rn_path_cut_query(struct rn_slice target)
{
    const char *query = target.len == 0 ? NULL : memchr(target.data, '?', target.len);

    return query ? (struct rn_slice){target.data, (size_t)(query - target.data)} : target;
}

/* Whether a path without a query has one reading, itself. May return false for such a path, but
 * never true for another. */
bool rn_path_is_plain(struct rn_slice path, const struct rn_path_settings *settings);

/* All readings of a request target: a path, perhaps with a query or after http://host. */
void rn_path_read_all(struct rn_slice target, const struct rn_path_settings *settings,
                      struct rn_path_readings *readings);

/* Writes a path of an operator (a pattern of a rule, the value of a ban) like a reading, but leaves
 * as they are bytes that servers read differently, and dot segments. Into `room` bytes; 3 * length
 * + 2 always suffice. Data NULL: it cannot be read or does not fit. */
struct rn_slice rn_path_spell(struct rn_slice text, const struct rn_path_settings *settings,
                              char *out, size_t room);

#endif
