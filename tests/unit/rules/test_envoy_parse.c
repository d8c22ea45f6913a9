/* SPDX-License-Identifier: Apache-2.0 */
/* Files of Envoy's format: what they mean, and what is said about mistakes. */
#include "envoy_fixture.h"

#include <dirent.h>
#include <unistd.h>

#include <stdlib.h>
#include <unistd.h>

#define S INT64_C(1000000000)
#define DAY (86400 * S)

static void assert_text(struct rn_slice found, const char *expected)
{
    assert_int_equal(found.len, strlen(expected));
    assert_memory_equal(found.data, expected, found.len);
}

/* --- the examples of the requirements --------------------------------------------- */

static void five_marketing_messages_a_day(void **state)
{
    (void)state;
    struct rn_ruleset *r = load_good("messaging.yaml", 0);
    const struct rn_envoy_limit *l = ask(r, "messaging", "message_type=marketing", NULL).limit;

    assert_non_null(l);
    assert_int_equal(l->requests_per_unit, 5);
    assert_int_equal(l->unit, 4);
    assert_int_equal(l->limit->spec.algorithm, RATION_FIXED_WINDOW);
    assert_false(l->limit->spec.from_first); /* aligned to the epoch */
    assert_true(l->limit->spec.period_ns == DAY && l->limit->spec.amount == 5);
    assert_int_equal(RATE(r, "messaging", "message_type=receipt"), 100);
    rn_ruleset_free(r);
}

static void five_logins_a_minute_with_a_capital_value(void **state)
{
    (void)state;
    struct rn_ruleset *r = load_good("auth.yaml", 1);
    const struct rn_envoy_limit *l = ask(r, "auth", "auth_type=login", NULL).limit;

    assert_non_null(l);
    assert_true(l->limit->spec.amount == 5 && l->limit->spec.period_ns == 60 * S);
    assert_int_equal(RATE(r, "auth", "auth_type=logout"), -1);
    rn_ruleset_free(r);
}

static void five_logins_a_minute_and_five_a_day(void **state)
{
    (void)state;
    struct rn_ruleset *r = load_good("auth_day_and_minute.yaml", 0);
    const struct rn_envoy_limit *minute =
        ask(r, "auth_twice", "auth_type=login", "window=minute", NULL).limit;
    const struct rn_envoy_limit *day =
        ask(r, "auth_twice", "auth_type=login", "window=day", NULL).limit;

    assert_true(minute->limit->spec.amount == 5 && minute->limit->spec.period_ns == 60 * S);
    assert_true(day->limit->spec.amount == 5 && day->limit->spec.period_ns == DAY);
    rn_ruleset_free(r);
}

/* --- rate_limit --------------------------------------------------------------------- */

static void units_are_lengths_in_any_letter_case(void **state)
{
    static const struct {
        const char *entry;
        int unit;
        int64_t days, seconds;
    } units[] = {
        {"per=second", 1, 0, 1}, {"per=minute", 2, 0, 60}, {"per=hour", 3, 0, 3600},
        {"per=day", 4, 1, 0},    {"per=month", 5, 30, 0},  {"per=year", 6, 365, 0},
        {"per=week", 7, 7, 0},
    };
    struct rn_ruleset *r = load_good("units.yaml", 0);

    (void)state;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        const struct rn_envoy_limit *l = ask(r, "units", units[i].entry, NULL).limit;

        assert_non_null(l);
        assert_int_equal(l->unit, units[i].unit);
        assert_true(l->limit->limit.period_ns == units[i].days * DAY + units[i].seconds * S);
    }
    rn_ruleset_free(r);
}

static void no_requests_per_unit_are_always_refused(void **state)
{
    (void)state;
    struct rn_ruleset *r = load_good("units.yaml", 0);
    const struct rn_envoy_limit *l = ask(r, "units", "per=never", NULL).limit;
    struct rn_ask take = {.op = RN_TAKE, .now_ns = S, .cost = 1};
    struct rn_answer answer;
    uint64_t word = 0;

    assert_non_null(l->limit);
    assert_false(l->unlimited);
    rn_limit_apply(&l->limit->limit, &word, 1, &take, &answer);
    assert_false(answer.allowed);
    rn_ruleset_free(r);
}

static void unlimited_has_a_rule_but_no_limit(void **state)
{
    (void)state;
    struct rn_ruleset *r = load_good("unlimited.yaml", 0);
    const struct rn_envoy_limit *l = ask(r, "unlimited", "plan=internal", NULL).limit;

    assert_true(l->unlimited);
    assert_null(l->limit);
    assert_non_null(l->rule);
    assert_int_equal(l->rule->tiers[0].limit_count, 0);
    assert_false(ask(r, "unlimited", "plan=basic", NULL).limit->unlimited);
    rn_ruleset_free(r);
}

static void names_and_what_they_replace(void **state)
{
    (void)state;
    struct rn_ruleset *r = load_good("replaces.yaml", 0);
    const struct rn_envoy_limit *premium = ask(r, "replaces", "client=premium", NULL).limit;

    assert_text(premium->name, "premium");
    assert_int_equal(premium->replaces_count, 2);
    assert_text(premium->replaces[0], "per_route");
    assert_text(premium->replaces[1], "per_region");
    assert_text(ask(r, "replaces", "route=x", NULL).limit->name, "per_route");
    assert_int_equal(ask(r, "replaces", "route=x", NULL).limit->replaces_count, 0);
    rn_ruleset_free(r);
}

static void shadow_mode_and_quota_mode(void **state)
{
    (void)state;
    struct rn_ruleset *r = load_good("modes.yaml", 0);
    const struct rn_envoy_limit *trial = ask(r, "modes", "trial=x", NULL).limit;
    const struct rn_envoy_limit *tokens = ask(r, "modes", "tokens=daily", NULL).limit;
    const struct rn_envoy_limit *plain = ask(r, "modes", "plain=x", NULL).limit;

    assert_true(trial->shadow_mode && trial->rule->shadow && !trial->quota_mode);
    assert_true(tokens->quota_mode && !tokens->shadow_mode && !tokens->rule->shadow);
    assert_false(plain->shadow_mode || plain->quota_mode);
    rn_ruleset_free(r);
}

static void flags_are_true_and_false_as_in_yaml_1_1(void **state)
{
    (void)state;
    struct rn_ruleset *r = load_good("flags.yaml", 0);
    const struct rn_envoy_limit *l = ask(r, "shop", "ip=x", NULL).limit;

    assert_true(l->shadow_mode);
    assert_false(l->quota_mode);
    rn_ruleset_free(r);
}

static void metadata_is_flattened_with_dots(void **state)
{
    static const struct {
        const char *key, *value;
        bool text;
    } leaves[] = {
        {"tier", "gold", false},         {"weight", "7", false},
        {"zip", "00100", true},          {"owner.team", "payments", false},
        {"owner.oncall", "true", false}, {"regions.0", "rome", false},
        {"regions.1", "milan", false},
    };
    struct rn_ruleset *r = load_good("metadata.yaml", 0);
    const struct rn_envoy_limit *l = ask(r, "metadata", "service=x", NULL).limit;

    (void)state;
    assert_int_equal(l->metadata_count, sizeof leaves / sizeof *leaves);
    for (size_t i = 0; i < sizeof leaves / sizeof *leaves; i++) {
        assert_text(l->metadata[i].key, leaves[i].key);
        assert_text(l->metadata[i].value, leaves[i].value);
        assert_int_equal(l->metadata[i].text, leaves[i].text);
    }
    rn_ruleset_free(r);
}

static void metrics_distinguish_the_values_asked_for(void **state)
{
    (void)state;
    struct rn_ruleset *r = load_good("metrics.yaml", 0);
    const struct rn_envoy_limit *route =
        ask(r, "metrics", "route=r", "method=GET", "subject=s", NULL).limit;
    const struct rn_envoy_limit *shared = ask(r, "metrics", "path=/files/a", "user=u", NULL).limit;

    assert_false(route->detailed_metric);
    assert_int_equal(route->metric_values, 1); /* value_to_metric of the first level alone */
    assert_true(shared->detailed_metric);
    assert_int_equal(shared->metric_values, 2); /* all but what shares a counter */
    assert_int_equal(ask(r, "metrics", "plain=x", NULL).limit->metric_values, 0);
    rn_ruleset_free(r);
}

/* --- our extensions ----------------------------------------------------------------- */

static void extensions_choose_algorithm_and_period(void **state)
{
    (void)state;
    struct rn_ruleset *r = load_good("extensions.yaml", 0);
#define SPEC(entry) ask(r, "extensions", entry, NULL).limit->limit->spec
    assert_int_equal(SPEC("api=quarter_hour").algorithm, RATION_FIXED_WINDOW);
    assert_true(SPEC("api=quarter_hour").period_ns == 900 * S);
    assert_int_equal(ask(r, "extensions", "api=quarter_hour", NULL).limit->unit, 0);
    assert_int_equal(SPEC("api=smooth").algorithm, RATION_TOKEN_BUCKET);
    assert_int_equal(SPEC("api=smooth").burst, 20);
    assert_int_equal(SPEC("api=smooth_text").algorithm, RATION_TOKEN_BUCKET);
    assert_int_equal(SPEC("api=smooth_text").burst, 20);
    assert_int_equal(ask(r, "extensions", "api=smooth_text", NULL).limit->unit, 2);
    assert_int_equal(SPEC("api=exact").algorithm, RATION_SLIDING_LOG);
    assert_int_equal(SPEC("api=sliding").algorithm, RATION_SLIDING_WINDOW);
    assert_int_equal(SPEC("api=sliding").sub_windows, 60);
    assert_int_equal(SPEC("api=paced").algorithm, RATION_LEAKY_BUCKET);
    assert_true(ask(r, "extensions", "api=free", NULL).limit->unlimited);
#undef SPEC
    rn_ruleset_free(r);
}

static void a_queue_gives_the_rule_a_line(void **state)
{
    (void)state;
    struct rn_ruleset *r = load_good("extensions.yaml", 0);
    const struct rn_rule *rule = ask(r, "extensions", "api=in_line", NULL).limit->rule;

    assert_int_equal(rule->line_size, 50);
    assert_true(rule->max_wait_ns == 2 * S);
    assert_true(rule->hold);
    rule = ask(r, "extensions", "api=in_short_line", NULL).limit->rule;
    assert_int_equal(rule->line_size, 7);
    assert_true(rule->max_wait_ns == 5 * S);
    assert_int_equal(ask(r, "extensions", "api=exact", NULL).limit->rule->line_size, 0);
    rn_ruleset_free(r);
}

/* --- rules -------------------------------------------------------------------------- */

static void each_rate_limit_is_a_rule_named_like_its_path(void **state)
{
    (void)state;
    struct rn_ruleset *r = load_good("nested.yaml", 0);

    assert_int_equal(r->rule_count, 3);
    assert_text(r->rules[0].name, "nested.tenant.service_search.method_POST.user");
    assert_text(r->rules[1].name, "nested.tenant.service_search.method_POST.user_robot");
    assert_text(r->rules[2].name, "nested.tenant.service");
    for (uint32_t i = 0; i < 3; i++) {
        assert_true(r->rules[i].envoy);
        assert_int_equal(r->rules[i].alternatives[0].condition_count, 0);
        assert_int_equal(r->rules[i].tiers[0].limit_count, 1);
        assert_ptr_equal(r->rules[i].tiers[0].limits[0]->rule, &r->rules[i]);
    }
    const struct rn_envoy_limit *l = ask(r, "nested", "tenant=t", "service=s", NULL).limit;
    assert_ptr_equal(l->rule, &r->rules[2]);
    assert_int_equal(l->rule->line, 20);
    rn_ruleset_free(r);
}

static void names_of_rules_are_printable_and_unique(void **state)
{
    (void)state;
    struct rn_ruleset *r = load_sound("domain: d\n"
                                      "descriptors:\n"
                                      "- {key: a_b, value: c, rate_limit: {unit: day, "
                                      "requests_per_unit: 1}}\n"
                                      "- {key: a, value: b_c, rate_limit: {unit: day, "
                                      "requests_per_unit: 2}}\n"
                                      "- {key: \"\\t%\\xe9\", rate_limit: {unit: day, "
                                      "requests_per_unit: 3}}\n");

    assert_text(r->rules[0].name, "d.a_b_c");
    assert_text(r->rules[1].name, "d.a_b_c#2");
    assert_text(r->rules[2].name, "d.%09%25%C3%A9");
    assert_int_equal(RATE(r, "d", "a_b=c"), 1);
    assert_int_equal(RATE(r, "d", "a=b_c"), 2);
    rn_ruleset_free(r);
}

static void json_loads_too(void **state)
{
    (void)state;
    struct rn_ruleset *r = load_good("as_json.json", 0);

    assert_int_equal(RATE(r, "as_json", "ip=192.0.2.1"), 8);
    rn_ruleset_free(r);
}

static void every_example_of_the_documentation_loads(void **state)
{
    char *text = read_fixture("../../../docs", "envoy-format.md", "");
    int count = 0;

    (void)state;
    for (char *at = text, *end; (at = strstr(at, "```yaml\n")) != NULL; at = end + 1, count++) {
        end = strstr(at + 8, "\n```");
        assert_non_null(end);
        *end = '\0';
        rn_ruleset_free(load_sound(at + 8));
    }
    assert_true(count >= 4);
    free(text);
}

/* --- mistakes ----------------------------------------------------------------------- */

static void check_report(const char *folder, const char *stem, bool refused)
{
    struct loaded l;
    char name[300];
    char *text = read_fixture(folder, stem, ".yaml");
    char *expected = read_fixture(folder, stem, ".txt");

    snprintf(name, sizeof name, "%s.yaml", stem);
    load_text(&l, name, text);
    if (strcmp(l.report, expected) != 0)
        fail_msg("%s/%s says:\n%s", folder, name, l.report);
    assert_int_equal(l.ruleset == NULL, refused);
    rn_ruleset_free(l.ruleset);
    free(expected);
    free(text);
}

/* Every NAME.yaml of a folder, against NAME.txt. */
static int check_folder(const char *folder, bool refused)
{
    char path[1024];
    int size = snprintf(path, sizeof path, ENVOY_FIXTURES "%s", folder);
    assert_true((size_t)size < sizeof path);
    DIR *dir = opendir(path);
    int count = 0;

    assert_non_null(dir);
    for (const struct dirent *d; (d = readdir(dir)) != NULL;) {
        const char *end = strstr(d->d_name, ".yaml");
        char stem[256];

        if (!end)
            continue;
        snprintf(stem, sizeof stem, "%.*s", (int)(end - d->d_name), d->d_name);
        check_report(folder, stem, refused);
        count++;
    }
    closedir(dir);
    return count;
}

static void every_bad_file_is_refused_with_its_message(void **state)
{
    (void)state;
    assert_true(check_folder("bad", true) >= 20);
}

static void every_doubtful_file_loads_with_its_warning(void **state)
{
    (void)state;
    assert_true(check_folder("warned", false) >= 10);
}

static void files_add_to_a_domain(void **state)
{
    static const char more[] = "domain: messaging\n"
                               "descriptors:\n"
                               "  - key: other\n"
                               "    rate_limit: {unit: day, requests_per_unit: 7}\n"
                               "  - key: message_type\n"
                               "    value: m*\n"
                               "    rate_limit: {unit: day, requests_per_unit: 9}\n";
    char path[] = "/tmp/ration-domain-XXXXXX";
    const char *const paths[] = {ENVOY_FIXTURES "good/messaging.yaml",
                                 ENVOY_FIXTURES "good/units.yaml", path,
                                 ENVOY_FIXTURES "good/messaging.yaml"};
    struct rn_report *report = new_report();
    struct loaded l;
    int fd = mkstemp(path);

    (void)state;
    assert_int_equal(write(fd, more, sizeof more - 1), sizeof more - 1);
    close(fd);
    l.ruleset = rn_ruleset_load(paths, 3, report);
    take_report(&l, report);
    assert_string_equal(l.report, "");
    assert_int_equal(RATE(l.ruleset, "messaging", "message_type=marketing"), 5);
    assert_int_equal(RATE(l.ruleset, "messaging", "message_type=mail"), 9);
    assert_int_equal(RATE(l.ruleset, "messaging", "other=x"), 7);
    assert_int_equal(RATE(l.ruleset, "units", "per=week"), 5);
    rn_ruleset_free(l.ruleset);

    report = new_report();
    l.ruleset = rn_ruleset_load(paths, 4, report);
    unlink(path);
    take_report(&l, report);
    assert_true(l.errors > 0);
    assert_non_null(strstr(l.report, "already; merge the two"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(five_marketing_messages_a_day),
        cmocka_unit_test(five_logins_a_minute_with_a_capital_value),
        cmocka_unit_test(five_logins_a_minute_and_five_a_day),
        cmocka_unit_test(units_are_lengths_in_any_letter_case),
        cmocka_unit_test(no_requests_per_unit_are_always_refused),
        cmocka_unit_test(unlimited_has_a_rule_but_no_limit),
        cmocka_unit_test(names_and_what_they_replace),
        cmocka_unit_test(shadow_mode_and_quota_mode),
        cmocka_unit_test(flags_are_true_and_false_as_in_yaml_1_1),
        cmocka_unit_test(metadata_is_flattened_with_dots),
        cmocka_unit_test(metrics_distinguish_the_values_asked_for),
        cmocka_unit_test(extensions_choose_algorithm_and_period),
        cmocka_unit_test(a_queue_gives_the_rule_a_line),
        cmocka_unit_test(each_rate_limit_is_a_rule_named_like_its_path),
        cmocka_unit_test(names_of_rules_are_printable_and_unique),
        cmocka_unit_test(json_loads_too),
        cmocka_unit_test(every_example_of_the_documentation_loads),
        cmocka_unit_test(every_bad_file_is_refused_with_its_message),
        cmocka_unit_test(every_doubtful_file_loads_with_its_warning),
        cmocka_unit_test(files_add_to_a_domain),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
