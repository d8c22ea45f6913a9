/* SPDX-License-Identifier: Apache-2.0 */
#include "limiter/calendars.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/calendar.h"
#include "base/error.h"

struct rn_calendars {
    pthread_mutex_t lock;   /* for adding one */
    _Atomic uint32_t count; /* items below it never change */
    struct {
        uint64_t id;
        struct rn_calendar calendar;
    } items[RN_CALENDARS_MAX + RN_CALENDARS_UTC];
};

struct rn_calendars *rn_calendars_new(void)
{
    struct rn_calendars *calendars = calloc(1, sizeof *calendars);

    if (calendars && pthread_mutex_init(&calendars->lock, NULL) != 0) {
        free(calendars);
        calendars = NULL;
    }
    return calendars;
}

void rn_calendars_free(struct rn_calendars *calendars)
{
    if (!calendars)
        return;
    for (uint32_t i = 0; i < calendars->count; i++)
        free((void *)(uintptr_t)calendars->items[i].calendar.ends);
    pthread_mutex_destroy(&calendars->lock);
    free(calendars);
}

static const struct rn_calendar *find(const struct rn_calendars *calendars, uint64_t id)
{
    uint32_t count = atomic_load_explicit(&calendars->count, memory_order_acquire);

    for (uint32_t i = 0; i < count; i++)
        if (calendars->items[i].id == id)
            return &calendars->items[i].calendar;
    return NULL;
}

int rn_calendars_attach(struct rn_calendars *calendars, const struct ration_limit *spec,
                        struct rn_limit *limit, struct ration_error *error)
{
    const struct rn_calendar *calendar = find(calendars, limit->calendar_id);
    int code = 0;

    if (!calendar) {
        pthread_mutex_lock(&calendars->lock);
        calendar = find(calendars, limit->calendar_id); /* another thread may have added it */
        uint32_t at = atomic_load_explicit(&calendars->count, memory_order_relaxed), count;
        int64_t *ends;

        if (!calendar && at >= RN_CALENDARS_MAX + (spec->zone[0] == '\0' ? RN_CALENDARS_UTC : 0))
            code = rn_error_set(error, RATION_EFULL, 0,
                                "calendars of %d units and time zones are in use; use fewer zones",
                                RN_CALENDARS_MAX);
        else if (!calendar)
            code = rn_calendar_load(spec->zone, spec->calendar, &ends, &count, error);
        if (!calendar && code == 0) {
            calendars->items[at].id = limit->calendar_id;
            calendars->items[at].calendar = (struct rn_calendar){.ends = ends, .count = count};
            calendar = &calendars->items[at].calendar;
            atomic_store_explicit(&calendars->count, at + 1, memory_order_release);
        }
        pthread_mutex_unlock(&calendars->lock);
    }
    if (code == 0)
        rn_limit_set_calendar(limit, calendar);
    return code;
}
