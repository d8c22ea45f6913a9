/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Comma-separated values (RFC 4180, but each record is one line), also with semicolons or tabs.
 */
#include <stdio.h>
#include <string.h>

#include "cli/logs/format.h"

/* One field from `at` on, which moves behind it. Quotes are removed in place. */
static struct rn_slice next_field(char **at, char *end, char delimiter)
{
    char *from = *at, *to;

    if (from == end || *from != '"') {
        to = memchr(from, delimiter, (size_t)(end - from));
        to = to != NULL ? to : end;
        *at = to;
        return (struct rn_slice){from, (size_t)(to - from)};
    }
    to = from;
    for (char *in = from + 1; in < end; in++) {
        if (*in == '"' && in + 1 < end && in[1] == '"')
            in++;
        else if (*in == '"') {
            *at = in + 1;
            return (struct rn_slice){from, (size_t)(to - from)};
        }
        *to++ = *in;
    }
    *at = NULL; /* the quotes do not end */
    return (struct rn_slice){from, 0};
}

static bool split_csv(struct rn_logs_reader *r, struct rn_slice line)
{
    char *at = (char *)(uintptr_t)line.data, *end = at + line.len; /* ours to change: format.h */
    uint8_t slot = RN_LOGS_FIRST;

    for (; slot < RN_LOGS_SLOTS; slot++) {
        struct rn_slice value = next_field(&at, end, r->delimiter);

        if (at == NULL || (at < end && *at != r->delimiter))
            return false;
        rn_logs_keep(r, slot, value.data, value.data + value.len);
        if (at == end)
            break;
        at++;
    }
    return slot == r->slot_count - 1;
}

/* The delimiter that the first line has most. */
static char find_delimiter(struct rn_slice line)
{
    static const char delimiters[] = ",;\t";
    size_t most = 0;
    char best = '\0';

    for (const char *d = delimiters; *d != '\0'; d++) {
        size_t count = 0;

        for (size_t i = 0; i < line.len; i++)
            count += line.data[i] == *d;
        if (count > most) {
            most = count;
            best = *d;
        }
    }
    return best;
}

static bool add_title(struct rn_logs_reader *r, const char *text, size_t len)
{
    char *out = r->text + r->text_len;

    if (r->name_count == RN_LOGS_NAMES || len > sizeof r->text - r->text_len)
        return false;
    memcpy(out, text, len);
    r->text_len += len;
    r->names[r->name_count++] = (struct rn_logs_name){{out, len}, r->slot_count, 0};
    return true;
}

bool rn_logs_read_titles(struct rn_logs_reader *r, struct rn_slice titles)
{
    char *at = (char *)(uintptr_t)titles.data, *end = at + titles.len;

    r->delimiter = find_delimiter(titles);
    if (r->delimiter == '\0' || memchr(titles.data, '{', titles.len) != NULL)
        return false;
    for (unsigned number = 1; r->slot_count < RN_LOGS_SLOTS; number++) {
        struct rn_slice title = next_field(&at, end, r->delimiter);
        char text[8];
        int len = snprintf(text, sizeof text, "%u", number);

        if (at == NULL || !add_title(r, title.data, title.len) || !add_title(r, text, (size_t)len))
            return false;
        r->slot_count++;
        if (at == end)
            return true;
        if (*at++ != r->delimiter)
            return false;
    }
    return false;
}

static const struct rn_logs_default csv_defaults[] = {
    {"time", "timestamp"}, {"time", "ts"},  {"ip", "client_ip"}, {"ip", "remote_addr"},
    {"user", "user_id"},   {"path", "uri"}, {"path", "url"},     {NULL, NULL}};

const struct rn_logs_format rn_logs_csv = {
    .name = "csv",
    .title = "CSV whose first line has titles",
    .times = "the time is taken as when a request arrived; --map end=FIELD says when it ended",
    .defaults = csv_defaults,
    .header_prefix = "header.",
    .unit_ns = 1000000000,
    .titled = true,
    .split = split_csv,
};
