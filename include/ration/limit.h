/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One limit as a plain value, and its text form:
 *
 *   100 per minute               token bucket of 100, refilled at 100 a minute
 *   100 per minute burst 20      the same rate, a bucket of 20
 *   100 per minute in steps of 6s  refilled by 10 every 6 seconds
 *   10 per second queue 50       leaky bucket: one leaves every 100 ms, 50 may wait
 *   5 per 7 days                 any length of period
 *   10000 per calendar month Europe/Rome  fixed window from the 1st to the 1st, there
 *   20 concurrent                at most 20 in flight
 *   5 to 500 concurrent          as many as the service takes without slowing down, 5 to 500
 *   unlimited
 */
#ifndef RATION_LIMIT_H
#define RATION_LIMIT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ration/error.h>

/* The numbers are part of state files, keys in Redis and tickets: append only. */
enum ration_algorithm {
    RATION_TOKEN_BUCKET = 0,
    RATION_LEAKY_BUCKET = 1,
    RATION_FIXED_WINDOW = 2,
    RATION_SLIDING_LOG = 3,
    RATION_SLIDING_WINDOW = 4,
    RATION_CONCURRENCY = 5,
    RATION_UNLIMITED = 6,
    RATION_OWN_ALGORITHM = 7, /* one of yours: `own` of the limit */
};

/* Periods of no fixed length. Weeks begin on Monday. The numbers are part of the keys of states:
 * append only. */
enum ration_calendar {
    RATION_CALENDAR_NONE = 0,
    RATION_CALENDAR_DAY = 1,
    RATION_CALENDAR_WEEK = 2,
    RATION_CALENDAR_MONTH = 3,
    RATION_CALENDAR_YEAR = 4,
};

#define RATION_ZONE_TEXT 40

struct ration_own_algorithm; /* algorithm.h */

struct ration_limit {
    enum ration_algorithm algorithm;
    uint64_t amount;       /* units per period; places for concurrency; 0 refuses all */
    int64_t period_ns;     /* not for concurrency and unlimited */
    uint64_t burst;        /* token bucket, own algorithm: capacity; 0 means amount */
    uint64_t queue;        /* leaky bucket: how many may wait besides the one leaving */
    uint32_t sub_windows;  /* sliding window: 0 weighs two windows, else 2 to 1024 */
    bool from_first;       /* fixed window: starts at the first request, not at the epoch */
    uint16_t adaptive_min; /* concurrency: not 0: the places are learnt, from this up to amount */
    int64_t step_ns;       /* token bucket: refill in steps of this length; 0 is lazy */
    int64_t lease_ns;      /* concurrency: a place frees itself after this; 0 means 60 s */

    /* Fixed window: ends where the calendar's unit does. period_ns is then the
     * length of the longest, 24 h, 7, 31 or 366 days, or 0, which means that. */
    enum ration_calendar calendar;
    char zone[RATION_ZONE_TEXT]; /* whose calendar: "Europe/Rome"; empty is UTC */

    const struct ration_own_algorithm *own; /* of RATION_OWN_ALGORITHM, else NULL; borrowed */
};

/* Bounds that ration_limit_check() enforces. */
#define RATION_AMOUNT_MAX UINT64_C(1000000000000000) /* 10^15 */
#define RATION_RATE_MAX UINT64_C(1000000000)         /* units a second */
#define RATION_PERIOD_MIN_NS INT64_C(1000)
#define RATION_PERIOD_MAX_NS (INT64_C(10) * 366 * 86400 * 1000000000) /* ten years */
#define RATION_LOG_MAX 65536
#define RATION_PLACES_MAX 16000
#define RATION_ADAPTIVE_MAX 10000 /* places whose number is learnt */
#define RATION_LEASE_MAX_NS (INT64_C(86400) * 1000000000)

/* Reads `len` bytes of text. On failure returns RATION_EPARSE or RATION_EINVAL
 * and fills `error` (may be NULL) with the position, what was found there and
 * what would be right. The result has passed ration_limit_check(). */
RATION_API int ration_limit_parse(const char *text, size_t len, struct ration_limit *limit,
                                  struct ration_error *error);

/* Writes the shortest text that parses back to the same amounts; the algorithm
 * is not part of the text beyond what `queue` and `concurrent` imply. Returns
 * the length without the terminating NUL; at most size - 1 bytes are written. */
RATION_API size_t ration_limit_write(const struct ration_limit *limit, char *out, size_t size);

/* 0 if the limit can be enforced, else RATION_EINVAL with the reason. */
RATION_API int ration_limit_check(const struct ration_limit *limit, struct ration_error *error);

/* "token-bucket", … , and "own" for yours, which parse does not know; parse answers RATION_EPARSE
 * for an unknown name. */
RATION_API const char *ration_algorithm_name(enum ration_algorithm algorithm);
RATION_API int ration_algorithm_parse(const char *text, size_t len,
                                      enum ration_algorithm *algorithm);

#endif
