/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One text as an HTML page (page/page.h) or as Markdown. Both escape everything that is not ours.
 */
#include <string.h>

#include "base/utf8.h"
#include "wire/publish/publish_internal.h"

#define put(d, text) rn_buf_put_literal(&(d)->page.out, text)

/* A backslash before what Markdown, or HTML in it, would take for markup. */
static void put_escaped(struct rn_markup *d, struct rn_slice text)
{
    for (size_t i = 0, len; i < text.len; i += len) {
        uint32_t point = 0;

        len = rn_utf8_decode(text.data + i, text.len - i, &point);
        if (len == 1 && point == '\n')
            put(d, " ");
        else if (len == 0 || !rn_utf8_is_printable(point))
            put(d, "\xEF\xBF\xBD");
        else if (point < 0x80 && strchr("\\`*_{}[]<>#|!&~", (int)point) != NULL)
            rn_buf_putf(&d->page.out, "\\%c", (char)point);
        else
            rn_buf_put(&d->page.out, text.data + i, len);
        len = len == 0 ? 1 : len;
    }
}

void rn_markup_open(struct rn_markup *d, bool markdown, const char *title, const char *intro)
{
    *d = (struct rn_markup){.markdown = markdown};
    if (markdown)
        rn_buf_putf(&d->page.out, "# %s\n\n%s\n", title, intro);
    else
        rn_page_open(&d->page, title, intro);
}

void rn_markup_close(struct rn_markup *d)
{
    if (!d->markdown)
        rn_page_close(&d->page);
}

void rn_markup_heading(struct rn_markup *d, struct rn_slice text)
{
    put(d, "\n");
    if (d->markdown)
        put(d, "## ");
    else
        put(d, "<h2>");
    if (d->markdown)
        put_escaped(d, text);
    else
        rn_page_text(&d->page, text);
    if (d->markdown)
        put(d, "\n");
    else
        put(d, "</h2>\n");
}

void rn_markup_paragraph(struct rn_markup *d, struct rn_slice text)
{
    if (d->markdown) {
        put(d, "\n");
        put_escaped(d, text);
        put(d, "\n");
    } else {
        put(d, "<p>");
        rn_page_text(&d->page, text);
        put(d, "</p>\n");
    }
}

void rn_markup_code(struct rn_markup *d, const char *language, const char *text)
{
    if (d->markdown)
        rn_buf_putf(&d->page.out, "\n```%s\n%s```\n", language, text);
    else
        rn_page_code(&d->page, rn_slice_of(text));
}

void rn_markup_table_open(struct rn_markup *d, const char *const *titles, size_t count)
{
    if (!d->markdown) {
        rn_page_table_open(&d->page, titles, count);
        return;
    }
    d->columns = count;
    d->cell = 0;
    put(d, "\n");
    for (size_t i = 0; i < count; i++)
        rn_buf_putf(&d->page.out, "| %s ", titles[i]);
    put(d, "|\n");
    for (size_t i = 0; i < count; i++)
        put(d, "|---");
    put(d, "|\n");
}

void rn_markup_cell(struct rn_markup *d, struct rn_slice text)
{
    if (!d->markdown) {
        rn_page_cell(&d->page, text);
        return;
    }
    put(d, "| ");
    put_escaped(d, text);
    put(d, " ");
    if (++d->cell % d->columns == 0)
        put(d, "|\n");
}

void rn_markup_table_close(struct rn_markup *d)
{
    if (!d->markdown)
        rn_page_table_close(&d->page);
}
