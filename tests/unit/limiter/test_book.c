/* SPDX-License-Identifier: Apache-2.0 */
/* Reloading rules: what stays, what is inherited, what is forgotten. */
#include "rules_fixture.h"

#include <stdio.h>

#include "rules/builder.h"

#define HOUR (60 * MINUTE)
#define DAY (24 * HOUR)

/* One rule "a" by user. */
static const char *one_rule(const char *limit)
{
    static char text[512];

    snprintf(text, sizeof text, "limits:\n  - name: a\n    key: user\n    limit: %s\n", limit);
    return text;
}

static const char *one_window(const char *limit)
{
    static char text[512];

    snprintf(text, sizeof text,
             "limits:\n  - name: a\n    key: user\n    algorithm: fixed-window\n    limit: %s\n",
             limit);
    return text;
}

static uint64_t left_of_ann(struct ration *r, int64_t now_ns)
{
    return left_of(r, "a", "user=ann", now_ns);
}

/* --- unchanged, or of the same shape -------------------------------------------------------- */

static void unchanged_limits_keep_their_counters(void **state)
{
    struct ration *r = open_rules(one_rule("10 per hour"));

    (void)state;
    assert_int_equal(admitted(r, "user=ann", 4, T0), 4);
    rules_at(r,
             "limits:\n"
             "  - { name: new, key: user, limit: 100 per minute }\n"
             "  - { name: a, key: user, limit: 10 per hour, mode: enforce }\n",
             T0);
    assert_int_equal(left_of_ann(r, T0), 6);
    assert_int_equal(admitted(r, "user=ann", 20, T0), 6);
    assert_int_equal(ration_rules_version(r), 2);
    ration_close(r);
}

static void a_bucket_of_another_amount_keeps_its_share(void **state)
{
    struct ration *r = open_rules(one_rule("10 per hour"));

    (void)state;
    assert_int_equal(admitted(r, "user=ann", 4, T0), 4);
    rules_at(r, one_rule("100 per hour"), T0);
    assert_int_equal(left_of_ann(r, T0), 60);
    rules_at(r, one_rule("5 per hour"), T0);
    assert_int_equal(left_of_ann(r, T0), 3);
    ration_close(r);
}

static void a_window_of_another_amount_keeps_its_count(void **state)
{
    struct ration *r = open_rules(one_window("10 per hour"));

    (void)state;
    assert_int_equal(admitted(r, "user=ann", 4, T0), 4);
    rules_at(r, one_window("100 per hour"), T0);
    assert_int_equal(left_of_ann(r, T0), 96);
    rules_at(r, one_window("3 per hour"), T0);
    assert_int_equal(left_of_ann(r, T0), 0);
    ration_close(r);
}

/* --- of a new shape ----------------------------------------------------------------------------
 */

static void a_new_shape_starts_with_the_old_share_rounded_up(void **state)
{
    struct ration *r = open_rules(one_rule("10 per hour"));

    (void)state;
    assert_int_equal(admitted(r, "user=ann", 3, T0), 3);
    rules_at(r, one_window("7 per day"), T0);
    assert_int_equal(left_of_ann(r, T0), 7 - 3); /* 2.1 */
    assert_int_equal(left_of(r, "a", "user=bob", T0), 7);
    assert_int_equal(admitted(r, "user=ann", 9, T0), 4);
    ration_close(r);
}

static void a_client_with_nothing_left_has_nothing_left(void **state)
{
    static const char *const limits[] = {"10 per hour",  "100 per day burst 7",
                                         "3 per minute", "1000 per hour burst 1",
                                         "7 per 3 days", "20 per hour queue 5"};
    struct ration *r = open_rules(one_rule("10 per day"));

    (void)state;
    assert_int_equal(admitted(r, "user=ann", 99, T0), 10);
    for (size_t i = 0; i < COUNT(limits); i++) {
        rules_at(r, one_rule(limits[i]), T0);
        assert_int_equal(admitted(r, "user=ann", 9, T0), 0);
    }
    ration_close(r);
}

/* A share is carried over once: a limit that refills soon is not filled up again
 * from one that would have taken a day. */
static void a_share_is_inherited_once(void **state)
{
    struct ration *r = open_rules(one_rule("10 per day"));

    (void)state;
    assert_int_equal(admitted(r, "user=ann", 99, T0), 10);
    rules_at(r, one_rule("5 per second"), T0);
    assert_int_equal(admitted(r, "user=ann", 9, T0), 0);
    assert_int_equal(admitted(r, "user=ann", 9, T0 + 2 * SECOND), 5);
    assert_int_equal(admitted(r, "user=ann", 9, T0 + 4 * SECOND), 5);
    ration_close(r);
}

static void a_late_client_inherits_what_is_still_spent(void **state)
{
    struct ration *r = open_rules(one_rule("10 per hour"));

    (void)state;
    assert_int_equal(admitted(r, "user=ann", 10, T0), 10);
    rules_at(r, one_window("100 per day"), T0);
    assert_int_equal(left_of_ann(r, T0 + HOUR / 2), 50);
    assert_int_equal(admitted(r, "user=bob", 1, T0), 1);
    ration_close(r);
}

static void after_the_old_time_to_full_nothing_is_inherited(void **state)
{
    struct ration *r = open_rules(one_rule("10 per hour"));

    (void)state;
    assert_int_equal(admitted(r, "user=ann", 10, T0), 10);
    rules_at(r, one_window("100 per day"), T0);
    assert_int_equal(left_of_ann(r, T0 + HOUR + SECOND), 100);
    ration_close(r);
}

static void going_back_inherits_back(void **state)
{
    struct ration *r = open_rules(one_rule("10 per hour"));

    (void)state;
    assert_int_equal(admitted(r, "user=ann", 5, T0), 5);
    assert_int_equal(admitted(r, "user=bob", 5, T0), 5);
    rules_at(r, one_window("100 per day"), T0);
    assert_int_equal(admitted(r, "user=ann", 10, T0), 10);
    rules_at(r, one_rule("10 per hour"), T0);
    assert_int_equal(left_of_ann(r, T0), 4);              /* 60 of 100 */
    assert_int_equal(left_of(r, "a", "user=bob", T0), 5); /* was not there meanwhile */
    ration_close(r);
}

static void a_key_that_missed_a_reload_inherits_across_it(void **state)
{
    struct ration *r = open_rules(one_rule("10 per day"));

    (void)state;
    assert_int_equal(admitted(r, "user=ann", 5, T0), 5);
    assert_int_equal(admitted(r, "user=bob", 5, T0), 5);
    rules_at(r, one_window("100 per day"), T0);
    assert_int_equal(admitted(r, "user=bob", 10, T0), 10);
    rules_at(r, one_rule("20 per hour"), T0);
    assert_int_equal(left_of_ann(r, T0), 10);
    assert_int_equal(left_of(r, "a", "user=bob", T0), 8);
    ration_close(r);
}

static void another_reload_of_the_same_rules_loses_nothing(void **state)
{
    struct ration *r = open_rules(one_rule("10 per day"));

    (void)state;
    assert_int_equal(admitted(r, "user=ann", 5, T0), 5);
    for (unsigned i = 0; i < 20; i++)
        rules_at(r, one_window("100 per day"), T0 + i * SECOND);
    assert_int_equal(left_of_ann(r, T0), 50);
    ration_close(r);
}

static void a_new_name_or_another_key_starts_afresh(void **state)
{
    struct ration *r = open_rules(one_rule("10 per day"));

    (void)state;
    assert_int_equal(admitted(r, "user=ann ip=192.0.2.1", 5, T0), 5);
    rules_at(r, "limits:\n  - { name: b, key: user, limit: 100 per hour }\n", T0);
    assert_int_equal(left_of(r, "b", "user=ann", T0), 100);
    rules_at(r, "limits:\n  - { name: b, key: ip, limit: 100 per hour }\n", T0);
    assert_int_equal(left_of(r, "b", "ip=192.0.2.1", T0), 100);
    ration_close(r);
}

static void calendars_are_inherited_from_and_inherit(void **state)
{
    struct ration *r = open_rules(one_rule("100 per calendar month Europe/Rome"));

    (void)state;
    assert_int_equal(admitted(r, "user=ann", 40, T0), 40);
    rules_at(r, one_rule("1000 per calendar year Europe/Rome"), T0);
    assert_int_equal(left_of_ann(r, T0), 600);
    rules_at(r, one_rule("10 per calendar day America/New_York"), T0);
    assert_int_equal(left_of_ann(r, T0), 6);
    ration_close(r);
}

/* --- several limits, tiers ---------------------------------------------------------------------
 */

static void each_of_several_limits_inherits_from_its_place(void **state)
{
    struct ration *r = open_rules(one_window("[10 per hour, 100 per day]"));
    struct ration_outcome out;

    (void)state;
    assert_int_equal(admitted(r, "user=ann", 8, T0), 8);
    rules_at(r, one_window("[50 per 2 hours, 1000 per 7 days]"), T0);
    out = look(r, "user=ann", T0);
    assert_int_equal(out.limits[0].verdict.remaining, 10);
    assert_int_equal(out.limits[1].verdict.remaining, 920);
    ration_close(r);
}

static void a_limit_beside_one_that_stays_starts_afresh(void **state)
{
    struct ration *r = open_rules(one_window("10 per hour"));
    struct ration_outcome out;

    (void)state;
    assert_int_equal(admitted(r, "user=ann", 8, T0), 8);
    rules_at(r, one_window("[10 per hour, 100 per day]"), T0);
    out = look(r, "user=ann", T0);
    assert_int_equal(out.limits[0].verdict.remaining, 2);
    assert_int_equal(out.limits[1].verdict.remaining, 100);
    ration_close(r);
}

static void tiers_inherit_all_at_once(void **state)
{
    struct ration *r = open_rules(one_window("{ by: plan, free: 10 per hour, pro: 100 per day, "
                                             "default: free }"));

    (void)state;
    assert_int_equal(admitted(r, "user=ann", 99, T0), 10);
    rules_at(r,
             one_window("{ by: plan, free: 20 per 2 hours, pro: 200 per 2 days, default: free }"),
             T0);
    assert_int_equal(admitted(r, "user=ann plan=free", 9, T0), 0);
    assert_int_equal(admitted(r, "user=ann plan=pro", 9, T0), 0);
    ration_close(r);
}

/* More fresh states than go into one batch. */
static void a_hundred_tiers_inherit(void **state)
{
    char text[8192] = "limits:\n  - name: a\n    key: user\n    limit:\n      by: plan\n";
    struct ration *r = open_rules(one_rule("10 per day"));

    (void)state;
    assert_int_equal(admitted(r, "user=ann", 5, T0), 5);
    for (unsigned i = 0; i < 100; i++)
        snprintf(text + strlen(text), sizeof text - strlen(text), "      p%u: 100 per %u hours\n",
                 i, i + 30);
    snprintf(text + strlen(text), sizeof text - strlen(text), "      default: p0\n");
    rules_at(r, text, T0);
    for (unsigned i = 0; i < 100; i += 33) {
        char words[32];

        snprintf(words, sizeof words, "user=ann plan=p%u", i);
        assert_int_equal(left_of(r, "a", words, T0), 50);
    }
    ration_close(r);
}

/* The loader refuses these; a state of their own keeps them right all the same. */
static void two_limits_of_one_shape_have_two_states(void **state)
{
    struct rn_report report;
    struct rn_builder builder;
    struct ration *r = open_limits(NULL, 0);
    const char *fault;

    (void)state;
    rn_report_init(&report);
    assert_true(rn_builder_init(&builder, &report));
    struct rn_rule *rule = rn_builder_rule(&builder, RN_SLICE("twins"), 1, 1);
    struct ration_named ten = named("x", "10 per minute"), more = named("x", "15 per minute");
    struct rn_rule_limit *limits[] = {rn_builder_limit(&builder, rule, &ten.limit, &fault),
                                      rn_builder_limit(&builder, rule, &more.limit, &fault)};

    assert_true(rn_builder_tier(&builder, rule, limits, 2));
    struct rn_ruleset *set = rn_builder_finish(&builder);

    assert_non_null(set);
    rn_builder_done(&builder);
    rn_report_done(&report);
    assert_int_equal(rn_reload_install(r, set, T0, &(struct ration_error){0}), 0);
    assert_int_equal(admitted(r, "x=y", 20, T0), 10);
    ration_close(r);
}

/* --- around it
 * ------------------------------------------------------------------------------------ */

static void totals_survive_by_name(void **state)
{
    struct ration *r = open_rules(one_rule("10 per hour"));
    struct ration_totals totals;

    (void)state;
    admitted(r, "user=ann", 15, T0);
    rules_at(r, one_window("100 per day"), T0);
    admitted(r, "user=bob", 7, T0);
    assert_int_equal(ration_rule_totals(r, "a", 1, &totals), 0);
    assert_int_equal(totals.allowed, 17);
    assert_int_equal(totals.refused, 5);
    rules_at(r, "limits:\n  - { name: b, key: user, limit: 1 per hour }\n", T0);
    assert_int_equal(ration_rule_totals(r, "a", 1, &totals), RATION_EINVAL);
    assert_int_equal(ration_rule_totals(r, "b", 1, &totals), 0);
    assert_int_equal(totals.allowed, 0);
    ration_close(r);
}

static int see_first(void *arg, const struct ration_diagnostic *d)
{
    *(struct ration_diagnostic *)arg = *d;
    return 1;
}

static void a_report_can_be_read_by_a_program(void **state)
{
    static const char bad[] = "limits:\n  - name: a\n    lmit: 5 per hour\n";
    struct ration_diagnostic first = {0};
    struct ration_report *report;

    (void)state;
    assert_int_equal(ration_rules_validate("bad.yaml", bad, strlen(bad), &report), RATION_EPARSE);
    ration_report_each(report, see_first, &first);
    assert_true(first.is_error);
    assert_string_equal(first.file, "bad.yaml");
    assert_int_equal(first.line, 3);
    assert_int_equal(first.column, 5);
    assert_string_equal(first.message, "unknown key \"lmit\"; did you mean \"limit\"?");
    ration_report_free(report);
    ration_report_each(NULL, see_first, &first);
}

static void bad_rules_leave_the_old_ones_in_place(void **state)
{
    static const char bad[] = "limits:\n  - { name: a, key: user, lmit: 5 per hour }\n";
    struct ration *r = open_rules(one_rule("10 per hour"));
    struct ration_report *report;

    (void)state;
    assert_int_equal(ration_rules_parse(r, "bad.yaml", bad, strlen(bad), &report), RATION_EPARSE);
    assert_true(ration_report_errors(report) >= 1);
    assert_non_null(strstr(ration_report_text(report), "bad.yaml:2:"));
    assert_non_null(strstr(ration_report_text(report), "did you mean \"limit\"?"));
    ration_report_free(report);
    assert_int_equal(ration_rules_version(r), 1);
    assert_int_equal(admitted(r, "user=ann", 15, T0), 10);
    assert_int_equal(ration_rules_parse(r, "bad.yaml", bad, strlen(bad), NULL), RATION_EPARSE);
    ration_close(r);
}

static void good_rules_come_with_an_empty_report(void **state)
{
    const char *text = one_rule("10 per hour");
    const char *none[] = {"/nonexistent/rules.yaml"};
    struct ration *r = open_limits(NULL, 0);
    struct ration_report *report;

    (void)state;
    assert_int_equal(ration_rules_version(r), 0);
    assert_int_equal(decide(r, "user=ann", T0).kind, RATION_BY_NO_RULE);
    assert_int_equal(ration_rules_parse(r, "good.yaml", text, strlen(text), &report), 0);
    assert_int_equal(ration_report_errors(report), 0);
    ration_report_free(report);
    assert_int_equal(ration_rules_version(r), 1);
    assert_int_equal(ration_rules_load(r, none, 1, &report), RATION_EPARSE);
    assert_non_null(strstr(ration_report_text(report), "/nonexistent/rules.yaml"));
    ration_report_free(report);
    ration_report_free(NULL);
    ration_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unchanged_limits_keep_their_counters),
        cmocka_unit_test(a_report_can_be_read_by_a_program),
        cmocka_unit_test(a_bucket_of_another_amount_keeps_its_share),
        cmocka_unit_test(a_window_of_another_amount_keeps_its_count),
        cmocka_unit_test(a_new_shape_starts_with_the_old_share_rounded_up),
        cmocka_unit_test(a_client_with_nothing_left_has_nothing_left),
        cmocka_unit_test(a_share_is_inherited_once),
        cmocka_unit_test(a_late_client_inherits_what_is_still_spent),
        cmocka_unit_test(after_the_old_time_to_full_nothing_is_inherited),
        cmocka_unit_test(going_back_inherits_back),
        cmocka_unit_test(a_key_that_missed_a_reload_inherits_across_it),
        cmocka_unit_test(another_reload_of_the_same_rules_loses_nothing),
        cmocka_unit_test(a_new_name_or_another_key_starts_afresh),
        cmocka_unit_test(calendars_are_inherited_from_and_inherit),
        cmocka_unit_test(each_of_several_limits_inherits_from_its_place),
        cmocka_unit_test(a_limit_beside_one_that_stays_starts_afresh),
        cmocka_unit_test(tiers_inherit_all_at_once),
        cmocka_unit_test(a_hundred_tiers_inherit),
        cmocka_unit_test(two_limits_of_one_shape_have_two_states),
        cmocka_unit_test(totals_survive_by_name),
        cmocka_unit_test(bad_rules_leave_the_old_ones_in_place),
        cmocka_unit_test(good_rules_come_with_an_empty_report),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
