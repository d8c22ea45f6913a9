/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Periods of usage as people name them, and names of clients as rows have them.
 */
#ifndef RN_LIMITER_USAGE_PERIODS_H
#define RN_LIMITER_USAGE_PERIODS_H

#include <ration/usage.h>

#include "base/calendar.h"
#include "base/slice.h"

#define RN_USAGE_KEEP_MAX 60
_Static_assert((int)RATION_PERIOD_TEXT == (int)RN_CALENDAR_NAME, "a name fits");

/* The periods of one rule that are kept, the current one first. */
struct rn_usage_periods {
    enum ration_calendar unit;
    struct rn_zone *zone;
    uint32_t count;
    struct rn_calendar_span spans[RN_USAGE_KEEP_MAX + 1];
};

/* 0, RATION_ENOMEM, or an error of the zone. rn_usage_periods_done frees what it has. */
int rn_usage_periods_init(struct rn_usage_periods *periods, enum ration_calendar unit,
                          const char *zone, uint32_t keep, int64_t now_s,
                          struct ration_error *error);
void rn_usage_periods_done(struct rn_usage_periods *periods);

/* The period that began at that time. False: it is not kept any more. (A period that lies ahead is
 * kept: the clock has been set back.) */
bool rn_usage_periods_find(const struct rn_usage_periods *periods, int64_t start_s,
                           struct rn_calendar_span *span);

/* What `period` of a query means under a calendar at that time: for "current" and "last" the name
 * of that period, else itself. RATION_EINVAL: it is neither; RATION_ENOMEM, or an error of
 * the zone. */
int rn_usage_period_resolve(struct rn_slice period, enum ration_calendar unit, const char *zone,
                            int64_t at_s, char name[RATION_PERIOD_TEXT],
                            struct ration_error *error);

/* A client as rows have it (struct ration_usage): two clients never have the same name, because
 * they would get each other's bills. `names` are those of the attributes where the key has a choice
 * (NULL, or data NULL: no choice). A name that looks like a cut one is cut, too. Returns the
 * length. */
size_t rn_usage_client(const struct rn_slice *parts, const struct rn_slice *names, size_t count,
                       char name[RATION_USAGE_CLIENT_MAX]);
/* The same of a name in a query: as in a row, or whole. */
size_t rn_usage_client_asked(struct rn_slice client, char name[RATION_USAGE_CLIENT_MAX]);

#endif
