/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the days, weeks, months and years of a time zone begin, as one table
 * made beforehand: deciding then takes a search in it and no calendar.
 */
#ifndef RN_BASE_CALENDAR_H
#define RN_BASE_CALENDAR_H

#include <stdint.h>

#include <ration/limit.h>

#include "base/zone.h"

/* What a table should cover: long enough that nobody outlives it, and days,
 * the most numerous, take 114 KB. */
#define RN_CALENDAR_YEARS 40

/* Fills `*ends` with the boundaries of the unit around and after `from_s`, in
 * nanoseconds since 1970, ascending: (*ends)[0] is the last one at or before
 * from_s, the last entry the first one at or after `years` (1 to 50) years of
 * 365.2425 days later. Units of no length, such as a day that a zone left out,
 * are left out. Weeks begin on Monday.
 *
 * The caller frees *ends with free(). Returns RATION_ENOMEM, or RATION_EINVAL
 * for a from_s not between the years 1770 and 2170, or an unknown unit. */
int rn_calendar_ends(const struct rn_zone *zone, enum ration_calendar unit, int64_t from_s,
                     unsigned years, int64_t **ends, uint32_t *count);

/* The same by the zone's name ("" is UTC), as limits have it: from 2020 on, for 50 years.
 * RATION_ENOMEM, or what is wrong with the zone, with a message. */
int rn_calendar_load(const char *zone, enum ration_calendar unit, int64_t **ends, uint32_t *count,
                     struct ration_error *error);

#endif
