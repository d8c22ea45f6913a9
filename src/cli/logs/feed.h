/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Access logs as one stream of requests: several files are merged by time. Faulty lines are counted
 * by kind, and the first of each are remembered by number.
 */
#ifndef RN_CLI_LOGS_FEED_H
#define RN_CLI_LOGS_FEED_H

#include "cli/logs/format.h"
#include "cli/logs/input.h"

#define RN_FEED_SHOWN 3
#define RN_FEED_EXCERPT 64

/* Lines with one kind of fault. */
struct rn_feed_faults {
    uint64_t count;
    uint64_t lines[RN_FEED_SHOWN]; /* the first ones */
    char excerpt[RN_FEED_EXCERPT]; /* how the first one begins; any bytes, with a NUL behind */
    size_t excerpt_len;
};

/* One log. */
struct rn_feed {
    const char *path;
    struct rn_input input;
    struct rn_logs_reader *reader;
    bool is_open, has_entry, done;
    struct rn_logs_entry entry; /* the next one, if has_entry; points into the input's buffer */
    int64_t first_ns;
    uint64_t lines, requests; /* so far; lines that are empty are not counted */
    struct rn_feed_faults faults[RN_LOGS_FAULTS];
};

struct rn_feeds {
    struct rn_feed *items;
    size_t count;
    struct rn_feed *last; /* of the last request */
    int64_t next_ns;      /* no other log has a request before this */
    bool failed;          /* a log could not be opened again: an error message said so */
    uint64_t bytes;       /* of all files; 0: not known */
    uint64_t read_before; /* bytes of files that have been read to their end */
};

/* Opens logs and finds out their formats (`format`: NULL, or the one that all have). False after an
 * error message on stderr. Call rn_feeds_close in any case. */
bool rn_feeds_open(struct rn_feeds *feeds, const struct rn_logs_plan *plan,
                   const struct rn_logs_format *format, const char *const *paths, size_t count);
void rn_feeds_close(struct rn_feeds *feeds);

/* The next request of that log whose next request is the oldest. Valid until the next call. NULL:
 * there are no more, or `failed`. */
const struct rn_logs_entry *rn_feeds_next(struct rn_feeds *feeds);
/* Bytes of all files that have been read. */
uint64_t rn_feeds_read(const struct rn_feeds *feeds);

#endif
