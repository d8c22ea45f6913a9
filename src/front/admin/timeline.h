/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was decided in the last hour, second by second, and in the last day, minute by minute: in
 * all, and for the busiest rules. Memory is reserved at the start. For one thread; time is an
 * argument.
 *
 * A second is known by its end, as Unix time of when the history began: `end` 1000 is what was
 * counted from 999 to 1000. A step of the wall clock moves the names of all, and opens no gap.
 */
#ifndef RN_FRONT_ADMIN_TIMELINE_H
#define RN_FRONT_ADMIN_TIMELINE_H

#include "limiter/rulebook/activity.h"
#include "wire/metrics.h"

#define RN_TIMELINE_SECONDS 3600
#define RN_TIMELINE_MINUTES 1440
#define RN_TIMELINE_RULES 100    /* that have a history */
#define RN_TIMELINE_NAME_MAX 256 /* rules with longer names have none */
#define RN_TIMELINE_LATE_MAX 3   /* seconds that may pass between samples; more are a gap */

/* Kinds of numbers. Rules have those before RN_TIMELINE_RULE_KINDS. */
enum rn_timeline_kind {
    RN_TIMELINE_ALLOWED,
    RN_TIMELINE_REFUSED,
    RN_TIMELINE_DELAYED,
    RN_TIMELINE_SHADOWED,
    RN_TIMELINE_RULE_KINDS,
    RN_TIMELINE_ERRORS = RN_TIMELINE_RULE_KINDS,
    RN_TIMELINE_NEAR,
    RN_TIMELINE_UNMATCHED,
    RN_TIMELINE_COUNTS,                   /* those before are counts, */
    RN_TIMELINE_P50 = RN_TIMELINE_COUNTS, /* these are times in ns */
    RN_TIMELINE_P99,
    RN_TIMELINE_KINDS
};
extern const char *const rn_timeline_names[RN_TIMELINE_KINDS];

#define RN_TIMELINE_NONE UINT32_MAX /* no data */

/* Rings, by second and by minute. 0: no data, n + 1: n. So memory that was never written to, and
 * takes no room yet, is without data. */
struct rn_timeline_series {
    uint32_t seconds[RN_TIMELINE_SECONDS];
    uint32_t minutes[RN_TIMELINE_MINUTES + 1]; /* and the one that is not over */
};

struct rn_timeline_rule {
    uint64_t hash;
    size_t name_len; /* 0: this place is free */
    char name[RN_TIMELINE_NAME_MAX];
    struct rn_timeline_series series[RN_TIMELINE_RULE_KINDS];
};

struct rn_timeline {
    struct rn_activity *activity;
    struct ration *limiter;
    int64_t offset_ns; /* from the boot-time clock to the names of seconds */
    int64_t shift_s;   /* from these names to Unix time, after steps of the wall clock */
    int64_t end;       /* of the last second there is */
    uint64_t seen[RN_TIMELINE_COUNTS];
    struct rn_histogram seen_latency;
    uint64_t minute_latency[RN_HISTOGRAM_BUCKETS]; /* of the minute that is not over */

    /* Of the last sample: the seconds that it has added, 0 to RN_TIMELINE_LATE_MAX, and what they
     * share. Counts are of all of them together. */
    unsigned fresh;
    uint32_t counted[RN_TIMELINE_KINDS];

    struct rn_timeline_series total[RN_TIMELINE_KINDS];
    struct rn_timeline_rule rules[RN_TIMELINE_RULES];
};

/* Begins at this time of both clocks. NULL: out of memory. */
struct rn_timeline *rn_timeline_new(struct ration *limiter, int64_t boot_ns, int64_t wall_ns);
void rn_timeline_free(struct rn_timeline *timeline);
/* The memory that it has reserved. */
size_t rn_timeline_bytes(void);

/* Whether a second is over since the last sample. */
bool rn_timeline_is_due(const struct rn_timeline *timeline, int64_t boot_ns);
/* Takes a sample, if one is due. `latency`: how long all decisions have taken, since ever. If it
 * comes late, what was counted is shared by the seconds since the last; after a gap, all of them
 * have no data. */
void rn_timeline_sample(struct rn_timeline *timeline, int64_t boot_ns, int64_t wall_ns,
                        const struct rn_histogram *latency);

/* The part of `counted` that belongs to second `at` of the `fresh` ones. */
static inline uint32_t rn_timeline_share(uint32_t counted, unsigned fresh, unsigned at)
{
    return counted / fresh + (at == fresh - 1 ? counted % fresh : 0);
}

/* Unix time of an end. */
static inline int64_t rn_timeline_unix(const struct rn_timeline *timeline, int64_t end)
{
    return end + timeline->shift_s;
}

/* The last minute that is over, by its end in seconds. */
static inline int64_t rn_timeline_minute_end(const struct rn_timeline *timeline)
{
    return timeline->end / 60 * 60;
}

/* The number of the second, or minute, that ends at `end`, which is not later than the last and
 * not earlier than the rings reach. RN_TIMELINE_NONE: there is no data. */
uint32_t rn_timeline_second(const struct rn_timeline_series *series, int64_t end);
uint32_t rn_timeline_minute(const struct rn_timeline_series *series, int64_t end);

/* Writes a time as seconds: 0.0000123. Needs room for RN_TIMELINE_TIME_MAX bytes. */
#define RN_TIMELINE_TIME_MAX 32
char *rn_timeline_format_time(char *to, uint32_t ns);

/* The rule with this name that has a history; NULL: none. */
const struct rn_timeline_rule *rn_timeline_find(const struct rn_timeline *timeline,
                                                struct rn_slice name);

#endif
