/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table of when the days, weeks, months or years of a time zone begin. Decisions search
 * it and need no calendar.
 */
#ifndef RN_BASE_CALENDAR_H
#define RN_BASE_CALENDAR_H

#include <stdint.h>

#include <ration/limit.h>

#include "base/zone.h"

/* How long a table should last: longer than a process, and 114 KB for days. */
#define RN_CALENDAR_YEARS 40

/* Fills `*ends` with the boundaries of the unit around and after `from_s`, in
 * nanoseconds since 1970, ascending: (*ends)[0] is the last one at or before
 * from_s, the last entry the first one at or after `years` (1 to 50) years of
 * 365.2425 days later. Units without length, such as a day that a zone skipped, are left
 * out. Weeks begin on Monday.
 *
 * The caller frees *ends with free(). Returns RATION_ENOMEM, or RATION_EINVAL for an
 * unknown unit or a from_s outside the years 1770 to 2170. */
int rn_calendar_ends(const struct rn_zone *zone, enum ration_calendar unit, int64_t from_s,
                     unsigned years, int64_t **ends, uint32_t *count);

/* The same by the zone's name ("" is UTC), for limits: from 2020 on, for 50 years. Errors
 * of the zone come with a message. */
int rn_calendar_load(const char *zone, enum ration_calendar unit, int64_t **ends, uint32_t *count,
                     struct ration_error *error);

/* One unit: when it begins and ends, as Unix time, and its name: 2026, 2026-11, 2026-11-18, or for
 * a week as in ISO 8601: 2026-W47. */
#define RN_CALENDAR_NAME 24
struct rn_calendar_span {
    int64_t start_s, end_s;
    char name[RN_CALENDAR_NAME];
};
/* The unit that contains at_s, a time within the years 1770 to 2170 (else the nearest of those). */
void rn_calendar_span(const struct rn_zone *zone, enum ration_calendar unit, int64_t at_s,
                      struct rn_calendar_span *span);

/* The unit that has this name: 2026, 2026-11, 2026-W47, 2026-11-18. RATION_CALENDAR_NONE: none has,
 * or there is no such day, week or month. */
enum ration_calendar rn_calendar_unit_named(const char *name, size_t len);

#endif
