/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Usage: the units admitted and refused for each client of a rule and calendar period, by name, for
 * rules with `usage`.
 *
 * Usage is kept beside the state file, in FILE.usage, and shared by all processes that share
 * it. A decision is charged, then added to the usage, then answered: after a kill, usage has at
 * least what was answered and at most that and what was being answered. Units that are given back
 * (a refund, a commit below the reservation) leave the usage again; late debits join it.
 *
 * The file has room for a number of clients and periods. Beyond that, units are added to the
 * row `other` of the rule and period, so that sums stay exact.
 */
#ifndef RATION_USAGE_H
#define RATION_USAGE_H

#include <ration/ration.h>

#define RATION_PERIOD_TEXT 24
/* Longer names of clients are cut, and end in ~ and 16 hexadecimal digits. */
#define RATION_USAGE_CLIENT_MAX 96

/* One row, as long as `see` runs. */
struct ration_usage {
    const char *rule; /* not terminated, as is: */
    size_t rule_len;
    const char *client; /* the parts of its key, with spaces between them, ATTRIBUTE=VALUE where the
                           key has a choice (api_key or ip); in keys of several parts, %20 is a
                           space and %25 a percent sign. Empty: all clients of a rule without a
                           key */
    size_t client_len;
    bool other;                      /* the clients that had no room; `client` is empty */
    int64_t start_s, end_s;          /* of the period, as Unix time */
    char period[RATION_PERIOD_TEXT]; /* its name: 2026-11, 2026-11-18, 2026-W47, 2026 */
    char zone[RATION_ZONE_TEXT];     /* whose calendar; empty: UTC */
    int64_t admitted;                /* units; below 0 if more was given back here than
                                        admitted, as other nodes had admitted it */
    uint64_t refused;
    int64_t corrected; /* the sum of all corrections; not part of `admitted` */
};

struct ration_usage_query {
    const char *rule; /* NULL: all */
    size_t rule_len;
    const char *client; /* NULL: all; the whole name, also where it is cut in the rows */
    size_t client_len;
    const char *period; /* NULL: all that are kept; "current", "last", or a name */
    size_t period_len;
    int64_t at_s; /* what is current, last and kept, as Unix time; 0: now */
    /* ration_usage_each: */
    uint64_t cursor; /* 0: from the beginning; else *next of the call before */
    size_t limit;    /* the most rows; 0: all */
};

/* Calls `see` for each row, once, until it returns non-zero; in no particular order. Counting goes
 * on meanwhile. *next (may be NULL) is the cursor behind the last row that was seen, also
 * after a restart; 0: there are no more. A row in which all is 0 is left out, unless rule, client
 * and period are given. RATION_EINVAL: the period is not one. Without usage there are no rows.
 * `error` may be NULL. */
RATION_API int ration_usage_each(struct ration *r, const struct ration_usage_query *query,
                                 int (*see)(void *arg, const struct ration_usage *usage), void *arg,
                                 uint64_t *next, struct ration_error *error);

/* Adds to the corrections of one row: rule, client and period must be given. A client that has none
 * gets a row, if the rule has a key of one attribute and counts usage now. RATION_ENORULE: no such
 * rule has usage; RATION_EINVAL: not a period of the rule that is kept, or no such client;
 * RATION_EFULL: no room for a row. */
RATION_API int ration_usage_correct(struct ration *r, const struct ration_usage_query *which,
                                    int64_t units, struct ration_error *error);

struct ration_usage_totals {
    bool open;            /* rules have `usage`, or had it since the limiter was opened */
    uint64_t entries;     /* rows of clients, nearly; also of periods that are not kept any more */
    uint64_t capacity;    /* rows that fit */
    uint64_t other;       /* how often units went to `other` since the file was made */
    uint64_t bytes;       /* of the file */
    uint64_t incarnation; /* which file: another number if it was replaced */
};
RATION_API void ration_usage_totals(const struct ration *r, struct ration_usage_totals *totals);

#endif
