/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text output: colours, escaped text, durations. Control characters never reach the terminal.
 */
#ifndef RN_CLI_OUTPUT_OUTPUT_H
#define RN_CLI_OUTPUT_OUTPUT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/slice.h"
#include "cli/options.h"
#include "wire/members.h"

enum rn_style { RN_PLAIN, RN_BOLD, RN_DIM, RN_GOOD, RN_BAD, RN_ODD };

struct rn_output {
    FILE *file;
    bool colour;
};

/* Uses colours if asked for, or on a terminal that has them unless NO_COLOR is set. */
struct rn_output rn_output_to(FILE *file, const struct rn_options *options);

void rn_output_put(const struct rn_output *out, enum rn_style style, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Writes text in quotes, with unprintable characters as \xNN. */
void rn_output_quoted(const struct rn_output *out, struct rn_slice text);
/* The same without quotes. */
void rn_output_escaped(const struct rn_output *out, struct rn_slice text);

/* Writes `ip "192.0.2.7"` after `before`. */
void rn_output_pair(const struct rn_output *out, const char *before, struct rn_slice name,
                    struct rn_slice value);

/* Writes text that may have several lines; control characters are escaped. */
void rn_output_lines(const struct rn_output *out, struct rn_slice text);

/* Writes a position in the rules: file and line. */
void rn_output_place(const struct rn_output *out, struct rn_slice file, uint32_t line);

/* Writes a report as rn_report_write does. */
struct rn_report;
void rn_output_report(const struct rn_output *out, struct rn_report *report);

/* 340 ms, 2.5 s, 3 min 20 s, 2 days 4 h; never. Rounded up. */
#define RN_TIME_TEXT 40
const char *rn_output_time(int64_t ns, char text[RN_TIME_TEXT]);

/* 1,234,567 */
#define RN_COUNT_TEXT 32
const char *rn_output_count(uint64_t count, char text[RN_COUNT_TEXT]);
/* A share of a whole: 12 %, 1.2 %, 0.03 %; 0 %; - if the whole is 0. */
const char *rn_output_share(uint64_t part, uint64_t whole, char text[RN_COUNT_TEXT]);
/* 2026-11-19 21:13:23, UTC. */
const char *rn_output_moment(int64_t unix_ns, char text[RN_TIME_TEXT]);

/* Adds a JSON number with up to `decimals` decimals, without zeros at the end. */
void rn_output_number(struct rn_members *m, const char *name, double value, int decimals);
/* Prints JSON and a newline on stdout, and frees the buffer. */
void rn_output_json(struct rn_buf *json);

/* Writes a text to a file; "-" is standard output. False after an error message on stderr, also if
 * the text has failed for lack of memory. */
bool rn_output_save(const char *path, const struct rn_buf *text);

/* Prints `ration: ` and a line on stderr. Returns false, for callers that have failed. */
bool rn_output_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
