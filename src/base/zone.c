/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parsing TZif files and finding the offset at a time. A file is
 *
 *   header, block of 32-bit times            all there is in version 1
 *   header, block of 64-bit times, footer    versions 2 and up: these count
 *
 * where a block is, in this order and without padding (RFC 8536, 3.2):
 *
 *   times, one type index each, types {offset, is summer, name index}, names,
 *   leap seconds, two arrays of flags
 *
 * and the footer, between newlines, is the rule after the last time. Every count in a header
 * is checked against the size of the file.
 */
#include "base/zone.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/zone_rule.h"

#define DIRECTORY "/usr/share/zoneinfo"
#define HEADER_BYTES 44
#define TYPE_BYTES 6
/* The largest file of the tz database has less than 4 KB. */
#define FILE_BYTES_MAX 65536
/* About two thousand million years; beyond it the offset is that of the bound. */
#define TIME_BOUND_S (INT64_C(1) << 56)

struct transition {
    int64_t at_s;
    int32_t offset_s; /* from then on */
};

struct rn_zone {
    int32_t first_offset_s; /* before the first transition */
    bool has_rule;          /* from the last transition on */
    struct rn_zone_rule rule;
    uint32_t count;
    struct transition transitions[];
};

/* One header and where the parts of its block are. */
struct block {
    const unsigned char *times, *indices, *types;
    uint32_t time_count, type_count, leap_count;
    unsigned time_bytes;
    size_t end; /* position behind it */
};

static uint64_t read_big_endian(const unsigned char *bytes, unsigned n)
{
    uint64_t value = 0;

    while (n-- > 0)
        value = value << 8 | *bytes++;
    return value;
}

static int64_t read_time(const unsigned char *bytes, unsigned n)
{
    uint64_t value = read_big_endian(bytes, n);

    return n == 4 ? (int64_t)(int32_t)(uint32_t)value : (int64_t)value;
}

/* Returns NULL, or what is wrong. `pos` must be within the file. */
static const char *read_block(const unsigned char *bytes, size_t len, size_t pos,
                              unsigned time_bytes, struct block *b)
{
    const unsigned char *header = bytes + pos;
    uint64_t count[6], size;

    if (len - pos < HEADER_BYTES || memcmp(header, "TZif", 4) != 0)
        return pos == 0 ? "is not one" : "is cut short";
    for (unsigned i = 0; i < 6; i++)
        count[i] = read_big_endian(header + 20 + 4 * i, 4);

    uint64_t flags = count[0] + count[1], leaps = count[2], times = count[3], types = count[4],
             name_bytes = count[5];

    /* Cannot overflow: sums of 32-bit numbers times small ones. */
    size = times * (time_bytes + 1) + types * TYPE_BYTES + name_bytes + leaps * (time_bytes + 4) +
           flags;
    if (size > len - pos - HEADER_BYTES)
        return "is cut short";
    b->times = header + HEADER_BYTES;
    b->indices = b->times + times * time_bytes;
    b->types = b->indices + times;
    b->time_count = (uint32_t)times;
    b->type_count = (uint32_t)types;
    b->leap_count = (uint32_t)leaps;
    b->time_bytes = time_bytes;
    b->end = pos + HEADER_BYTES + (size_t)size;
    return NULL;
}

static const char *read_offset(const struct block *b, uint32_t type, int32_t *offset_s)
{
    if (type >= b->type_count)
        return "names a kind of time that it does not have";

    int64_t offset = read_time(b->types + (size_t)type * TYPE_BYTES, 4);

    if (offset <= -RN_ZONE_OFFSET_BOUND_S || offset >= RN_ZONE_OFFSET_BOUND_S)
        return "has an offset of 26 hours or more";
    *offset_s = (int32_t)offset;
    return NULL;
}

static const char *read_transitions(const struct block *b, struct rn_zone *zone)
{
    const char *fault = read_offset(b, 0, &zone->first_offset_s);

    for (uint32_t i = 0; !fault && i < b->time_count; i++) {
        struct transition *t = &zone->transitions[i];

        t->at_s = read_time(b->times + (size_t)i * b->time_bytes, b->time_bytes);
        fault = read_offset(b, b->indices[i], &t->offset_s);
        if (i > 0 && t->at_s <= t[-1].at_s)
            fault = "has times that are not in order";
    }
    zone->count = b->time_count;
    return fault;
}

static const char *read_footer(const unsigned char *bytes, size_t len, struct rn_zone *zone)
{
    const unsigned char *end = len > 1 ? memchr(bytes + 1, '\n', len - 1) : NULL;

    if (len == 0 || bytes[0] != '\n' || end == NULL)
        return "lacks the rule at its end";

    size_t rule_len = (size_t)(end - bytes) - 1;

    zone->has_rule = rule_len != 0;
    if (zone->has_rule && !rn_zone_rule_parse((const char *)bytes + 1, rule_len, &zone->rule))
        return "ends with a rule that cannot be understood";
    return NULL;
}

int rn_zone_parse(const void *data, size_t len, struct rn_zone **zone, struct ration_error *error)
{
    const unsigned char *bytes = data;
    struct rn_zone *made = NULL;
    struct block b;
    const char *fault = read_block(bytes, len, 0, 4, &b);
    bool is_long = !fault && bytes[4] >= '2';

    if (is_long)
        fault = read_block(bytes, len, b.end, 8, &b);
    if (!fault && b.leap_count != 0)
        fault = "counts leap seconds, which Unix time does not";
    if (!fault) {
        made = calloc(1, sizeof *made + b.time_count * sizeof made->transitions[0]);
        if (made == NULL)
            return rn_error_set(error, RATION_ENOMEM, 0, "out of memory");
        fault = read_transitions(&b, made);
    }
    if (!fault && is_long)
        fault = read_footer(bytes + b.end, len - b.end, made);
    if (fault) {
        free(made);
        return rn_error_set(error, RATION_EPARSE, 0, "a time zone file that %s", fault);
    }
    *zone = made;
    return 0;
}

void rn_zone_free(struct rn_zone *zone)
{
    free(zone);
}

/* ---- files */

/* No way out of the directory, and no odd characters. */
static bool is_zone_name(const char *name)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+-/";
    size_t len = strlen(name);

    return len != 0 && strspn(name, letters) == len && name[0] != '/' && name[len - 1] != '/' &&
           strstr(name, "//") == NULL;
}

static int fail_to_open(const char *name, const char *directory, struct ration_error *error)
{
    struct stat found;

    if (errno != ENOENT && errno != ENOTDIR)
        return rn_error_set(error, RATION_EIO, 0, "cannot read the file of time zone %s: %s",
                            rn_error_quote(name, strlen(name), 0).text, strerror(errno));
    if (stat(directory, &found) != 0)
        return rn_error_set(error, RATION_EINVAL, 0,
                            "no time zones in %s; install tzdata, set TZDIR, or use UTC",
                            directory);
    return rn_error_set(error, RATION_EINVAL, 0,
                        "unknown time zone %s; write one of the tz database, letter case "
                        "included, such as Europe/Rome, America/New_York or UTC",
                        rn_error_quote(name, strlen(name), 0).text);
}

static int load_open(int fd, struct rn_zone **zone, struct ration_error *error)
{
    struct stat found;
    unsigned char *bytes;
    size_t len = 0;
    ssize_t got;
    int failed;

    if (fstat(fd, &found) != 0 || !S_ISREG(found.st_mode) || found.st_size > FILE_BYTES_MAX)
        return rn_error_set(error, RATION_EPARSE, 0, "a time zone file that is not one");
    bytes = malloc(FILE_BYTES_MAX);
    if (bytes == NULL)
        return rn_error_set(error, RATION_ENOMEM, 0, "out of memory");
    while ((got = read(fd, bytes + len, FILE_BYTES_MAX - len)) != 0 && (got > 0 || errno == EINTR))
        len += got > 0 ? (size_t)got : 0;
    failed = got < 0 ? rn_error_set(error, RATION_EIO, 0, "%s", strerror(errno))
                     : rn_zone_parse(bytes, len, zone, error);
    free(bytes);
    return failed;
}

static int load_file(const char *name, struct rn_zone **zone, struct ration_error *error)
{
    const char *directory = getenv("TZDIR");
    char path[PATH_MAX];
    struct ration_error inner;

    if (directory == NULL || directory[0] == '\0')
        directory = DIRECTORY;
    if (snprintf(path, sizeof path, "%s/%s", directory, name) >= (int)sizeof path)
        return rn_error_set(error, RATION_EINVAL, 0, "TZDIR is too long a path");

    /* Without blocking: it may be a FIFO. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

    if (fd < 0)
        return fail_to_open(name, directory, error);

    int failed = load_open(fd, zone, &inner);

    close(fd);
    return failed ? rn_error_set(error, failed, 0, "time zone %s: %s",
                                 rn_error_quote(name, strlen(name), 0).text, inner.text)
                  : 0;
}

int rn_zone_load(const char *name, struct rn_zone **zone, struct ration_error *error)
{
    if (name[0] == '\0' || strcmp(name, "UTC") == 0) {
        struct rn_zone *utc = calloc(1, sizeof *utc);

        if (utc == NULL)
            return rn_error_set(error, RATION_ENOMEM, 0, "out of memory");
        *zone = utc;
        return 0;
    }
    if (!is_zone_name(name))
        return rn_error_set(error, RATION_EINVAL, 0,
                            "%s is not the name of a time zone; write one such as Europe/Rome, "
                            "America/New_York or UTC",
                            rn_error_quote(name, strlen(name), 0).text);
    return load_file(name, zone, error);
}

/* ---- times */

/* The number of transitions at or before the time. */
static uint32_t count_past(const struct rn_zone *zone, int64_t at_s)
{
    uint32_t low = 0, high = zone->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;

        if (zone->transitions[middle].at_s <= at_s)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

int32_t rn_zone_offset_at(const struct rn_zone *zone, int64_t unix_s)
{
    int64_t at = unix_s < -TIME_BOUND_S  ? -TIME_BOUND_S
                 : unix_s > TIME_BOUND_S ? TIME_BOUND_S
                                         : unix_s;
    uint32_t past = count_past(zone, at);

    if (past == zone->count && zone->has_rule)
        return rn_zone_rule_offset(&zone->rule, at);
    return past == 0 ? zone->first_offset_s : zone->transitions[past - 1].offset_s;
}

/* The first change after the time, INT64_MAX if there is none. */
static int64_t next_change(const struct rn_zone *zone, int64_t at_s)
{
    uint32_t past = count_past(zone, at_s);

    if (past < zone->count)
        return zone->transitions[past].at_s;
    return zone->has_rule ? rn_zone_rule_next(&zone->rule, at_s) : INT64_MAX;
}

int64_t rn_zone_local_to_unix(const struct rn_zone *zone, struct rn_civil date)
{
    int64_t midnight = rn_civil_days(date) * RN_DAY_S;

    /* Starts when no clock shows that midnight yet, and looks at one period of constant offset
     * after the other. */
    for (int64_t from = midnight - RN_ZONE_OFFSET_BOUND_S;;) {
        int64_t shown_at = midnight - rn_zone_offset_at(zone, from);
        int64_t until = next_change(zone, from);

        if (shown_at < from)
            shown_at = from;
        if (shown_at < until)
            return shown_at;
        from = until;
    }
}
