/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/output/output.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ration/ration.h>

#include "base/civil.h"
#include "base/utf8.h"
#include "rules/report/report.h"

static const char *const codes[] = {
    [RN_PLAIN] = "",          [RN_BOLD] = "\033[1m",   [RN_DIM] = "\033[2m",
    [RN_GOOD] = "\033[1;32m", [RN_BAD] = "\033[1;31m", [RN_ODD] = "\033[1;33m",
};

struct rn_output rn_output_to(FILE *file, const struct rn_options *options)
{
    const char *never = getenv("NO_COLOR"), *term = getenv("TERM");
    bool dumb = term == NULL || strcmp(term, "dumb") == 0;
    struct rn_output out = {.file = file};

    if (options->colour == RN_COLOUR_AUTO)
        out.colour = isatty(fileno(file)) && !dumb && (never == NULL || never[0] == '\0');
    else
        out.colour = options->colour == RN_COLOUR_ALWAYS;
    return out;
}

void rn_output_put(const struct rn_output *out, enum rn_style style, const char *format, ...)
{
    bool coloured = out->colour && style != RN_PLAIN;
    va_list args;

    if (coloured)
        fputs(codes[style], out->file);
    va_start(args, format);
    vfprintf(out->file, format, args);
    va_end(args);
    if (coloured)
        fputs("\033[0m", out->file);
}

static void put(const struct rn_output *out, struct rn_slice text,
                void (*escape)(struct rn_buf *out, struct rn_slice text))
{
    struct rn_buf escaped = {0};

    escape(&escaped, text);
    fwrite(escaped.data, 1, escaped.len, out->file);
    rn_buf_done(&escaped);
}

void rn_output_escaped(const struct rn_output *out, struct rn_slice text)
{
    put(out, text, rn_utf8_escape);
}

void rn_output_lines(const struct rn_output *out, struct rn_slice text)
{
    put(out, text, rn_utf8_escape_lines);
}

void rn_output_quoted(const struct rn_output *out, struct rn_slice text)
{
    put(out, text, rn_utf8_escape_quoted);
}

void rn_output_pair(const struct rn_output *out, const char *before, struct rn_slice name,
                    struct rn_slice value)
{
    rn_output_put(out, RN_PLAIN, "%s", before);
    rn_output_escaped(out, name);
    rn_output_put(out, RN_PLAIN, " ");
    rn_output_quoted(out, value);
}

void rn_output_place(const struct rn_output *out, struct rn_slice file, uint32_t line)
{
    fputs(out->colour ? codes[RN_DIM] : "", out->file);
    rn_output_escaped(out, file);
    fprintf(out->file, ":%" PRIu32 "%s", line, out->colour ? "\033[0m" : "");
}

void rn_output_number(struct rn_members *m, const char *name, double value, int decimals)
{
    char text[400];
    int len = snprintf(text, sizeof text, "%.*f", decimals, value);

    while (text[len - 1] == '0')
        len--;
    len -= text[len - 1] == '.';
    rn_members_name(m, name);
    rn_buf_put(m->out, text, (size_t)len);
}

void rn_output_json(struct rn_buf *json)
{
    if (json->failed)
        rn_output_error("out of memory");
    else
        printf("%.*s\n", (int)json->len, json->data);
    rn_buf_done(json);
}

bool rn_output_error(const char *format, ...)
{
    va_list args;

    fflush(stdout);
    fputs("ration: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    return false;
}

/* --- reports ----------------------------------------------------------------------- */

static void write_text(void *context, const char *text, size_t len)
{
    fwrite(text, 1, len, context);
}

void rn_output_report(const struct rn_output *out, struct rn_report *report)
{
    char *text = NULL, *rest = NULL;
    size_t size = 0;
    FILE *memory = out->colour ? open_memstream(&text, &size) : NULL;

    if (memory == NULL) {
        rn_report_write(report, write_text, out->file);
        return;
    }
    rn_report_write(report, write_text, memory);
    fclose(memory);
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        const char *error = strstr(line, "error: "), *warning = strstr(line, "warning: ");
        bool bad = error != NULL && (warning == NULL || error < warning);
        const char *word = bad ? error : warning;

        /* A line of a message starts with its position, a line of a file with spaces. */
        if (line[0] == ' ') {
            rn_output_put(out, line[strspn(line, " ")] == '^' ? RN_GOOD : RN_DIM, "%s\n", line);
        } else if (word == NULL || (word != line && strncmp(word - 2, ": ", 2) != 0)) {
            rn_output_put(out, RN_PLAIN, "%s\n", line);
        } else {
            rn_output_put(out, RN_BOLD, "%.*s", (int)(word - line), line);
            rn_output_put(out, bad ? RN_BAD : RN_ODD, "%.*s", (int)strcspn(word, " ") + 1, word);
            rn_output_put(out, RN_PLAIN, "%s\n", strchr(word, ' ') + 1);
        }
    }
    free(text);
}

/* --- time -------------------------------------------------------------------------- */

#define MS INT64_C(1000000)
#define SECOND (1000 * MS)
#define MINUTE (60 * SECOND)
#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)

/* Rounds up, so that a client that waits this long is not too early. Ignores less than a
 * thousandth: a log of a minute is empty after 60.001 s. */
static int64_t round_up(int64_t ns, int64_t unit)
{
    return ns / unit + (ns % unit > ns / 1000);
}

/* 3 min 20 s, without the second part if it is 0. */
static void write_two(char *text, int64_t ns, int64_t large, int64_t small, const char *names[2])
{
    int64_t count = round_up(ns, small), ratio = large / small;
    int len = snprintf(text, RN_TIME_TEXT, "%" PRId64 " %s", count / ratio, names[0]);

    if (count % ratio != 0)
        snprintf(text + len, RN_TIME_TEXT - (size_t)len, " %" PRId64 " %s", count % ratio,
                 names[1]);
}

const char *rn_output_time(int64_t ns, char text[RN_TIME_TEXT])
{
    if (ns == RATION_NEVER)
        snprintf(text, RN_TIME_TEXT, "never");
    else if (ns <= 0)
        snprintf(text, RN_TIME_TEXT, "now");
    else if (ns <= 999 * MS)
        snprintf(text, RN_TIME_TEXT, "%" PRId64 " ms", round_up(ns, MS));
    else if (ns <= MINUTE - 100 * MS)
        snprintf(text, RN_TIME_TEXT, "%.1f s", (double)round_up(ns, 100 * MS) / 10);
    else if (ns <= HOUR - SECOND)
        write_two(text, ns, MINUTE, SECOND, (const char *[]){"min", "s"});
    else if (ns <= DAY - MINUTE)
        write_two(text, ns, HOUR, MINUTE, (const char *[]){"h", "min"});
    else
        write_two(text, ns, DAY, HOUR, (const char *[]){"d", "h"});
    return text;
}

bool rn_output_save(const char *path, const struct rn_buf *text)
{
    bool is_stdout = strcmp(path, "-") == 0;
    FILE *file = text->failed ? NULL : is_stdout ? stdout : fopen(path, "w");
    bool ok = file != NULL && fwrite(text->data, 1, text->len, file) == text->len;

    if (text->failed)
        return rn_output_error("out of memory for %s", rn_excerpt(rn_slice_of(path)).text);
    if (file != NULL && (is_stdout ? fflush(file) : fclose(file)) != 0)
        ok = false;
    return ok || rn_output_error("%s cannot be written: %s", rn_excerpt(rn_slice_of(path)).text,
                                 strerror(errno));
}

/* --- figures ------------------------------------------------------------------------ */

const char *rn_output_count(uint64_t count, char text[RN_COUNT_TEXT])
{
    char digits[24];
    int len = snprintf(digits, sizeof digits, "%" PRIu64, count), out = 0;

    for (int i = 0; i < len; i++) {
        if (i != 0 && (len - i) % 3 == 0)
            text[out++] = ',';
        text[out++] = digits[i];
    }
    text[out] = '\0';
    return text;
}

const char *rn_output_share(uint64_t part, uint64_t whole, char text[RN_COUNT_TEXT])
{
    double percent = whole == 0 ? 0 : 100.0 * (double)part / (double)whole;

    if (part < whole && percent > 99.9)
        percent = 99.9; /* 100 % is all of them */
    if (whole == 0)
        snprintf(text, RN_COUNT_TEXT, "-");
    else if (part == 0)
        snprintf(text, RN_COUNT_TEXT, "0 %%");
    else if (percent < 0.001)
        snprintf(text, RN_COUNT_TEXT, "< 0.001 %%");
    else
        snprintf(text, RN_COUNT_TEXT, "%.*f %%",
                 percent < 0.01                  ? 3
                 : percent < 0.1                 ? 2
                 : percent < 9.95                ? 1
                 : percent < 99 || part >= whole ? 0
                                                 : 1,
                 percent);
    return text;
}

const char *rn_output_moment(int64_t unix_ns, char text[RN_TIME_TEXT])
{
    int64_t seconds = unix_ns / 1000000000, day = rn_civil_day_of(seconds);
    struct rn_civil date = rn_civil_of_days(day);
    int clock = (int)(seconds - day * RN_DAY_S);

    snprintf(text, RN_TIME_TEXT, "%04d-%02d-%02d %02d:%02d:%02d", (int)date.year, date.month,
             date.day, clock / 3600, clock / 60 % 60, clock % 60);
    return text;
}
