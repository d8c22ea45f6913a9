/* SPDX-License-Identifier: Apache-2.0 */
/* The native format: what the good files of tests/rules mean, and what is said
 * about the bad ones, word for word. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <cmocka.h>

#include "rules/ruleset.h"
#include "unit/rules/fixtures.h"

#define S INT64_C(1000000000)

/* --- corpora ----------------------------------------------------------------------- */

static void expect_good(const char *name, struct text text)
{
    struct rn_report report;
    struct rn_ruleset *ruleset = parse_text(name, text.data, text.len, &report);
    struct text said = text_of_report(&report);

    if (ruleset == NULL || said.len != 0)
        fail_msg("%s:\n%s", name, said.data);
    free(said.data);
    rn_ruleset_free(ruleset);
    rn_report_done(&report);
}

static void expect_bad(const char *name, struct text text)
{
    struct rn_report report;
    struct rn_ruleset *ruleset = parse_text(name, text.data, text.len, &report);
    struct text said = text_of_report(&report), expected = expected_of("bad", name);

    assert_null(ruleset);
    assert_string_equal(said.data, expected.data);
    free(said.data);
    free(expected.data);
    rn_report_done(&report);
}

static void good_files_load_without_messages(void **state)
{
    (void)state;
    assert_true(each_fixture("good", expect_good) >= 15);
}

static void each_bad_file_gets_its_message(void **state)
{
    (void)state;
    assert_true(each_fixture("bad", expect_bad) >= 60);
}

/* --- meaning ----------------------------------------------------------------------- */

static struct rn_report report;

/* A ruleset of tests/rules/good/<name>; free it and the report. */
static struct rn_ruleset *load_good(const char *name)
{
    char path[1024];
    const char *paths[] = {path};

    snprintf(path, sizeof path, "%s/rules/good/%s", TESTS_DIR, name);
    rn_report_init(&report);
    struct rn_ruleset *ruleset = rn_ruleset_load(paths, 1, &report);
    assert_non_null(ruleset);
    return ruleset;
}

static struct rn_ruleset *parse(const char *text)
{
    struct rn_ruleset *ruleset = parse_text("rules.yaml", text, strlen(text), &report);
    struct text said = text_of_report(&report);

    if (ruleset == NULL)
        fail_msg("%s", said.data);
    free(said.data);
    return ruleset;
}

static void done(struct rn_ruleset *ruleset)
{
    rn_ruleset_free(ruleset);
    rn_report_done(&report);
}

static const struct rn_rule *rule_of(const struct rn_ruleset *ruleset, const char *name)
{
    for (uint32_t i = 0; i < ruleset->rule_count; i++)
        if (rn_slice_is(ruleset->rules[i].name, name))
            return &ruleset->rules[i];
    fail_msg("no rule %s", name);
    return NULL;
}

static const struct rn_rule_limit *limit_of(const struct rn_ruleset *ruleset, const char *name)
{
    const struct rn_rule *rule = rule_of(ruleset, name);

    assert_int_equal(rule->tier_count, 1);
    assert_true(rule->tiers[0].limit_count >= 1);
    assert_ptr_equal(rule->tiers[0].limits[0]->rule, rule);
    return rule->tiers[0].limits[0];
}

static void a_rule_has_sensible_defaults(void **state)
{
    (void)state;
    struct rn_ruleset *ruleset = parse("limits: [{name: a, limit: 5 per second}]");
    const struct rn_rule *rule = rule_of(ruleset, "a");

    assert_int_equal(rule->alternatives[0].condition_count, 0);
    assert_int_equal(rule->key_count, 0);
    assert_int_equal(rule->default_tier, 0);
    assert_false(rule->throttle.on);
    assert_int_equal(rule->on_store_failure, RN_FAIL_LOCAL);
    assert_int_equal(rule->consistency, RN_STRICT);
    assert_int_equal(rule->response.status, 429);
    assert_true(rule->cost.fixed == 0 && rule->cost.attribute == RN_NO_ATTRIBUTE);
    assert_false(rule->shadow || rule->hold || rule->on_full != RN_FULL_EVICT || ruleset->shadow);
    assert_int_equal(limit_of(ruleset, "a")->limit.algorithm, RATION_TOKEN_BUCKET);
    assert_true(rn_slice_is(rule->file, "rules.yaml"));
    assert_int_equal(rule->line, 1);
    done(ruleset);
}

static void the_examples_of_the_requirements_mean_what_they_say(void **state)
{
    (void)state;
    struct rn_ruleset *ruleset = load_good("examples.yaml");

    assert_int_equal(limit_of(ruleset, "posts")->spec.amount, 2);
    assert_true(limit_of(ruleset, "posts")->spec.period_ns == S);
    assert_int_equal(limit_of(ruleset, "accounts")->spec.amount, 10);
    assert_true(limit_of(ruleset, "accounts")->spec.period_ns == 86400 * S);
    assert_int_equal(limit_of(ruleset, "rewards")->spec.amount, 5);
    assert_true(limit_of(ruleset, "rewards")->spec.period_ns == 7 * 86400 * S);
    const struct rn_key_part *key = rule_of(ruleset, "accounts")->key;
    assert_true(ruleset->attributes[key->attributes[0]].is_ip);
    assert_int_equal(key->ipv4_prefix, 32);
    assert_int_equal(key->ipv6_prefix, 64);
    done(ruleset);
}

static void tiers_are_shared_and_have_a_default(void **state)
{
    (void)state;
    struct rn_ruleset *ruleset = load_good("tiers.yaml");
    const struct rn_rule *reads = rule_of(ruleset, "reads"), *writes = rule_of(ruleset, "writes");

    assert_int_equal(reads->tier_count, 4);
    assert_int_equal(reads->default_tier, 0);
    assert_true(rn_slice_is(reads->tiers[2].value, "pro"));
    assert_int_equal(reads->tiers[2].limit_count, 2);
    assert_true(rn_slice_is(reads->tiers[3].value, "enterprise"));
    assert_int_equal(reads->tiers[3].limit_count, 0);
    /* The rule's own default wins, and its algorithm reaches the shared texts. */
    assert_int_equal(writes->tier_count, 5);
    assert_int_equal(writes->default_tier, 4);
    assert_int_equal(writes->tiers[4].limits[0]->spec.amount, 10);
    assert_int_equal(writes->tiers[0].limits[0]->spec.sub_windows, 12);
    done(ruleset);
}

static void algorithms_and_their_settings_reach_the_limits(void **state)
{
    (void)state;
    struct rn_ruleset *ruleset = load_good("algorithms.yaml");

    assert_int_equal(limit_of(ruleset, "leaky")->spec.algorithm, RATION_LEAKY_BUCKET);
    assert_int_equal(limit_of(ruleset, "queue")->spec.queue, 50);
    assert_true(limit_of(ruleset, "first")->spec.from_first);
    assert_false(limit_of(ruleset, "epoch")->spec.from_first);
    assert_int_equal(limit_of(ruleset, "subs")->limit.subs, 30);
    assert_true(limit_of(ruleset, "places")->limit.lease_ns == 30 * S);
    assert_int_equal(rule_of(ruleset, "open")->tiers[0].limit_count, 0);
    const struct rn_tier *several = &rule_of(ruleset, "several")->tiers[0];
    assert_int_equal(several->limit_count, 3);
    assert_int_equal(several->limits[1]->spec.algorithm, RATION_SLIDING_LOG);
    assert_int_equal(several->limits[2]->spec.algorithm, RATION_CONCURRENCY);
    done(ruleset);
}

static void a_soft_part_enlarges_the_capacity_only(void **state)
{
    (void)state;
    struct rn_ruleset *ruleset =
        parse("limits:\n"
              "  - {name: bucket, limit: 100 per minute burst 15, soft: 10%}\n"
              "  - {name: window, limit: 100 per minute, soft: 10%, algorithm: fixed-window}\n"
              "  - {name: queue, limit: 10 per second queue 19, soft: 10%}\n"
              "  - {name: closed, limit: 0 per minute, soft: 10%}\n");

    assert_int_equal(limit_of(ruleset, "bucket")->soft_units, 2);
    assert_int_equal(limit_of(ruleset, "bucket")->limit.cap, 17);
    assert_int_equal(limit_of(ruleset, "bucket")->limit.amount, 100);
    assert_int_equal(limit_of(ruleset, "bucket")->spec.burst, 15);
    assert_int_equal(limit_of(ruleset, "window")->limit.cap, 110);
    assert_int_equal(limit_of(ruleset, "queue")->limit.cap, 22);
    assert_int_equal(limit_of(ruleset, "closed")->limit.cap, 0);
    assert_int_equal(limit_of(ruleset, "closed")->soft_units, 0);
    done(ruleset);
}

static void quotas_have_calendars_and_are_kept(void **state)
{
    (void)state;
    struct rn_ruleset *ruleset = load_good("quotas.yaml");

    assert_non_null(limit_of(ruleset, "monthly")->limit.calendar);
    assert_int_equal(rule_of(ruleset, "monthly")->on_full, RN_FULL_REFUSE);
    assert_true(rule_of(ruleset, "monthly")->spread_ns == 3600 * S);
    assert_int_equal(rule_of(ruleset, "daily-mail")->on_full, RN_FULL_EVICT);
    assert_int_equal(ruleset->calendar_count, 2);
    done(ruleset);
}

static void values_are_written_as_they_are_compared(void **state)
{
    (void)state;
    struct rn_ruleset *ruleset = load_good("conditions.yaml");
    const struct rn_rule *rule = rule_of(ruleset, "one-address");

    assert_int_equal(rule->alternatives[0].condition_count, 3);
    assert_int_equal(rule->alternatives[0].conditions[0].test, RN_TEST_CIDR);
    assert_true(rn_slice_is(rule->alternatives[0].conditions[1].values[0], "api.example.com"));
    assert_true(rn_slice_is(rule->alternatives[0].conditions[2].values[0], "GET"));
    rule = rule_of(ruleset, "named-tests");
    assert_int_equal(rule->alternatives[0].conditions[0].test, RN_TEST_EQUALS); /* equals: "*" */
    done(ruleset);
}

static void costs_priorities_and_responses_are_kept(void **state)
{
    (void)state;
    struct rn_ruleset *ruleset = load_good("costs.yaml");

    assert_int_equal(rule_of(ruleset, "search")->cost.fixed, 5);
    const struct rn_cost *cost = &rule_of(ruleset, "export")->cost;
    assert_true(rn_slice_is(ruleset->attributes[cost->attribute].name, "header.x-rows"));
    assert_int_equal(cost->fixed, 1);
    assert_int_equal(cost->max, 500);
    done(ruleset);

    ruleset = load_good("responses.yaml");
    assert_int_equal(rule_of(ruleset, "api")->response.headers, RN_HEADERS_IETF);
    assert_true(rule_of(ruleset, "api")->response.message.len > 0);
    assert_int_equal(rule_of(ruleset, "beta")->response.status, 503);
    done(ruleset);

    ruleset = load_good("behaviour.yaml");
    const struct rn_priority *priority = &rule_of(ruleset, "prioritised")->priority;
    assert_int_equal(priority->level_count, 3);
    assert_int_equal(priority->default_level, 1);
    assert_int_equal(priority->levels[2].keep_percent, 50);
    assert_true(rule_of(ruleset, "waiting")->hold);
    assert_true(rule_of(ruleset, "waiting")->max_wait_ns == 5 * S);
    done(ruleset);
}

static void expect_line(const struct rn_ruleset *ruleset, const char *name, uint32_t size,
                        int64_t max_wait_ns)
{
    const struct rn_rule *rule = rule_of(ruleset, name);

    assert_true(rule->hold);
    assert_int_equal(rule->line_size, size);
    assert_true(rule->max_wait_ns == max_wait_ns);
}

static void requests_wait_in_line_where_a_rule_says_so(void **state)
{
    (void)state;
    struct rn_ruleset *ruleset = load_good("queues.yaml");

    expect_line(ruleset, "held", 100, 5 * S);
    expect_line(ruleset, "held-longer", 100, 30 * S);
    expect_line(ruleset, "number", 50, 5 * S);
    expect_line(ruleset, "number-longer", 50, 60 * S);
    expect_line(ruleset, "by-priority", 1000, 10 * S);
    assert_false(rule_of(ruleset, "by-priority")->line_by_arrival);
    expect_line(ruleset, "by-arrival", 100, 5 * S);
    assert_true(rule_of(ruleset, "by-arrival")->line_by_arrival);
    expect_line(ruleset, "leaky", 0, 0); /* has a queue of its own */
    expect_line(ruleset, "leaky-line", 20, 4 * S);
    expect_line(ruleset, "slowed", 100, 8 * S);
    expect_line(ruleset, "failures", 0, 0); /* looked at only */
    assert_false(rule_of(ruleset, "returned")->hold);
    assert_int_equal(rule_of(ruleset, "returned")->line_size, 0);
    done(ruleset);
}

/* --- several files ----------------------------------------------------------------- */

static char scratch[64];

static void write_file(const char *name, const char *text)
{
    char path[128];

    snprintf(path, sizeof path, "%s/%s", scratch, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int make_scratch(void **state)
{
    (void)state;
    snprintf(scratch, sizeof scratch, "/tmp/ration-rules-XXXXXX");
    return mkdtemp(scratch) == NULL;
}

static int remove_scratch(void **state)
{
    static const char *const names[] = {"a.yaml", "b.yml", "c.json", "notes.txt"};
    char path[128];

    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", scratch, names[i]);
        unlink(path);
    }
    return rmdir(scratch);
}

static struct rn_ruleset *load_scratch(void)
{
    const char *paths[] = {scratch};

    rn_report_init(&report);
    return rn_ruleset_load(paths, 1, &report);
}

static void expect_report(const char *expected)
{
    struct text said = text_of_report(&report);
    char *at;

    while ((at = strstr(said.data, scratch)) != NULL)
        memmove(at, at + strlen(scratch) + 1, strlen(at + strlen(scratch) + 1) + 1);
    assert_string_equal(said.data, expected);
    free(said.data);
    rn_report_done(&report);
}

static void a_directory_is_read_in_order_of_names_and_files_share_sections(void **state)
{
    (void)state;
    write_file("c.json", "{\"attributes\": {\"client\": {\"forwarded\": \"forwarded\", "
                         "\"trusted_proxies\": \"10.0.0.0/8\"}}, \"tiers\": {\"plans\": "
                         "{\"free\": \"1 per second\"}}}");
    write_file("b.yml", "limits: [{name: second, key: client, limit: 5 per second}]");
    write_file("a.yaml", "limits: [{name: first, limit: {by: tier, use: plans}}]");
    write_file("notes.txt", "not rules");

    struct rn_ruleset *ruleset = load_scratch();
    assert_non_null(ruleset);
    assert_int_equal(ruleset->rule_count, 2);
    assert_true(rn_slice_is(ruleset->rules[0].name, "first"));
    const struct rn_key_part *key = ruleset->rules[1].key;
    assert_true(ruleset->attributes[key->attributes[0]].is_ip);
    rn_ruleset_free(ruleset);
    expect_report("");
}

static void a_section_in_two_files_is_reported(void **state)
{
    (void)state;
    write_file("a.yaml", "mode: shadow\nserver: {workers: 2}\n"
                         "limits: [{name: api, limit: 5 per second}]\n");
    write_file("b.yml", "mode: enforce\nserver: {workers: 4}\n"
                        "limits: [{name: api, limit: 7 per second}]\n");

    assert_null(load_scratch());
    expect_report("b.yml:1:1: error: \"mode\" is given already, at a.yaml:1; keep one of them\n"
                  "    mode: enforce\n    ^\n"
                  "b.yml:2:10: error: \"workers\" is given already, at a.yaml:2; keep one of them\n"
                  "    server: {workers: 4}\n             ^\n"
                  "b.yml:3:17: error: there is a limit named \"api\" already, at a.yaml:3; every "
                  "limit needs a name of its own\n"
                  "    limits: [{name: api, limit: 7 per second}]\n                    ^\n");
}

static void all_files_are_reported_on_at_once(void **state)
{
    (void)state;
    write_file("a.yaml", "limits: [{name: a, limit: 5 pr second}]\n");
    write_file("b.yml", "limits: [{name: b, limit: 5 per secnd}]\n");
    write_file("c.json", "{\"limits\": [}");
    assert_null(load_scratch());
    assert_true(report.count[RN_ERROR] >= 3);
    assert_int_equal(report.kept[0].at.file, 0);
    assert_int_equal(report.kept[report.kept_count - 1].at.file, 2);
    rn_report_done(&report);
}

static void an_empty_directory_and_a_missing_file_are_errors(void **state)
{
    const char *paths[] = {scratch, "/nonexistent/rules.yaml"};

    (void)state;
    rn_report_init(&report);
    assert_null(rn_ruleset_load(paths, 2, &report));
    assert_int_equal(report.count[RN_ERROR], 2);
    rn_report_done(&report);
}

static void names_of_attributes_are_found_by_number(void **state)
{
    (void)state;
    struct rn_ruleset *ruleset = load_good("layers.yaml");
    uint16_t number = rn_ruleset_attribute(ruleset, RN_SLICE("user"));

    assert_true(number < ruleset->attribute_count);
    assert_true(rn_slice_is(ruleset->attributes[number].name, "user"));
    assert_int_equal(rn_ruleset_attribute(ruleset, RN_SLICE("nobody")), RN_NO_ATTRIBUTE);
    done(ruleset);
    rn_ruleset_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_files_load_without_messages),
        cmocka_unit_test(each_bad_file_gets_its_message),
        cmocka_unit_test(a_rule_has_sensible_defaults),
        cmocka_unit_test(the_examples_of_the_requirements_mean_what_they_say),
        cmocka_unit_test(tiers_are_shared_and_have_a_default),
        cmocka_unit_test(algorithms_and_their_settings_reach_the_limits),
        cmocka_unit_test(a_soft_part_enlarges_the_capacity_only),
        cmocka_unit_test(quotas_have_calendars_and_are_kept),
        cmocka_unit_test(values_are_written_as_they_are_compared),
        cmocka_unit_test(costs_priorities_and_responses_are_kept),
        cmocka_unit_test(requests_wait_in_line_where_a_rule_says_so),
        cmocka_unit_test_setup_teardown(
            a_directory_is_read_in_order_of_names_and_files_share_sections, make_scratch,
            remove_scratch),
        cmocka_unit_test_setup_teardown(a_section_in_two_files_is_reported, make_scratch,
                                        remove_scratch),
        cmocka_unit_test_setup_teardown(all_files_are_reported_on_at_once, make_scratch,
                                        remove_scratch),
        cmocka_unit_test_setup_teardown(an_empty_directory_and_a_missing_file_are_errors,
                                        make_scratch, remove_scratch),
        cmocka_unit_test(names_of_attributes_are_found_by_number),
    };
    return cmocka_run_group_tests_name("rules/native", tests, NULL, NULL);
}
