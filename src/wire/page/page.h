/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A self-contained HTML page: one file with its style, no script and no other files. Follows the
 * reader's choice of light or dark, and prints on paper. All texts are escaped here.
 *
 *     struct rn_page page;
 *
 *     rn_page_open(&page, "What the new rules would have done", "access.log, 19 November 2026");
 *     rn_page_heading(&page, "Rules");
 *     rn_page_table_open(&page, (const char *const[]){"rule", ">refused"}, 2);
 *     rn_page_cell(&page, name);
 *     rn_page_cellf(&page, "%" PRIu64, refused);
 *     rn_page_table_close(&page);
 *     rn_page_close(&page);
 *     fwrite(page.out.data, 1, page.out.len, file); (or page.out.failed: out of memory)
 *     rn_page_done(&page);
 *
 * page/chart.h draws pictures into it.
 */
#ifndef RN_WIRE_PAGE_PAGE_H
#define RN_WIRE_PAGE_PAGE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/slice.h"

#define RN_PAGE_COLUMNS 12 /* most of one table */

struct rn_page {
    struct rn_buf out;           /* the page so far: what is written here must be escaped */
    size_t columns, cell;        /* of the open table: how many, and the next one of the row */
    char kinds[RN_PAGE_COLUMNS]; /* of columns: n numbers, t times, 0 text */
    uint32_t pictures;           /* so far */
};

/* Begins a page. `subtitle` may be NULL. */
void rn_page_open(struct rn_page *page, const char *title, const char *subtitle);
void rn_page_close(struct rn_page *page);
void rn_page_done(struct rn_page *page);

/* Appends text, escaped: unprintable bytes become U+FFFD. */
void rn_page_text(struct rn_page *page, struct rn_slice text);

/* A heading of a section. */
void rn_page_heading(struct rn_page *page, const char *text);
/* A paragraph. */
void rn_page_paragraph(struct rn_page *page, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* A paragraph that stands out: a caveat, something to do. */
void rn_page_note(struct rn_page *page, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Lines in a type of fixed width, such as a piece of a rules file. */
void rn_page_code(struct rn_page *page, struct rn_slice text);

/* A row of large figures with what they count, each added by rn_page_figure. */
void rn_page_figures_open(struct rn_page *page);
void rn_page_figure(struct rn_page *page, const char *label, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void rn_page_figures_close(struct rn_page *page);

/* A table. A title that starts with `>` makes a right-aligned column, one with `@` a column of
 * times, which are never broken. Cells follow row by row; a row begins and ends by itself. */
void rn_page_table_open(struct rn_page *page, const char *const *titles, size_t count);
void rn_page_cell(struct rn_page *page, struct rn_slice text);
void rn_page_cellf(struct rn_page *page, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Two times, one below the other. */
void rn_page_cell_times(struct rn_page *page, const char *from, const char *to);
void rn_page_table_close(struct rn_page *page);

#endif
