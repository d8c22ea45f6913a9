/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/logs/feed.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "cli/output/output.h"
#include "rules/report/report.h"

/* A log is opened when the others have come this near to its first request. */
#define EARLY_NS INT64_C(1000000000)
#define OTHER_FILES 32 /* open beside logs */

/* --- one log --------------------------------------------------------------------------- */

static void note_fault(struct rn_feed *s, enum rn_logs_fault kind, struct rn_slice line)
{
    struct rn_feed_faults *f = &s->faults[kind];

    if (f->count < RN_FEED_SHOWN)
        f->lines[f->count] = s->input.line;
    if (f->count++ == 0) {
        f->excerpt_len = line.len < RN_FEED_EXCERPT - 1 ? line.len : RN_FEED_EXCERPT - 1;
        memcpy(f->excerpt, line.data, f->excerpt_len);
    }
}

/* Reads on to the next request. */
static void advance(struct rn_feed *s)
{
    struct rn_slice line;

    s->has_entry = false;
    while (rn_input_next(&s->input, &line)) {
        char before[RN_FEED_EXCERPT]; /* since reading may change it */
        size_t len = line.len < sizeof before ? line.len : sizeof before;
        enum rn_logs_fault fault;

        if (line.len == 0)
            continue;
        memcpy(before, line.data, len);
        s->lines++;
        fault = rn_logs_reader_read(s->reader, line, &s->entry);
        if (fault == RN_LOGS_GOOD) {
            s->requests++;
            s->has_entry = true;
            return;
        }
        note_fault(s, fault, (struct rn_slice){before, len});
    }
}

static void close_feed(struct rn_feed *s)
{
    if (s->is_open)
        rn_input_close(&s->input);
    s->is_open = false;
}

/* Skips empty lines and, if the format has them, takes the titles. */
static bool begin(struct rn_feed *s, const struct rn_logs_plan *plan,
                  const struct rn_logs_format *format)
{
    struct rn_slice titles = {"", 0};

    while (format->titled && titles.len == 0)
        if (!rn_input_next(&s->input, &titles))
            return rn_output_error("%s is empty, and should have titles in its first line",
                                   rn_excerpt(rn_slice_of(s->path)).text);
    if (!rn_logs_reader_init(s->reader, format, plan, titles))
        return rn_output_error("%s: nothing tells the time of requests in this log; write for "
                               "example --map time=FIELD",
                               rn_excerpt(rn_slice_of(s->path)).text);
    return true;
}

static bool complain_of_format(const struct rn_feed *s, struct rn_slice text)
{
    const char *end = memchr(text.data, '\n', text.len);
    struct rn_slice line = {text.data, end != NULL ? (size_t)(end - text.data) : text.len};

    rn_output_error("%s has no format that is known; its first line is %s",
                    rn_excerpt(rn_slice_of(s->path)).text, rn_excerpt(line).text);
    return rn_output_error("give --format, and for json and csv --map time=FIELD --map ip=FIELD; "
                           "\"ration help replay\" lists the formats");
}

static bool is_blank(struct rn_slice text)
{
    for (size_t i = 0; i < text.len; i++)
        if (text.data[i] != '\n' && text.data[i] != '\r')
            return false;
    return true;
}

static bool open_feed(struct rn_feed *s, const struct rn_logs_plan *plan,
                      const struct rn_logs_format *format)
{
    struct rn_slice text;

    s->is_open = true;
    if (!rn_input_open(&s->input, s->path))
        return false;
    text = rn_input_peek(&s->input);
    if (is_blank(text)) {
        s->done = true;
        return true;
    }
    if (format == NULL)
        format = rn_logs_detect(plan, text);
    if (format == NULL)
        return complain_of_format(s, text);
    return begin(s, plan, format);
}

/* --- all logs --------------------------------------------------------------------------- */

/* Finds out when a log begins. One that can be opened again is closed until then. */
static bool prepare(struct rn_feeds *all, struct rn_feed *s, const struct rn_logs_plan *plan,
                    const struct rn_logs_format *format)
{
    s->reader = calloc(1, sizeof *s->reader); /* without a format: the log is empty */
    if (s->reader == NULL)
        return rn_output_error("out of memory");
    if (!open_feed(s, plan, format))
        return false;
    if (!s->done)
        advance(s);
    s->done |= !s->has_entry;
    s->first_ns = s->entry.time_ns;
    all->bytes += s->input.size;
    if (s->input.size == 0 && !s->done)
        all->bytes = 0;
    return true;
}

/* Logs of the same time are open at once. If the system does not allow that, opening one fails. */
static void allow_open_files(size_t count)
{
    struct rlimit limit;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= count + OTHER_FILES)
        return;
    limit.rlim_cur = limit.rlim_max < count + OTHER_FILES ? limit.rlim_max : count + OTHER_FILES;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

bool rn_feeds_open(struct rn_feeds *all, const struct rn_logs_plan *plan,
                   const struct rn_logs_format *format, const char *const *paths, size_t count)
{
    *all = (struct rn_feeds){.items = calloc(count, sizeof *all->items), .count = count};
    if (all->items == NULL)
        return rn_output_error("out of memory");
    allow_open_files(count);
    for (size_t i = 0; i < count; i++) {
        struct rn_feed *s = &all->items[i];

        s->path = paths[i];
        if (!prepare(all, s, plan, format))
            return false;
        if (count == 1 || s->done || s->input.size == 0)
            continue;
        close_feed(s);
        *s = (struct rn_feed){.path = s->path, .reader = s->reader, .first_ns = s->first_ns};
    }
    return true;
}

void rn_feeds_close(struct rn_feeds *all)
{
    for (size_t i = 0; all->items != NULL && i < all->count; i++) {
        close_feed(&all->items[i]);
        free(all->items[i].reader);
    }
    free(all->items);
    all->items = NULL;
}

/* Opens a log for good. */
static bool reopen(struct rn_feed *s)
{
    const struct rn_logs_plan *plan = s->reader->plan;
    const struct rn_logs_format *format = s->reader->format;

    if (!open_feed(s, plan, format))
        return false;
    if (!s->done)
        advance(s);
    s->done |= !s->has_entry;
    return true;
}

static int64_t next_of(const struct rn_feed *s)
{
    return s->is_open ? s->entry.time_ns : s->first_ns - EARLY_NS;
}

/* Also notes how long it stays the oldest: there may be thousands of logs to look at. */
static struct rn_feed *find_oldest(struct rn_feeds *all)
{
    struct rn_feed *oldest = NULL;

    all->next_ns = INT64_MAX;
    for (size_t i = 0; i < all->count; i++) {
        struct rn_feed *s = &all->items[i];

        if (s->done)
            continue;
        if (oldest == NULL || next_of(s) < next_of(oldest)) {
            all->next_ns = oldest != NULL ? next_of(oldest) : INT64_MAX;
            oldest = s;
        } else if (next_of(s) < all->next_ns) {
            all->next_ns = next_of(s);
        }
    }
    return oldest;
}

const struct rn_logs_entry *rn_feeds_next(struct rn_feeds *all)
{
    struct rn_feed *s = all->last;

    if (s != NULL) {
        advance(s);
        if (!s->has_entry) {
            s->done = true;
            all->read_before += s->input.read;
            close_feed(s);
        }
    }
    if (all->count == 1) {
        s = &all->items[0];
        all->last = s->done ? NULL : s;
    } else if (s == NULL || s->done || s->entry.time_ns >= all->next_ns) {
        while ((s = find_oldest(all)) != NULL && !s->is_open && !all->failed)
            all->failed = !reopen(s);
        all->last = all->failed ? NULL : s;
    }
    return all->last != NULL ? &all->last->entry : NULL;
}

uint64_t rn_feeds_read(const struct rn_feeds *all)
{
    uint64_t sum = all->read_before;

    for (size_t i = 0; i < all->count; i++)
        sum += all->items[i].is_open && !all->items[i].done ? all->items[i].input.read : 0;
    return sum;
}
