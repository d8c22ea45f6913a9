/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Answers questions about time zones, one a line, for test_calendar.py:
 *
 *   offset ZONE SECONDS           the offset then
 *   ends ZONE UNIT SECONDS YEARS  the boundaries in seconds, UNIT being 1 to 4
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/calendar.h"

static void print_ends(const struct rn_zone *zone, int unit, int64_t from_s, unsigned years)
{
    int64_t *ends = NULL;
    uint32_t count = 0;

    if (rn_calendar_ends(zone, (enum ration_calendar)unit, from_s, years, &ends, &count) != 0)
        exit(1);
    for (uint32_t i = 0; i < count; i++)
        printf("%s%" PRId64, i ? " " : "", ends[i] / 1000000000);
    free(ends);
}

static struct rn_zone *load(const char *name)
{
    struct ration_error error;
    struct rn_zone *zone;

    if (rn_zone_load(name, &zone, &error) != 0) {
        fprintf(stderr, "%s\n", error.text);
        exit(1);
    }
    return zone;
}

int main(void)
{
    char line[200], name[64];
    int64_t seconds;
    int unit;
    unsigned years;

    while (fgets(line, sizeof line, stdin) != NULL) {
        if (sscanf(line, "offset %63s %" SCNd64, name, &seconds) == 2) {
            struct rn_zone *zone = load(name);

            printf("%" PRId32, rn_zone_offset_at(zone, seconds));
            rn_zone_free(zone);
        } else if (sscanf(line, "ends %63s %d %" SCNd64 " %u", name, &unit, &seconds, &years) ==
                   4) {
            struct rn_zone *zone = load(name);

            print_ends(zone, unit, seconds, years);
            rn_zone_free(zone);
        } else {
            return 2;
        }
        putchar('\n');
    }
    return 0;
}
