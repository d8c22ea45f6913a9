/* SPDX-License-Identifier: Apache-2.0 */
/* POSIX rules for the change of clocks: every way to write one, and when the
 * clocks change by it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/civil.h"
#include "base/zone_rule.h"

#define HOUR 3600

static int64_t utc(int64_t year, int month, int day, int hour, int minute)
{
    return rn_civil_days((struct rn_civil){year, month, day}) * RN_DAY_S + hour * HOUR +
           minute * 60;
}

static struct rn_zone_rule parse(const char *text)
{
    struct rn_zone_rule rule;

    if (!rn_zone_rule_parse(text, strlen(text), &rule))
        fail_msg("%s is refused", text);
    return rule;
}

static void a_rule_may_be_one_offset(void **state)
{
    struct rn_zone_rule rule = parse("<+0530>-5:30");

    (void)state;
    assert_int_equal(rn_zone_rule_offset(&rule, 0), 19800);
    assert_true(rn_zone_rule_next(&rule, 0) == INT64_MAX);
    rule = parse("LMT+0:00:01");
    assert_int_equal(rn_zone_rule_offset(&rule, 0), -1);
}

/* The offset changes to `after` at exactly that time. */
static void assert_change(const char *rule, int64_t at, int32_t before, int32_t after)
{
    struct rn_zone_rule r = parse(rule);

    assert_int_equal(rn_zone_rule_offset(&r, at - 1), before);
    assert_int_equal(rn_zone_rule_offset(&r, at), after);
    assert_true(rn_zone_rule_next(&r, at - 1) == at);
    assert_true(rn_zone_rule_next(&r, at) > at);
}

static void rules_have_three_ways_to_name_a_day(void **state)
{
    (void)state;
    assert_change("AAA0BBB,J59/0,J60/0", utc(2028, 2, 28, 0, 0), 0, HOUR);
    assert_change("AAA0BBB,J59/0,J60/0", utc(2028, 2, 29, 23, 0), HOUR, 0); /* March 1st */
    assert_change("AAA0BBB,J59/0,J60/0", utc(2027, 2, 28, 23, 0), HOUR, 0);
    assert_change("AAA0BBB,59/0,60/0", utc(2028, 2, 29, 0, 0), 0, HOUR);
    assert_change("AAA0BBB,59/0,60/0", utc(2027, 3, 1, 0, 0), 0, HOUR);
    assert_change("AAA0BBB,M2.5.0,M12.5.6", utc(2026, 2, 22, 2, 0), 0, HOUR);
    assert_change("AAA0BBB,M2.5.0,M12.5.6", utc(2026, 12, 26, 1, 0), HOUR, 0);
    assert_change("AAA0BBB,M2.5.2,M12.1.6", utc(2028, 2, 29, 2, 0), 0, HOUR);
}

static void times_of_day_may_be_negative_or_long(void **state)
{
    (void)state;
    /* Greenland: Saturday 22:00 before the last Sunday. */
    assert_change("<-02>2<-01>,M3.5.0/-1,M10.5.0/0", utc(2050, 3, 27, 1, 0), -2 * HOUR, -HOUR);
    /* Gaza before 2023: Saturday after the fourth Thursday. */
    assert_change("EET-2EEST,M3.4.4/50,M10.4.4/50", utc(2050, 3, 26, 0, 0), 2 * HOUR, 3 * HOUR);
    /* Both changes of 2031 happen in 2030, and both of 2029 in 2030 too. */
    assert_change("AAA0BBB,0/-100,0/-50", utc(2030, 12, 27, 20, 0), 0, HOUR);
    assert_change("AAA0BBB,0/-100,0/-50", utc(2030, 12, 29, 21, 0), HOUR, 0);
    assert_change("AAA0BBB,J365/50,J365/167", utc(2030, 1, 2, 2, 0), 0, HOUR);
    assert_change("AAA0BBB,J365/50,J365/167", utc(2030, 1, 6, 22, 0), HOUR, 0);
}

static void the_changes_of_a_year_may_all_fall_in_its_neighbour(void **state)
{
    struct rn_zone_rule early = parse("AAA0BBB,0/-100,0/-50");
    struct rn_zone_rule late = parse("AAA0BBB,J365/167,J365/50");

    (void)state;
    assert_true(rn_zone_rule_next(&early, utc(2030, 12, 31, 0, 0)) == utc(2031, 12, 27, 20, 0));
    assert_int_equal(rn_zone_rule_offset(&late, utc(2030, 1, 1, 0, 0)), HOUR);
    assert_int_equal(rn_zone_rule_offset(&late, utc(2030, 1, 3, 0, 0)), 0);
}

static void summer_time_can_be_permanent_southern_or_negative(void **state)
{
    struct rn_zone_rule rule = parse("EST5EDT,0/0,J365/25");

    (void)state;
    for (int64_t at = utc(2040, 1, 1, 4, 0); at < utc(2041, 1, 2, 0, 0); at += HOUR)
        assert_int_equal(rn_zone_rule_offset(&rule, at), -4 * HOUR);
    assert_change("AEST-10AEDT,M10.1.0,M4.1.0/3", utc(2050, 4, 2, 16, 0), 11 * HOUR, 10 * HOUR);
    assert_change("AEST-10AEDT,M10.1.0,M4.1.0/3", utc(2050, 10, 1, 16, 0), 10 * HOUR, 11 * HOUR);
    assert_change("IST-1GMT0,M10.5.0,M3.5.0/1", utc(2050, 3, 27, 1, 0), 0, HOUR);
    assert_change("LHST-10:30LHDT-11,M10.1.0,M4.1.0", utc(2050, 4, 2, 15, 0), 11 * HOUR, 37800);
}

static void what_is_no_rule_is_refused(void **state)
{
    static const char *const rules[] = {
        "",
        "X0",
        "CET",
        "1CET",
        "CET-1CEST",
        "CET-1CEST,M3.5.0",
        "CET-1CEST,M3.5.0,M10.5.0,",
        "CET-1CEST,M13.5.0,M10.5.0",
        "CET-1CEST,M3.6.0,M10.5.0",
        "CET-1CEST,M3.5.7,M10.5.0",
        "CET-1CEST,J0,J5",
        "CET-1CEST,J366,J5",
        "CET-1CEST,366,5",
        "CET-25",
        "CET-1:60",
        "CET1:",
        "CET-1CEST,J1/168,J5",
        "CET-1CEST,J1/,J5",
        "<+01-1",
        "<+01>",
        "CET-1 ",
        "CET-1CEST;J1,J5",
        "CET-999999999999",
        "CET-1CEST,J99999999999,J5",
    };

    (void)state;
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        struct rn_zone_rule rule;

        if (rn_zone_rule_parse(rules[i], strlen(rules[i]), &rule))
            fail_msg("%s is accepted", rules[i]);
    }
}

int main(void)
{
    const struct CMUnitTest zone_rule[] = {
        cmocka_unit_test(a_rule_may_be_one_offset),
        cmocka_unit_test(rules_have_three_ways_to_name_a_day),
        cmocka_unit_test(times_of_day_may_be_negative_or_long),
        cmocka_unit_test(the_changes_of_a_year_may_all_fall_in_its_neighbour),
        cmocka_unit_test(summer_time_can_be_permanent_southern_or_negative),
        cmocka_unit_test(what_is_no_rule_is_refused),
    };

    return cmocka_run_group_tests(zone_rule, NULL, NULL);
}
