/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lines of access logs as requests. A format splits a line into fields; a reader knows which
 * fields are the time, the status and the attributes that are wanted. Nothing is allocated for a
 * line.
 *
 * Fields have names. Those of a format of positions are the variables of nginx that have the same
 * value, then extra1, extra2, ... for what follows. In JSON they are the names of members, with
 * dots between those of nested objects (request.headers.User-Agent); of an array the first element
 * counts. In CSV they are the titles of columns or, without titles, their numbers from 1.
 */
#ifndef RN_CLI_LOGS_FORMAT_H
#define RN_CLI_LOGS_FORMAT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"
#include "cli/logs/moment.h"

#define RN_LOGS_LINE_MAX (64 << 10) /* longer lines are faulty */
#define RN_LOGS_ATTRIBUTES 32       /* most that can be read */
#define RN_LOGS_SLOTS 96            /* fields of a line that are kept; the rest is skipped */
#define RN_LOGS_NAMES 160           /* names by which fields are looked for */
#define RN_LOGS_NO_SLOT 255
#define RN_LOGS_MAPS 32

/* One request. */
struct rn_logs_entry {
    int64_t time_ns;                                /* when it arrived, since 1970 */
    int64_t duration_ns;                            /* -1: not known */
    uint32_t status;                                /* 0: not known */
    struct rn_slice attributes[RN_LOGS_ATTRIBUTES]; /* as in the plan; data NULL: absent. They point
                                                       into the line */
};

/* --map NAME=FIELD: an attribute, or one of `time`, `end`, `status`, `duration` and `request`, is
 * this field. */
struct rn_logs_map {
    struct rn_slice name, field;
};

/* What to read, of all logs alike. */
struct rn_logs_plan {
    struct rn_slice attributes[RN_LOGS_ATTRIBUTES]; /* the names of those that are wanted */
    uint32_t attribute_count;
    struct rn_logs_map maps[RN_LOGS_MAPS];
    uint32_t map_count;
};

/* By default a name is this field. Of several with one name, the first that a line has counts. */
struct rn_logs_default {
    const char *name, *field;
};

struct rn_logs_reader;

struct rn_logs_format {
    const char *name;          /* for --format */
    const char *title;         /* for people */
    const char *times;         /* what is known of its times */
    const char *const *fields; /* by position, to NULL; NULL: lines, or the first line, name them */
    const struct rn_logs_default *defaults; /* to a name of NULL */
    const char *header_prefix;              /* header.x-a is this and x-a, or x_a; NULL: none */
    int64_t unit_ns;                        /* of durations */
    bool titled;                            /* the first line has titles */
    /* Splits a line, which it may change, into reader->values. False: it is not of the format. */
    bool (*split)(struct rn_logs_reader *reader, struct rn_slice line);
};
extern const struct rn_logs_format *const rn_logs_formats[];
extern const size_t rn_logs_format_count;

/* A name in lines, and the slot for its value. */
struct rn_logs_name {
    struct rn_slice name;
    uint8_t slot, rank; /* of several for one slot the least rank counts */
};

/* The members of the last line of JSON, in order: those of the next are mostly the same. */
#define RN_LOGS_LEARNT 192
struct rn_logs_learnt {
    char name[40];
    uint8_t len;
    uint8_t parent; /* its number in order; 255: none */
    uint8_t slot, rank;
};

struct rn_logs_reader {
    const struct rn_logs_format *format;
    const struct rn_logs_plan *plan;
    uint8_t time, end, status, duration, request; /* slots, or RN_LOGS_NO_SLOT */
    uint8_t parts[3];                             /* of the duration, to be added (AWS) */
    int64_t unit_ns;                              /* of durations */
    uint8_t attributes[RN_LOGS_ATTRIBUTES];
    uint8_t of_request[RN_LOGS_ATTRIBUTES]; /* the part of the request line that has it, too */
    struct rn_moment_memory moments;
    enum rn_moment_grain grain; /* the finest of the times so far */
    bool has_duration;          /* a line had one */

    struct rn_slice values[RN_LOGS_SLOTS]; /* of the line; data NULL: absent, whatever len is */
    uint8_t ranks[RN_LOGS_SLOTS];
    uint32_t value_count; /* of positions: as many as the last line had */

    struct rn_logs_name names[RN_LOGS_NAMES]; /* of fields with names */
    uint32_t name_count;
    uint8_t slot_count; /* slots in use by names */
    char delimiter;     /* of CSV */
    char text[4096];    /* names that were made here */
    size_t text_len;
    struct rn_logs_learnt learnt[RN_LOGS_LEARNT];
    uint32_t learnt_count;
};

/* Slots that every reader has: the parts of a request line. */
enum { RN_LOGS_METHOD, RN_LOGS_TARGET, RN_LOGS_HOST, RN_LOGS_FIRST };

/* Prepares to read a format. `titles`: the first line of the log, if the format has titles. False:
 * without a time, the format cannot be read so. */
bool rn_logs_reader_init(struct rn_logs_reader *reader, const struct rn_logs_format *format,
                         const struct rn_logs_plan *plan, struct rn_slice titles);

enum rn_logs_fault {
    RN_LOGS_GOOD,
    RN_LOGS_SPLIT,  /* not of the format */
    RN_LOGS_TIME,   /* the time is missing or cannot be read */
    RN_LOGS_STATUS, /* the status is no number from 100 to 599 */
    RN_LOGS_LONG,   /* longer than RN_LOGS_LINE_MAX */
    RN_LOGS_BINARY, /* NUL bytes */
    RN_LOGS_FAULTS
};
/* Reads a line, without its end; the line may be changed, and the entry points into it. */
enum rn_logs_fault rn_logs_reader_read(struct rn_logs_reader *reader, struct rn_slice line,
                                       struct rn_logs_entry *entry);

/* Finds the format of a log by its first lines: `text` is its beginning, which is not changed, or
 * NULL out of memory. NULL: none. */
const struct rn_logs_format *rn_logs_detect(const struct rn_logs_plan *plan, struct rn_slice text);
/* NULL: there is none of this name. */
const struct rn_logs_format *rn_logs_format_of(const char *name);

/* For formats: keeps a value, `-` and an empty one as absent. */
static inline void rn_logs_keep(struct rn_logs_reader *reader, uint8_t slot, const char *from,
                                const char *to)
{
    size_t len = (size_t)(to - from);
    bool absent = len == 0 || (len == 1 && *from == '-');

    reader->values[slot] = absent ? (struct rn_slice){NULL, 0} : (struct rn_slice){from, len};
}
/* Removes backslashes of quoted text in place: \", \\, and \xNN. Returns the new end. */
char *rn_logs_unescape(char *from, char *to);
/* Splits `GET /path HTTP/1.1` into method, target and, of an absolute URL, host. */
void rn_logs_split_request(struct rn_logs_reader *reader, struct rn_slice request);

/* The formats, and how those of fields with names find a slot. */
extern const struct rn_logs_format rn_logs_combined, rn_logs_apache, rn_logs_haproxy, rn_logs_alb,
    rn_logs_nginx_json, rn_logs_caddy, rn_logs_traefik, rn_logs_envoy, rn_logs_json, rn_logs_csv;
bool rn_logs_read_titles(struct rn_logs_reader *reader, struct rn_slice titles);

#endif
