/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table of text, its columns as wide as what stands in them.
 */
#ifndef RN_CLI_OUTPUT_COLUMNS_H
#define RN_CLI_OUTPUT_COLUMNS_H

#include "base/buf.h"
#include "cli/output/output.h"

#define RN_COLUMNS_MAX 8

struct rn_columns {
    size_t count;
    struct rn_buf text; /* private: all cells, each with a NUL behind it, row by row, */
    size_t titles;      /* bytes of the first row, */
    int widths[RN_COLUMNS_MAX];
    bool begun; /* and whether rows were flushed */
};

/* The titles are the first row. One that begins with `>` is of a column whose
 * cells stand to the right, as numbers do. */
void rn_columns_init(struct rn_columns *columns, const char *const *titles, size_t count);
void rn_columns_done(struct rn_columns *columns);

/* The next cell. Somebody's text: what a terminal would act on is escaped. */
void rn_columns_text(struct rn_columns *columns, struct rn_slice text);
/* The next cell, our own words. */
void rn_columns_put(struct rn_columns *columns, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Each row on a line, `indent` spaces before it. Columns without anything but a
 * title are left out. */
void rn_columns_write(struct rn_columns *columns, const struct rn_output *out, int indent);
/* The rows so far, of a table that is too long to be kept: no column is left out, and
 * those to come stand below these as far as they are not wider. */
void rn_columns_flush(struct rn_columns *columns, const struct rn_output *out);

#endif
