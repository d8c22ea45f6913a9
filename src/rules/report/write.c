/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints a report: each message with its source line and a caret below. Bytes that control a
 * terminal are escaped.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/utf8.h"
#include "rules/report/report.h"

#define MARGIN "    "
#define TAB 4
#define WIDTH 100 /* columns of a source line that are shown */
#define BEFORE 60 /* the most columns before the caret */

/* One character as it is shown: itself, or an escape such as \x1b. */
struct glyph {
    char text[16];
    size_t len;   /* bytes */
    size_t width; /* columns */
    size_t taken; /* bytes of the source */
};

static struct glyph next_glyph(const char *text, size_t len)
{
    struct glyph glyph = {.width = 1};
    uint32_t point = 0;

    glyph.taken = rn_utf8_decode(text, len, &point);
    if (glyph.taken > 0 && rn_utf8_is_printable(point)) {
        memcpy(glyph.text, text, glyph.taken);
        glyph.len = glyph.taken;
        return glyph;
    }
    if (glyph.taken > 1) {
        glyph.len = (size_t)snprintf(glyph.text, sizeof glyph.text, "\\u{%x}", (unsigned)point);
    } else {
        glyph.taken = 1;
        glyph.len = (size_t)snprintf(glyph.text, sizeof glyph.text, "\\x%02x",
                                     (unsigned)(unsigned char)text[0]);
    }
    glyph.width = glyph.len;
    return glyph;
}

struct output {
    rn_report_sink *sink;
    void *context;
};

static void put(const struct output *out, const char *text)
{
    out->sink(out->context, text, strlen(text));
}

static void put_safely(const struct output *out, struct rn_slice text)
{
    for (size_t at = 0; at < text.len;) {
        struct glyph glyph = next_glyph(text.data + at, text.len - at);
        out->sink(out->context, glyph.text, glyph.len);
        at += glyph.taken;
    }
}

static void put_spaces(const struct output *out, size_t count)
{
    for (; count > 0; count--)
        put(out, " ");
}

static bool is_break(const char *text, size_t len)
{
    uint32_t point = 0;

    return rn_utf8_decode(text, len, &point) > 0 &&
           (point == '\n' || point == '\r' || point == 0x85 || point == 0x2028 || point == 0x2029);
}

/* Writes text from `start` to the end of its line. Returns the column of the caret. */
static size_t put_line(const struct output *out, struct rn_slice text, size_t start, size_t caret)
{
    size_t width = 0, caret_width = 0;

    for (size_t at = start; at < text.len && !is_break(text.data + at, text.len - at);) {
        struct glyph glyph = next_glyph(text.data + at, text.len - at);
        if (text.data[at] == '\t')
            glyph.width = TAB - width % TAB;
        if (width + glyph.width > WIDTH) {
            put(out, "...");
            break;
        }
        if (text.data[at] == '\t')
            put_spaces(out, glyph.width);
        else
            out->sink(out->context, glyph.text, glyph.len);
        width += glyph.width;
        at += glyph.taken;
        if (at <= caret)
            caret_width = width;
    }
    return caret_width;
}

/* Writes the source line and a caret below it. */
static void put_source(const struct output *out, struct rn_report *report, struct rn_place at)
{
    struct rn_slice text = report->files[at.file].text;
    size_t caret = rn_report_offset(report, at), start = caret, width = 0;
    uint32_t column = report->cursor.at.column;

    for (; column > 1; column--) { /* back from the caret while there is room */
        size_t before = start - 1; /* where the character before begins */
        uint32_t point;

        while (before > 0 && start - before < 4 && !rn_utf8_is_start(text.data[before]))
            before--;
        if (rn_utf8_decode(text.data + before, start - before, &point) != start - before)
            before = start - 1;
        bool tab = text.data[before] == '\t';

        width += tab ? TAB : next_glyph(text.data + before, start - before).width;
        if (width > BEFORE)
            break;
        start = before;
    }
    if (start >= text.len || is_break(text.data + start, text.len - start))
        return; /* an empty line */
    put(out, column > 1 ? MARGIN "..." : MARGIN);
    width = put_line(out, text, start, caret);
    put(out, column > 1 ? "\n" MARGIN "   " : "\n" MARGIN);
    put_spaces(out, width);
    put(out, "^\n");
}

static void put_more(const struct output *out, uint32_t count, uint32_t kept, const char *what)
{
    char line[64];

    if (count == kept)
        return;
    snprintf(line, sizeof line, "and %" PRIu32 " more %s%s\n", count - kept, what,
             count - kept == 1 ? "" : "s");
    put(out, line);
}

void rn_report_write(struct rn_report *report, rn_report_sink *sink, void *context)
{
    struct output out = {sink, context};

    for (uint32_t i = 0; i < report->kept_count; i++) {
        struct rn_place at = report->kept[i].at;
        bool has_file = at.file < report->file_count;
        char numbers[32];

        if (has_file) {
            put_safely(&out, report->files[at.file].name);
            snprintf(numbers, sizeof numbers, ":%" PRIu32 ":%" PRIu32, at.line, at.column);
            put(&out, at.line > 0 ? numbers : "");
            put(&out, ": ");
        }
        put(&out, report->kept[i].severity == RN_ERROR ? "error: " : "warning: ");
        put_safely(&out, rn_slice_of(report->kept[i].message));
        put(&out, "\n");
        if (has_file && at.line > 0)
            put_source(&out, report, at);
    }
    put_more(&out, report->count[RN_ERROR], report->kept_by[RN_ERROR], "error");
    put_more(&out, report->count[RN_WARNING], report->kept_by[RN_WARNING], "warning");
}
