/* SPDX-License-Identifier: Apache-2.0 */
/* Calendars of limits that callers bring along: made once, and bounded. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <ration/ration.h>

#include "limiter/calendars.h"

static const struct ration_limit abroad = {.algorithm = RATION_FIXED_WINDOW,
                                           .amount = 5,
                                           .calendar = RATION_CALENDAR_YEAR,
                                           .zone = "Europe/Rome"};
static const struct ration_limit utc = {
    .algorithm = RATION_FIXED_WINDOW, .amount = 5, .calendar = RATION_CALENDAR_YEAR};

/* As if each number were a unit and a zone of its own. */
static int attach(struct rn_calendars *calendars, const struct ration_limit *spec, uint64_t id,
                  struct rn_limit *limit)
{
    *limit = (struct rn_limit){.calendar_id = id};
    return rn_calendars_attach(calendars, spec, limit, NULL);
}

static void a_calendar_is_made_once(void **state)
{
    struct rn_calendars *calendars = rn_calendars_new();
    struct rn_limit first, again;

    (void)state;
    assert_int_equal(attach(calendars, &abroad, 7, &first), 0);
    assert_int_equal(attach(calendars, &abroad, 7, &again), 0);
    assert_non_null(first.calendar);
    assert_ptr_equal(first.calendar, again.calendar);
    rn_calendars_free(calendars);
}

static void many_time_zones_leave_room_for_utc(void **state)
{
    struct rn_calendars *calendars = rn_calendars_new();
    struct rn_limit limit;
    uint64_t id = 1;

    (void)state;
    while (id <= RN_CALENDARS_MAX)
        assert_int_equal(attach(calendars, &abroad, id++, &limit), 0);
    assert_int_equal(attach(calendars, &abroad, id++, &limit), RATION_EFULL);
    for (int i = 0; i < RN_CALENDARS_UTC; i++)
        assert_int_equal(attach(calendars, &utc, id++, &limit), 0);
    assert_int_equal(attach(calendars, &abroad, 1, &limit), 0); /* those that are there serve on */
    rn_calendars_free(calendars);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_calendar_is_made_once),
        cmocka_unit_test(many_time_zones_leave_room_for_utc),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
