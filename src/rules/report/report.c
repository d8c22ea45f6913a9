/* SPDX-License-Identifier: Apache-2.0 */
/* Collecting what is wrong, in order. How it looks is in write.c. */
#include "rules/report/report.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"
#include "rules/yaml/document.h"

#define MESSAGE_BYTES 1024

void rn_report_init(struct rn_report *report)
{
    *report = (struct rn_report){.kept_count = 0};
    rn_arena_init(&report->arena);
}

void rn_report_done(struct rn_report *report)
{
    free(report->files);
    rn_arena_done(&report->arena);
    rn_report_init(report);
}

uint32_t rn_report_add_file(struct rn_report *report, struct rn_slice name, struct rn_slice text)
{
    if (rn_slice_starts_with(text, RN_SLICE("\xef\xbb\xbf")))
        text = (struct rn_slice){text.data + 3, text.len - 3};
    struct rn_report_file file = {rn_arena_dup(&report->arena, name),
                                  rn_arena_dup(&report->arena, text)};
    struct rn_report_file *files =
        realloc(report->files, (report->file_count + (size_t)1) * sizeof *files);
    if (files != NULL)
        report->files = files;
    if (files == NULL || file.name.data == NULL || file.text.data == NULL)
        return RN_REPORT_NO_FILE;
    files[report->file_count] = file;
    return report->file_count++;
}

void rn_report_retain(struct rn_report *report,
                      bool (*is_wanted)(void *arg, const struct rn_diagnostic *d), void *arg)
{
    uint32_t count = report->kept_count;

    report->kept_count = 0;
    memset(report->count, 0, sizeof report->count);
    for (uint32_t i = 0; i < count; i++) {
        struct rn_diagnostic d = report->kept[i];

        if (!is_wanted(arg, &d))
            continue;
        report->kept[report->kept_count++] = d;
        report->count[d.severity]++;
    }
    memcpy(report->kept_by, report->count, sizeof report->kept_by);
}

static int compare_places(struct rn_place a, struct rn_place b)
{
    if (a.file != b.file)
        return a.file < b.file ? -1 : 1;
    if (a.line != b.line)
        return a.line < b.line ? -1 : 1;
    return (a.column > b.column) - (a.column < b.column);
}

__attribute__((format(printf, 4, 0))) static void add(struct rn_report *report,
                                                      enum rn_severity severity, struct rn_place at,
                                                      const char *format, va_list args)
{
    char text[MESSAGE_BYTES];
    struct rn_diagnostic diagnostic = {.severity = severity, .at = at};

    int len = vsnprintf(text, sizeof text, format, args);
    if (len < 0)
        text[0] = '\0';
    if (len >= (int)sizeof text)
        memcpy(text + sizeof text - 4, "...", 4);
    uint32_t slot = report->kept_count; /* diagnostics are kept in the order of their places */
    while (slot > 0 && compare_places(report->kept[slot - 1].at, at) > 0)
        slot--;
    for (uint32_t i = slot; i > 0 && compare_places(report->kept[i - 1].at, at) == 0; i--)
        if (report->kept[i - 1].severity == severity &&
            strcmp(report->kept[i - 1].message, text) == 0)
            return;
    report->count[severity]++;
    if (report->kept_by[severity] == RN_REPORT_KEPT)
        return;
    diagnostic.message = rn_arena_dup(&report->arena, rn_slice_of(text)).data;
    if (diagnostic.message == NULL)
        diagnostic.message = "out of memory";
    struct rn_diagnostic *place = &report->kept[slot];
    memmove(place + 1, place, (report->kept_count - slot) * sizeof *place);
    *place = diagnostic;
    report->kept_by[severity]++;
    report->kept_count++;
}

void rn_report_error(struct rn_report *report, struct rn_place at, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    add(report, RN_ERROR, at, format, args);
    va_end(args);
}

void rn_report_warning(struct rn_report *report, struct rn_place at, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    add(report, RN_WARNING, at, format, args);
    va_end(args);
}

/* How many bytes the line break at text[0] takes, 0 if there is none. libyaml
 * counts lines, and takes all of these for the end of one. */
static size_t break_len(const char *text, size_t len)
{
    if (text[0] == '\r')
        return len > 1 && text[1] == '\n' ? 2 : 1;
    if (text[0] == '\n')
        return 1;
    if (len > 1 && memcmp(text, "\xc2\x85", 2) == 0) /* next line */
        return 2;
    if (len > 2 && (memcmp(text, "\xe2\x80\xa8", 3) == 0 || memcmp(text, "\xe2\x80\xa9", 3) == 0))
        return 3; /* line and paragraph separators */
    return 0;
}

static void step(struct rn_cursor *cursor, struct rn_slice text)
{
    const char *here = text.data + cursor->offset;
    size_t left = text.len - cursor->offset, size = break_len(here, left);
    uint32_t point;

    if (size > 0) {
        cursor->at.line++;
        cursor->at.column = 1;
    } else {
        size = rn_utf8_decode(here, left, &point);
        size += size == 0; /* a byte that is not UTF-8 counts as a character */
        cursor->at.column++;
    }
    cursor->offset += size;
}

/* The cursor lives on between calls: diagnostics are written, and usually made, in
 * the order of the text, so that a file of one long line is not walked through
 * from its beginning for each. */
static struct rn_cursor *cursor_in(struct rn_report *report, uint32_t file, bool go_on)
{
    struct rn_cursor *cursor = &report->cursor;

    if (cursor->at.line == 0 || cursor->at.file != file || !go_on)
        *cursor = (struct rn_cursor){.at = {.file = file, .line = 1, .column = 1}};
    return cursor;
}

size_t rn_report_offset(struct rn_report *report, struct rn_place at)
{
    if (at.file >= report->file_count)
        return 0;
    struct rn_slice text = report->files[at.file].text;
    struct rn_cursor *cursor =
        cursor_in(report, at.file, compare_places(report->cursor.at, at) <= 0);

    while (cursor->offset < text.len && compare_places(cursor->at, at) < 0 &&
           (cursor->at.line < at.line ||
            break_len(text.data + cursor->offset, text.len - cursor->offset) == 0))
        step(cursor, text);
    return cursor->offset;
}

struct rn_place rn_report_place(struct rn_report *report, uint32_t file, size_t offset)
{
    if (file >= report->file_count)
        return (struct rn_place){.file = file};
    struct rn_slice text = report->files[file].text;
    struct rn_cursor *cursor = cursor_in(report, file, report->cursor.offset <= offset);

    while (cursor->offset < offset && cursor->offset < text.len)
        step(cursor, text);
    return cursor->at;
}

struct rn_place rn_report_place_in(struct rn_report *report, const struct rn_node *node, size_t pos)
{
    struct rn_place at = node->at;

    if (at.file >= report->file_count || node->kind != RN_NODE_SCALAR || pos == 0 ||
        pos > node->text.len)
        return at;
    struct rn_slice text = report->files[at.file].text;
    size_t offset = rn_report_offset(report, at);
    if (offset < text.len && node->quoted &&
        (text.data[offset] == '"' || text.data[offset] == '\'')) {
        offset++;
        at.column++;
    }
    if (text.len - offset < pos || memcmp(text.data + offset, node->text.data, pos) != 0)
        return node->at;
    for (size_t i = 0; i < pos; i++) {
        if (node->text.data[i] == '\n')
            return node->at;
        at.column += rn_utf8_is_start(node->text.data[i]);
    }
    return at;
}

/* `unknown WHAT "word"; ` and the nearest of the allowed words, or all of them. */
static void report_unknown(struct rn_report *report, const struct rn_node *word, const char *what,
                           const char *const *allowed, size_t count)
{
    const char *meant = rn_suggest(word->text, allowed, count);
    struct rn_excerpt found = rn_excerpt(word->text);
    char list[MESSAGE_BYTES] = "";
    size_t at = 0;

    if (meant != NULL) {
        rn_report_error(report, word->at, "unknown %s %s; did you mean \"%s\"?", what, found.text,
                        meant);
        return;
    }
    for (size_t i = 0; i < count && at < sizeof list; i++)
        at += (size_t)snprintf(list + at, sizeof list - at, "%s%s", i == 0 ? "" : ", ", allowed[i]);
    rn_report_error(report, word->at, "unknown %s %s; allowed here: %s", what, found.text, list);
}

void rn_report_unknown_key(struct rn_report *report, const struct rn_node *value,
                           const char *const *allowed, size_t count)
{
    report_unknown(report, value->key != NULL ? value->key : value, "key", allowed, count);
}

void rn_report_unknown_word(struct rn_report *report, const struct rn_node *node, const char *what,
                            const char *const *allowed, size_t count)
{
    report_unknown(report, node, what, allowed, count);
}
