/* SPDX-License-Identifier: Apache-2.0 */
/* The current rules for callers, their counts, and the mode of the service. */
#include "rules_fixture.h"

static const char rules[] = "server:\n"
                            "  http: 127.0.0.1:8080\n"
                            "limits:\n"
                            "  - name: api\n"
                            "    key: [ip, user or api_key]\n"
                            "    limit:\n"
                            "      by: plan\n"
                            "      free: [10 per second, 100 per minute burst 20]\n"
                            "      pro: 1000 per minute\n"
                            "      default: free\n"
                            "  - { name: trial, limit: 5 concurrent, mode: shadow }\n";

/* --- one by one ----------------------------------------------------------------------------------
 */

struct seen {
    unsigned count, stop_after;
    struct ration_rule_info infos[4];
};

static int see(void *arg, const struct ration_rule_info *info)
{
    struct seen *seen = arg;

    seen->infos[seen->count++] = *info;
    return seen->count == seen->stop_after;
}

static bool is_text(const char *data, size_t len, const char *text)
{
    return len == strlen(text) && memcmp(data, text, len) == 0;
}

static void rules_are_listed_in_the_order_of_the_file(void **state)
{
    struct ration *r = open_rules(rules);
    struct seen seen = {0};

    (void)state;
    ration_rules_each(r, see, &seen);
    assert_int_equal(seen.count, 2);
    const struct ration_rule_info *api = &seen.infos[0], *trial = &seen.infos[1];

    assert_true(is_text(api->name, api->name_len, "api"));
    assert_true(is_text(api->file, api->file_len, "test.yaml"));
    assert_int_equal(api->line, 4);
    assert_string_equal(api->key, "ip, user or api_key");
    assert_false(api->shadow || api->envoy);
    assert_int_equal(api->limit_count, 3);
    assert_int_equal(api->listed, 3);
    assert_string_equal(api->limits[0].tier, "free");
    assert_string_equal(api->limits[0].text, "10 per second");
    assert_string_equal(api->limits[1].text, "100 per minute burst 20");
    assert_string_equal(api->limits[2].tier, "pro");
    assert_int_equal(api->limits[2].algorithm, RATION_TOKEN_BUCKET);
    assert_true(trial->shadow);
    assert_string_equal(trial->key, "");
    assert_string_equal(trial->limits[0].tier, "");
    assert_int_equal(trial->limits[0].algorithm, RATION_CONCURRENCY);

    seen = (struct seen){.stop_after = 1};
    ration_rules_each(r, see, &seen);
    assert_int_equal(seen.count, 1);
    ration_close(r);
}

static void rules_of_envoy_are_listed_too(void **state)
{
    struct ration *r = open_rules("domain: shop\n"
                                  "descriptors:\n"
                                  "  - key: user\n"
                                  "    rate_limit: { unit: minute, requests_per_unit: 5 }\n");
    struct seen seen = {0};

    (void)state;
    ration_rules_each(r, see, &seen);
    assert_int_equal(seen.count, 1);
    assert_true(seen.infos[0].envoy);
    assert_string_equal(seen.infos[0].key, "descriptor");
    assert_int_equal(seen.infos[0].listed, 1);
    assert_string_equal(seen.infos[0].limits[0].text, "5 per minute");
    ration_close(r);
}

static void without_rules_there_is_nothing_to_list(void **state)
{
    struct ration *r = open_limits(NULL, 0);
    struct ration_setting setting;
    struct seen seen = {0};
    char *text;
    size_t len = 9;

    (void)state;
    ration_rules_each(r, see, &seen);
    assert_int_equal(seen.count, 0);
    assert_int_equal(ration_rules_text(r, &text, &len), 0);
    assert_string_equal(text, "");
    assert_int_equal(len, 0);
    ration_text_free(text);
    assert_int_equal(ration_setting(r, "http", &setting), RATION_ENOSETTING);
    ration_close(r);
}

/* --- counters
 * -------------------------------------------------------------------------------------- */

static struct ration_totals totals_of(struct ration *r, const char *rule)
{
    struct ration_totals totals;

    assert_int_equal(ration_rule_totals(r, rule, strlen(rule), &totals), 0);
    return totals;
}

static void admissions_that_are_close_soft_or_delayed_are_counted(void **state)
{
    struct ration *r = open_rules("limits:\n"
                                  "  - { name: soft, key: user, limit: 10 per hour, soft: 20% }\n"
                                  "  - { name: queue, limit: 1 per second queue 100 }\n"
                                  "  - { name: wide, limit: 1000 per hour }\n");
    struct ration_totals all;

    (void)state;
    assert_int_equal(admitted(r, "user=ann", 20, T0), 12);
    struct ration_totals soft = totals_of(r, "soft"), queue = totals_of(r, "queue");

    assert_int_equal(soft.allowed, 12);
    assert_int_equal(soft.refused, 8);
    assert_int_equal(soft.soft, 2);
    assert_int_equal(soft.near, 4); /* with 1, 0 and, above the limit, 0 and 0 left */
    assert_int_equal(soft.delayed, 0);
    assert_int_equal(queue.delayed, 11);
    assert_int_equal(queue.near + queue.soft, 0);
    assert_int_equal(totals_of(r, "wide").near, 0);
    ration_totals(r, &all);
    assert_int_equal(all.soft, 2);
    assert_int_equal(all.near, 4);
    assert_int_equal(all.delayed, 11);
    ration_close(r);
}

static void a_smallest_limit_is_near_only_when_used_up(void **state)
{
    struct ration *r = open_rules("limits:\n"
                                  "  - { name: two, key: user, limit: 2 per hour }\n"
                                  "  - { name: all, limit: unlimited }\n");

    (void)state;
    assert_int_equal(admitted(r, "user=ann", 1, T0), 1);
    assert_int_equal(totals_of(r, "two").near, 0);
    assert_int_equal(admitted(r, "user=ann", 2, T0), 1);
    assert_int_equal(totals_of(r, "two").near, 1);
    assert_int_equal(totals_of(r, "all").near, 0);
    ration_close(r);
}

static void counts_outlive_a_reload(void **state)
{
    struct ration *r = open_rules("limits:\n  - { name: q, limit: 1 per second queue 9 }\n");
    struct seen seen = {0};

    (void)state;
    assert_int_equal(admitted(r, "", 3, T0), 3);
    rules_at(r, "limits:\n  - { name: q, limit: 1 per second queue 9 }\n", T0);
    assert_int_equal(admitted(r, "", 1, T0), 1);
    ration_rules_each(r, see, &seen);
    assert_int_equal(seen.infos[0].totals.allowed, 4);
    assert_int_equal(seen.infos[0].totals.delayed, 3);
    ration_close(r);
}

/* --- keys refused most
 * ---------------------------------------------------------------------------------- */

static void a_key_refused_by_two_rules_is_listed_twice(void **state)
{
    struct ration *r = open_rules("limits:\n"
                                  "  - { name: a, key: user, limit: [1 per hour, 1 per day] }\n"
                                  "  - { name: b, key: user, limit: 2 per hour, cost: 2 }\n"
                                  "  - { name: c, key: user, limit: 2 per hour }\n");
    struct ration_top top[8];

    (void)state;
    decide(r, "user=ann", T0);
    assert_int_equal(admitted(r, "user=ann", 6, T0), 0);
    assert_int_equal(ration_top(r, top, 8), 2);
    for (unsigned i = 0; i < 2; i++) {
        assert_string_equal(top[i].name, "ann");
        assert_int_equal(top[i].refused, 6);
        assert_int_equal(top[i].limit, UINT32_MAX);
    }
    assert_int_not_equal(strcmp(top[0].rule, top[1].rule), 0);
    assert_int_equal(strlen(top[0].rule) + strlen(top[1].rule), 2);
    ration_close(r);
}

/* --- text, settings
 * ---------------------------------------------------------------------------------------- */

static void the_text_of_the_rules_loads_as_the_same_rules(void **state)
{
    struct ration *r = open_rules(rules);
    char *text, *again;
    size_t len;

    (void)state;
    assert_int_equal(ration_rules_text(r, &text, &len), 0);
    assert_int_equal(strlen(text), len);
    assert_non_null(strstr(text, "10 per second"));
    assert_int_equal(ration_rules_parse(r, "text", text, len, NULL), 0);
    assert_int_equal(ration_rules_text(r, &again, NULL), 0);
    assert_string_equal(again, text);
    ration_text_free(text);
    ration_text_free(again);
    ration_text_free(NULL);
    ration_close(r);
}

static void settings_are_found_by_name(void **state)
{
    struct ration *r = open_rules(rules);
    struct ration_setting setting;

    (void)state;
    assert_int_equal(ration_setting(r, "http", &setting), 0);
    assert_string_equal(setting.value, "127.0.0.1:8080");
    assert_string_equal(setting.file, "test.yaml");
    assert_int_equal(setting.line, 2);
    assert_int_equal(ration_setting(r, "resp", &setting), RATION_ENOSETTING);
    ration_close(r);
}

static void validating_changes_nothing(void **state)
{
    static const char good[] = "limits:\n  - { name: x, limit: 1 per hour }\n";
    static const char bad[] = "limits:\n  - { name: x, limit: 1 per our }\n";
    struct ration_report *report = NULL;

    (void)state;
    assert_int_equal(ration_rules_validate("t.yaml", good, strlen(good), &report), 0);
    assert_int_equal(ration_report_errors(report), 0);
    ration_report_free(report);
    assert_int_equal(ration_rules_validate("t.yaml", bad, strlen(bad), &report), RATION_EPARSE);
    assert_int_equal(ration_report_errors(report), 1);
    assert_non_null(strstr(ration_report_text(report), "t.yaml:2:"));
    ration_report_free(report);
    assert_int_equal(ration_rules_validate("t.yaml", bad, strlen(bad), NULL), RATION_EPARSE);
}

/* --- shadow mode
 * --------------------------------------------------------------------------------------------- */

static void the_whole_service_can_be_put_into_shadow_mode(void **state)
{
    struct ration *r = open_rules("deny:\n"
                                  "  - { user: eve }\n"
                                  "limits:\n"
                                  "  - { name: m, key: user, limit: 2 per hour }\n");

    (void)state;
    assert_false(ration_shadow(r));
    assert_int_equal(admitted(r, "user=ann", 5, T0), 2);
    ration_shadow_set(r, true);
    assert_true(ration_shadow(r));
    struct ration_outcome out = decide(r, "user=ann", T0);

    assert_true(out.decision.allowed && out.shadow_refused && out.limits[0].shadow);
    out = decide(r, "user=eve", T0);
    assert_true(out.decision.allowed && out.shadow_refused);
    assert_int_equal(totals_of(r, "m").shadowed, 1);
    assert_int_equal(totals_of(r, "m").refused, 3);
    rules_at(r, "limits:\n  - { name: m, key: user, limit: 2 per hour }\n", T0);
    assert_int_equal(admitted(r, "user=ann", 5, T0), 5); /* a reload does not end it */
    ration_shadow_set(r, false);
    assert_int_equal(admitted(r, "user=ann", 5, T0), 0);
    ration_close(r);
}

static void rules_in_shadow_mode_stay_so_whatever_the_switch_says(void **state)
{
    struct ration *r = open_rules("mode: shadow\n"
                                  "limits:\n"
                                  "  - { name: m, key: user, limit: 2 per hour }\n");

    (void)state;
    ration_shadow_set(r, false);
    assert_int_equal(admitted(r, "user=ann", 5, T0), 5);
    ration_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rules_are_listed_in_the_order_of_the_file),
        cmocka_unit_test(rules_of_envoy_are_listed_too),
        cmocka_unit_test(without_rules_there_is_nothing_to_list),
        cmocka_unit_test(admissions_that_are_close_soft_or_delayed_are_counted),
        cmocka_unit_test(a_smallest_limit_is_near_only_when_used_up),
        cmocka_unit_test(counts_outlive_a_reload),
        cmocka_unit_test(a_key_refused_by_two_rules_is_listed_twice),
        cmocka_unit_test(the_text_of_the_rules_loads_as_the_same_rules),
        cmocka_unit_test(settings_are_found_by_name),
        cmocka_unit_test(validating_changes_nothing),
        cmocka_unit_test(the_whole_service_can_be_put_into_shadow_mode),
        cmocka_unit_test(rules_in_shadow_mode_stay_so_whatever_the_switch_says),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
