/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/output/columns.h"

#include <stdarg.h>
#include <string.h>

#include "base/utf8.h"

#define BAD '\1' /* before the first cell of a row in red */

void rn_columns_mark_bad(struct rn_columns *c)
{
    rn_buf_put_char(&c->text, BAD);
}

void rn_columns_init(struct rn_columns *c, const char *const *titles, size_t count)
{
    *c = (struct rn_columns){.count = count};
    for (size_t i = 0; i < count; i++)
        rn_columns_put(c, "%s", titles[i]);
    c->titles = c->text.len;
}

void rn_columns_done(struct rn_columns *c)
{
    rn_buf_done(&c->text);
}

void rn_columns_text(struct rn_columns *c, struct rn_slice text)
{
    for (size_t at = 0; at < text.len;) {
        uint32_t point;
        size_t taken = rn_utf8_decode(text.data + at, text.len - at, &point);

        if (taken > 0 && rn_utf8_is_printable(point)) {
            rn_buf_put(&c->text, text.data + at, taken);
        } else {
            taken = 1;
            rn_buf_putf(&c->text, "\\x%02x", (unsigned)(unsigned char)text.data[at]);
        }
        at += taken;
    }
    rn_buf_put_char(&c->text, '\0');
}

void rn_columns_put(struct rn_columns *c, const char *format, ...)
{
    char text[200];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    rn_buf_put(&c->text, text, strlen(text) + 1);
}

/* The number of code points. Wide and combining characters are not handled. */
static int width_of(const char *cell)
{
    int width = 0;

    for (; *cell != '\0'; cell++)
        width += rn_utf8_is_start(*cell);
    return width;
}

static void measure(struct rn_columns *c)
{
    const char *at = c->text.data, *end = at + c->text.len;
    bool used[RN_COLUMNS_MAX] = {false};

    for (size_t cell = 0; at < end; cell++, at += strlen(at) + 1) {
        size_t column = cell % c->count;
        int width = width_of(at) - ((cell < c->count && *at == '>') || *at == BAD);

        if (width > c->widths[column])
            c->widths[column] = width;
        used[column] |= cell >= c->count && *at != '\0';
    }
    for (size_t i = 0; i < c->count && !c->begun; i++)
        if (!used[i])
            c->widths[i] = -1;
}

/* Writes the rows from `row` on. Titles say which columns are right-aligned. */
static void put_rows(const struct rn_columns *c, const struct rn_output *out, const char *row,
                     int indent)
{
    while (row < c->text.data + c->text.len) {
        const char *right = c->text.data;
        bool titles = row == right;
        enum rn_style style = titles ? RN_DIM : *row == BAD ? RN_BAD : RN_PLAIN;
        int owed = indent; /* pending spaces; none after the last cell */

        for (size_t i = 0; i < c->count; i++) {
            const char *cell = row + ((titles && *row == '>') || *row == BAD);
            int space = c->widths[i] - width_of(cell);

            if (c->widths[i] >= 0) {
                owed += *right == '>' ? space : 0;
                if (*cell != '\0') {
                    rn_output_put(out, style, "%*s%s", owed, "", cell);
                    owed = 0;
                }
                owed += 2 + (*right == '>' ? 0 : space);
            }
            row += strlen(row) + 1;
            right += strlen(right) + 1;
        }
        rn_output_put(out, RN_PLAIN, "\n");
    }
}

void rn_columns_write(struct rn_columns *c, const struct rn_output *out, int indent)
{
    if (c->text.failed)
        return;
    measure(c);
    put_rows(c, out, c->text.data + (c->begun ? c->titles : 0), indent);
}

void rn_columns_flush(struct rn_columns *c, const struct rn_output *out)
{
    size_t first = c->begun ? c->titles : 0;

    if (c->text.failed)
        return;
    c->begun = true;
    measure(c);
    put_rows(c, out, c->text.data + first, 0);
    c->text.len = c->titles;
}
