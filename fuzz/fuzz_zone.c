/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as a time zone file: no crash, and whatever is accepted gives
 * offsets in range and days that begin in order, when clocks first show them. */
#include <stdint.h>
#include <stdlib.h>

#include "base/calendar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(int condition)
{
    if (!condition)
        abort();
}

static int64_t shown_at(const struct rn_zone *zone, int64_t at_s)
{
    int32_t offset = rn_zone_offset_at(zone, at_s);

    demand(offset > -RN_ZONE_OFFSET_BOUND_S && offset < RN_ZONE_OFFSET_BOUND_S);
    return at_s + offset;
}

static void try_days(const struct rn_zone *zone, int64_t year)
{
    int64_t last = INT64_MIN;

    for (int day = 1; day <= 3; day++) {
        struct rn_civil date = {year, 10, 27 + day};
        int64_t midnight = rn_civil_days(date) * RN_DAY_S;
        int64_t begin = rn_zone_local_to_unix(zone, date);

        demand(shown_at(zone, begin) >= midnight && shown_at(zone, begin - 1) < midnight);
        demand(begin >= last);
        last = begin;
    }
}

static void try_calendar(const struct rn_zone *zone, enum ration_calendar unit)
{
    const int64_t from_s = 1790000000;
    int64_t *ends;
    uint32_t count;

    demand(rn_calendar_ends(zone, unit, from_s, 1, &ends, &count) == 0 && count >= 2);
    demand(ends[0] / 1000000000 <= from_s && ends[1] / 1000000000 > from_s);
    for (uint32_t i = 1; i < count; i++)
        demand(ends[i - 1] < ends[i]);
    free(ends);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ration_error error;
    struct rn_zone *zone;

    if (rn_zone_parse(data, size, &zone, &error) != 0) {
        demand(error.text[0] != '\0');
        return 0;
    }
    rn_zone_offset_at(zone, INT64_MIN);
    rn_zone_offset_at(zone, INT64_MAX);
    for (int64_t year = 1900; year < 2100; year += 41)
        try_days(zone, year);
    try_days(zone, -1000000);
    try_days(zone, 1000000);
    try_calendar(zone, RATION_CALENDAR_WEEK);
    try_calendar(zone, RATION_CALENDAR_MONTH);
    rn_zone_free(zone);
    return 0;
}
