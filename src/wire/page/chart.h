/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pictures for a page (page.h), as inline SVG: bars by name, columns over time or over classes.
 * Each has a caption, which also says in words what it shows, and a title for each mark.
 */
#ifndef RN_WIRE_PAGE_CHART_H
#define RN_WIRE_PAGE_CHART_H

#include "wire/page/page.h"

/* How a value is coloured; a column stacks the values in this order from the bottom. */
enum rn_chart_tone { RN_CHART_GOOD, RN_CHART_ODD, RN_CHART_BAD, RN_CHART_TONES };

/* A horizontal bar. */
struct rn_chart_bar {
    struct rn_slice label;
    double value;
    const char *note; /* behind the bar: the value as people read it */
    enum rn_chart_tone tone;
};
/* Bars below each other, all to one scale. Draws nothing without bars. */
void rn_chart_bars(struct rn_page *page, const char *caption, const struct rn_chart_bar *bars,
                   size_t count);

/* Columns beside each other, to one scale that begins at 0. */
struct rn_chart_columns {
    const char *caption;
    const char *const *names;               /* by tone; NULL: this tone is not in the picture */
    const uint64_t *values[RN_CHART_TONES]; /* by tone, then by column; NULL as in names */
    size_t count;                           /* of columns */
    /* Writes what column `i` stands for: shorter than size bytes. For titles and, below some
     * columns, for labels. `i` may be count, the end of the last column. */
    void (*label)(const void *arg, size_t i, char *text, size_t size);
    /* Not NULL: labels stand where this says, instead of below some columns. Writes label `i` and
     * where it stands, in columns from the left; false: there are no more. */
    bool (*tick)(const void *arg, size_t i, double *column, char *text, size_t size);
    const void *arg;
    size_t mark; /* a line stands before this column; above count: none */
    const char *mark_label;
};
void rn_chart_columns(struct rn_page *page, const struct rn_chart_columns *chart);

#endif
