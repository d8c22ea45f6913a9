/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Diagnostics of rules files: all of them, in the order of the files. Each has a
 * position and says what was found and what would be right.
 *
 * A report owns the names and the text of the files it speaks of, so it may
 * outlive the documents read from them. It never fails: when memory runs out an
 * error still counts. One thread at a time.
 */
#ifndef RN_RULES_REPORT_REPORT_H
#define RN_RULES_REPORT_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/slice.h"

struct rn_node;

#define RN_REPORT_KEPT 100           /* errors, and as many warnings; the rest is counted */
#define RN_REPORT_NO_FILE UINT32_MAX /* as rn_place.file: of no file in particular */

/* Lines and columns count from 1, columns in characters (a tab is one). Line 0:
 * the file as a whole. */
struct rn_place {
    uint32_t file; /* from rn_report_add_file */
    uint32_t line, column;
};

enum rn_severity { RN_ERROR, RN_WARNING };

struct rn_diagnostic {
    enum rn_severity severity;
    struct rn_place at;
    const char *message; /* one line, ASCII unless a caller wrote otherwise */
};

struct rn_report_file {
    struct rn_slice name, text;
};

/* A place and its byte in the file's text: lines are found going on from here. */
struct rn_cursor {
    struct rn_place at;
    size_t offset;
};

struct rn_report {
    /* Public: sorted by file, line, column. */
    struct rn_diagnostic kept[2 * RN_REPORT_KEPT];
    uint32_t kept_count;
    uint32_t count[2]; /* by severity, including what was not kept */
    struct rn_report_file *files;
    uint32_t file_count;
    /* Private. */
    uint32_t kept_by[2];
    struct rn_arena arena;
    struct rn_cursor cursor;
};

void rn_report_init(struct rn_report *report);
void rn_report_done(struct rn_report *report);

/* Copies the name and the text (a byte order mark is not part of it) and
 * returns the file's number, RN_REPORT_NO_FILE when out of memory. */
uint32_t rn_report_add_file(struct rn_report *report, struct rn_slice name, struct rn_slice text);

/* The place is usually that of a node: node->at. The same message at the same
 * place is kept and counted once. Text from a file goes through rn_excerpt. */
void rn_report_error(struct rn_report *report, struct rn_place at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void rn_report_warning(struct rn_report *report, struct rn_place at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Drops unwanted diagnostics, and those that were counted but not kept. */
void rn_report_retain(struct rn_report *report,
                      bool (*is_wanted)(void *arg, const struct rn_diagnostic *d), void *arg);

/* The place of byte `pos` of a scalar's text, as parsers of limits or durations
 * report it. Where the file spells the text differently (escapes, folded
 * lines), the place of the node. */
struct rn_place rn_report_place_in(struct rn_report *report, const struct rn_node *node,
                                   size_t pos);

/* An error at the key of a map's value: `unknown key "lmit"; did you mean
 * "limit"?`, or what is allowed when nothing is near. */
void rn_report_unknown_key(struct rn_report *report, const struct rn_node *value,
                           const char *const *allowed, size_t count);

/* The same for a scalar that is none of the words: `unknown algorithm "buket";
 * did you mean ...`. `what` names the kind of word. */
void rn_report_unknown_word(struct rn_report *report, const struct rn_node *node, const char *what,
                            const char *const *allowed, size_t count);

/* The candidate that was probably meant, NULL if none is near: at most two
 * letters wrong, missing, too many or swapped, and at most a third of the
 * longer word. Letter case does not matter. The first of the nearest wins. */
const char *rn_suggest(struct rn_slice word, const char *const *candidates, size_t count);

/* Text made fit for a message: in double quotes, with all but plain ASCII and
 * spaces escaped, cut when long; `nothing` if empty, without quotes. */
struct rn_excerpt {
    char text[72];
};
struct rn_excerpt rn_excerpt(struct rn_slice text);

/* For people: for each
 *
 *     rules.yaml:4:5: error: unknown key "lmit"; did you mean "limit"?
 *         lmit: 5 per minute
 *         ^
 *
 * and at the end `and 3 more errors`. Bytes that could upset a terminal are
 * escaped; long lines are cut to the part around the place. */
typedef void rn_report_sink(void *context, const char *text, size_t len);
void rn_report_write(struct rn_report *report, rn_report_sink *sink, void *context);

/* From a place to the byte of the file's text and back. A place behind a line's
 * end is that end. */
size_t rn_report_offset(struct rn_report *report, struct rn_place at);
struct rn_place rn_report_place(struct rn_report *report, uint32_t file, size_t offset);

#endif
