/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dates of the (proleptic) Gregorian calendar as days since 1970-01-01. Pure arithmetic;
 * time zones are in base/zone.h.
 */
#ifndef RN_BASE_CIVIL_H
#define RN_BASE_CIVIL_H

#include <stdbool.h>
#include <stdint.h>

#define RN_DAY_S INT64_C(86400)

struct rn_civil {
    int64_t year;   /* 0 is the year before 1 */
    int month, day; /* from 1 */
};

/* Days since 1970-01-01. A day beyond the end of the month runs into the next one. The month
 * must be 1 to 12, the year within ±10^12. */
int64_t rn_civil_days(struct rn_civil date);

/* The inverse, for days within ±10^14. */
struct rn_civil rn_civil_of_days(int64_t days);

bool rn_civil_is_leap(int64_t year);

/* 0 is Sunday. */
int rn_civil_weekday(int64_t days);

/* The day that contains the time `seconds` after 1970-01-01 00:00. */
static inline int64_t rn_civil_day_of(int64_t seconds)
{
    return seconds / RN_DAY_S - (seconds % RN_DAY_S < 0);
}

#endif
