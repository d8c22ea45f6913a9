/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A text table with columns as wide as their widest cell.
 */
#ifndef RN_CLI_OUTPUT_COLUMNS_H
#define RN_CLI_OUTPUT_COLUMNS_H

#include "base/buf.h"
#include "cli/output/output.h"

#define RN_COLUMNS_MAX 8

struct rn_columns {
    size_t count;
    struct rn_buf text; /* private from here on: all cells by row, each with a NUL */
    size_t titles;      /* bytes of the first row */
    int widths[RN_COLUMNS_MAX];
    bool begun; /* rows have been flushed */
};

/* The titles are the first row. A title that starts with `>` makes a right-aligned column. */
void rn_columns_init(struct rn_columns *columns, const char *const *titles, size_t count);
void rn_columns_done(struct rn_columns *columns);

/* Appends a cell of untrusted text: control characters are escaped. */
void rn_columns_text(struct rn_columns *columns, struct rn_slice text);
/* Appends a cell of our own text. */
void rn_columns_put(struct rn_columns *columns, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Before the first cell of a row: the row is printed in red. */
void rn_columns_mark_bad(struct rn_columns *columns);

/* Writes each row on a line after `indent` spaces. Columns with no text but the title are left out.
 */
void rn_columns_write(struct rn_columns *columns, const struct rn_output *out, int indent);
/* Writes the rows so far of a table too long to keep. No column is left out; later rows line up
 * unless they are wider. */
void rn_columns_flush(struct rn_columns *columns, const struct rn_output *out);

#endif
