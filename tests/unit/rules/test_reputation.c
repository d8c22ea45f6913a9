/* SPDX-License-Identifier: Apache-2.0 */
/* What escalate, earn and usage of a rule mean: plans, factors, calendars. What is said about wrong
 * ones is in tests/rules/bad. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "rules/print/print.h"
#include "unit/rules/fixtures.h"

#define S INT64_C(1000000000)
#define HOUR (3600 * S)
#define DAY (24 * HOUR)

static struct rn_report report;
static struct rn_ruleset *ruleset;

/* The first rule of a text, which must load. */
static const struct rn_rule *load(const char *text)
{
    ruleset = parse_text("rules.yaml", text, strlen(text), &report);
    if (ruleset == NULL)
        fail_msg("%s", text_of_report(&report).data);
    return &ruleset->rules[0];
}

static void done(void)
{
    rn_ruleset_free(ruleset);
    rn_report_done(&report);
}

/* --- escalate ---------------------------------------------------------------------- */

static void bans_grow_up_to_the_longest(void **state)
{
    const struct rn_rule *rule = load("limits: [{name: a, key: ip, limit: 5 per minute, escalate: "
                                      "{after: 10 refusals within 1m, ban: 1m, grow: 4x, up_to: "
                                      "1h, forget: 2d}}]\n");
    const struct rn_escalate_plan *plan = rule->escalate;

    (void)state;
    assert_int_equal(plan->after, 10);
    assert_int_equal(plan->within_ns, 60 * S);
    assert_int_equal(plan->forget_ns, 2 * DAY);
    assert_int_equal(plan->ban_ns[0], 0);
    assert_int_equal(plan->ban_ns[1], 60 * S);
    assert_int_equal(plan->ban_ns[2], 240 * S);
    assert_int_equal(plan->ban_ns[3], 960 * S);
    for (size_t level = 4; level < RN_LEVELS; level++)
        assert_int_equal(plan->ban_ns[level], HOUR);
    done();
}

static void a_factor_with_decimals_never_makes_a_ban_too_long(void **state)
{
    const struct rn_rule *rule = load("limits: [{name: a, key: ip, limit: 5 per minute, escalate: "
                                      "{after: 1 refusal within 1s, ban: 1s, grow: 1.25x, up_to: "
                                      "365d, forget: 1h}}]\n");
    const struct rn_escalate_plan *plan = rule->escalate;

    (void)state;
    assert_int_equal(plan->ban_ns[2], S / 100 * 125);
    assert_int_equal(plan->ban_ns[3], S / 10000 * 125 * 125);
    for (size_t level = 2; level < RN_LEVELS; level++) {
        assert_true(plan->ban_ns[level] > plan->ban_ns[level - 1]);
        assert_true(plan->ban_ns[level] <= plan->ban_ns[level - 1] / 100 * 125 + 125);
    }
    done();
}

static void escalate_has_defaults(void **state)
{
    const struct rn_rule *rule = load("limits: [{name: a, key: ip, limit: 5 per minute, escalate: "
                                      "{after: 1000 refusals within 24h, ban: 1h}}]\n");

    (void)state;
    assert_int_equal(rule->escalate->ban_ns[2], 2 * HOUR);
    assert_int_equal(rule->escalate->ban_ns[RN_LEVELS - 1], DAY);
    assert_int_equal(rule->escalate->forget_ns, 7 * DAY);
    assert_null(rule->earn);
    assert_null(rule->usage);
    assert_int_equal(rule->factor_count, 0);
    assert_false(rule->response.status_given);
    done();
    rule = load("limits: [{name: a, key: ip, limit: 5 per minute, escalate: {after: 1 refusal "
                "within 1s, ban: 365d, grow: 100x}}]\n");
    for (size_t level = 1; level < RN_LEVELS; level++)
        assert_int_equal(rule->escalate->ban_ns[level], 365 * DAY);
    done();
}

static void a_status_that_is_written_is_known_to_be(void **state)
{
    const struct rn_rule *rule = load("response: {status: 429}\n"
                                      "limits: [{name: a, key: ip, limit: 5 per minute}]\n");

    (void)state;
    assert_true(rule->response.status_given);
    done();
    rule = load("limits: [{name: a, key: ip, limit: 5 per minute, response: {headers: x}}]\n");
    assert_false(rule->response.status_given);
    done();
}

/* --- earn -------------------------------------------------------------------------- */

static void earn_has_defaults(void **state)
{
    const struct rn_rule *rule = load("limits: [{name: a, key: user, limit: 100 per minute, earn: "
                                      "{every: 24h, add: 30%}}]\n");
    const struct rn_earn_plan *plan = rule->earn;
    static const uint16_t factors[] = {100, 130, 160, 190, 200};

    (void)state;
    assert_int_equal(plan->every_ns, DAY);
    assert_int_equal(plan->add, 30);
    assert_int_equal(plan->up_to, 200);
    assert_int_equal(plan->lost_after, 3);
    assert_int_equal(plan->lost_within_ns, HOUR);
    assert_int_equal(plan->forget_ns, 30 * DAY);
    assert_int_equal(rule->factor_count, RN_COUNT(factors));
    assert_memory_equal(rule->factors, factors, sizeof factors);
    assert_false(rn_rule_follows(rule));
    done();
    rule = load("limits: [{name: a, key: user, limit: 100 per minute, earn: {every: 30d, add: 1%, "
                "up_to: 101%}}]\n");
    assert_int_equal(rule->earn->forget_ns, 365 * DAY);
    assert_int_equal(rule->factor_count, 2);
    done();
}

static bool has_factor(const struct rn_rule *rule, unsigned percent)
{
    for (uint32_t i = 0; i < rule->factor_count; i++)
        if (rule->factors[i] == percent)
            return true;
    return false;
}

static void factors_are_all_products_of_signals_and_what_is_earned(void **state)
{
    const struct rn_rule *rule =
        load("signals: {cpu: {source: cpu}}\n"
             "limits: [{name: a, key: user, limit: 1000 per minute, adapt: {when: cpu above 80%, "
             "to: 33%, restore: {by: 7%}}, elastic: {up_to: 160%, while: cpu below 50%, by: 45%}, "
             "earn: {every: 1h, add: 60%, up_to: 250%}}]\n");
    static const unsigned signals[] = {33, 40, 47, 54, 61, 68, 75, 82, 89, 96, 100, 145, 160};
    static const unsigned earned[] = {100, 160, 220, 250};
    bool wanted[RN_FACTOR_MAX + 1] = {false};
    uint32_t count = 0;

    (void)state;
    assert_true(rn_rule_follows(rule));
    for (size_t s = 0; s < RN_COUNT(signals); s++)
        for (size_t e = 0; e < RN_COUNT(earned); e++) {
            assert_true(has_factor(rule, signals[s] * earned[e] / 100));
            wanted[signals[s] * earned[e] / 100] = true;
        }
    for (unsigned p = 0; p <= RN_FACTOR_MAX; p++)
        count += wanted[p];
    assert_int_equal(rule->factor_count, count);
    for (uint32_t i = 1; i < rule->factor_count; i++)
        assert_true(rule->factors[i] > rule->factors[i - 1]);
    assert_int_equal(rule->factors[rule->factor_count - 1], 400);
    done();
}

/* --- usage ------------------------------------------------------------------------- */

static void expect_usage(const char *limit, const char *usage, enum ration_calendar unit,
                         const char *zone, uint32_t keep)
{
    char text[512];

    snprintf(text, sizeof text, "limits: [{name: a, key: user, limit: %s, usage: %s}]\n", limit,
             usage);
    const struct rn_rule *rule = load(text);

    assert_non_null(rule->usage);
    assert_int_equal(rule->usage->unit, unit);
    assert_string_equal(rule->usage->zone.data, zone);
    assert_int_equal(rule->usage->zone.len, strlen(zone));
    assert_int_equal(rule->usage->keep, keep);
    assert_true(rule->usage->calendar->count > 40);
    done();
}

static void usage_follows_the_only_calendar_of_the_limits(void **state)
{
    static const char *const rome = "1000 per calendar day Europe/Rome";

    (void)state;
    expect_usage("5 per minute", "true", RATION_CALENDAR_MONTH, "", 3);
    expect_usage("unlimited", "true", RATION_CALENDAR_MONTH, "", 3);
    expect_usage(rome, "true", RATION_CALENDAR_DAY, "Europe/Rome", 3);
    expect_usage(rome, "{per: year}", RATION_CALENDAR_YEAR, "Europe/Rome", 3);
    expect_usage(rome, "{zone: UTC}", RATION_CALENDAR_DAY, "", 3);
    expect_usage(rome, "{per: week, zone: Asia/Tokyo, keep: 60}", RATION_CALENDAR_WEEK,
                 "Asia/Tokyo", 60);
    expect_usage("{by: plan, free: 10 per calendar week, pro: 20 per calendar week}", "true",
                 RATION_CALENDAR_WEEK, "", 3);
    expect_usage("[10 per calendar day, 100 per calendar week]", "true", RATION_CALENDAR_MONTH, "",
                 3);
}

static void usage_and_limits_share_their_calendars(void **state)
{
    const struct rn_rule *rule =
        load("limits:\n"
             "  - {name: a, limit: 10 per calendar month, usage: true}\n"
             "  - {name: b, limit: 10 per minute, usage: {per: month}}\n"
             "  - {name: c, limit: 10 per minute, usage: {per: month, zone: Asia/Tokyo}}\n");

    (void)state;
    assert_ptr_equal(rule[0].usage->calendar, rule[0].tiers[0].limits[0]->limit.calendar);
    assert_ptr_equal(rule[0].usage->calendar, rule[1].usage->calendar);
    assert_ptr_not_equal(rule[0].usage->calendar, rule[2].usage->calendar);
    assert_int_equal(ruleset->calendar_count, 2);
    done();
}

static void usage_false_counts_nothing(void **state)
{
    (void)state;
    assert_null(load("limits: [{name: a, limit: 5 per minute, usage: false}]\n")->usage);
    done();
}

/* --- printing ---------------------------------------------------------------------- */

static void what_is_printed_has_every_value(void **state)
{
    struct text printed = {NULL, 0};

    (void)state;
    load("limits: [{name: a, key: ip, limit: 50 per minute, escalate: {after: 3 refusals within "
         "90s, ban: 30s, grow: 1.05x}, earn: {every: 12h, add: 9%}, usage: {per: week, zone: "
         "Europe/Rome}, response: {status: 429}}]\n");
    rn_print_ruleset(ruleset, text_add, &printed);
    assert_non_null(strstr(printed.data,
                           "    escalate: {after: 3 refusals within 90 seconds, ban: 30 seconds, "
                           "grow: 1.05x, up_to: day, forget: week}\n"
                           "    earn: {every: 12 hours, add: 9%, up_to: 200%, lost_by: 3 refusals "
                           "within hour, forget: 15 days}\n"
                           "    usage: {per: week, zone: \"Europe/Rome\", keep: 3}\n"
                           "    response: {status: 429, headers: both}\n"));
    free(printed.data);
    done();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bans_grow_up_to_the_longest),
        cmocka_unit_test(a_factor_with_decimals_never_makes_a_ban_too_long),
        cmocka_unit_test(escalate_has_defaults),
        cmocka_unit_test(a_status_that_is_written_is_known_to_be),
        cmocka_unit_test(earn_has_defaults),
        cmocka_unit_test(factors_are_all_products_of_signals_and_what_is_earned),
        cmocka_unit_test(usage_follows_the_only_calendar_of_the_limits),
        cmocka_unit_test(usage_and_limits_share_their_calendars),
        cmocka_unit_test(usage_false_counts_nothing),
        cmocka_unit_test(what_is_printed_has_every_value),
    };
    return cmocka_run_group_tests_name("rules/reputation", tests, NULL, NULL);
}
