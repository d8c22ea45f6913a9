/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rule for all future changes of a time zone, as POSIX writes it in TZ:
 *
 *   CET-1CEST,M3.5.0,M10.5.0/3
 *
 * standard time and optionally summer time, with the two dates in each year on which clocks
 * change. Times are seconds since 1970, offsets seconds east.
 */
#ifndef RN_BASE_ZONE_RULE_H
#define RN_BASE_ZONE_RULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* When clocks change: a date in each year and a time of day, which may be negative or beyond
 * 24 h. */
struct rn_zone_edge {
    enum {
        RN_EDGE_JULIAN,  /* Jn: day 1 to 365, February 29th never counted */
        RN_EDGE_ORDINAL, /* n: day 0 to 365 */
        RN_EDGE_WEEKDAY, /* Mm.w.d: the w-th weekday d of month m, 5th is the last */
    } kind;
    int day; /* of the year, or of the week from Sunday = 0 */
    int month, week;
    int32_t time_s;
};

struct rn_zone_rule {
    int32_t standard_s;
    bool has_summer;
    int32_t summer_s;
    struct rn_zone_edge start, end; /* of summer, in local time before the change */
};

/* False: the text is not such a rule, and *rule is undefined. Summer time without dates is
 * refused: POSIX does not say what it means. */
bool rn_zone_rule_parse(const char *text, size_t len, struct rn_zone_rule *rule);

/* `at_s` must be within ±2^56. */
int32_t rn_zone_rule_offset(const struct rn_zone_rule *rule, int64_t at_s);

/* The first change after `at_s`, INT64_MAX if there is none. */
int64_t rn_zone_rule_next(const struct rn_zone_rule *rule, int64_t at_s);

#endif
