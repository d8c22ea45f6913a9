/* SPDX-License-Identifier: Apache-2.0 */
/* Warnings: those of tests/rules/warn, word for word, while loading and by lint. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "rules/lint/lint.h"
#include "unit/rules/fixtures.h"

static void expect_warnings(const char *name, struct text text)
{
    struct rn_report report;
    struct rn_ruleset *ruleset = parse_text(name, text.data, text.len, &report);
    struct text expected = expected_of("warn", name), said;

    assert_non_null(ruleset);
    rn_lint_ruleset(ruleset, &report);
    said = text_of_report(&report);
    assert_string_equal(said.data, expected.data);
    assert_int_equal(report.count[RN_ERROR], 0);
    free(said.data);
    free(expected.data);
    rn_ruleset_free(ruleset);
    rn_report_done(&report);
}

static void each_file_gets_its_warning(void **state)
{
    (void)state;
    assert_true(each_fixture("warn", expect_warnings) >= 25);
}

static void lint_good_file(const char *name, struct text text)
{
    struct rn_report report;
    struct rn_ruleset *ruleset = parse_text(name, text.data, text.len, &report);

    rn_lint_ruleset(ruleset, &report);
    for (uint32_t i = 0; i < report.kept_count; i++)
        assert_true(report.kept[i].at.file == 0 && strchr(report.kept[i].message, ';') != NULL);
    rn_ruleset_free(ruleset);
    rn_report_done(&report);
}

static void every_warning_has_a_remedy_and_a_place(void **state)
{
    (void)state;
    each_fixture("good", lint_good_file);
}

static void envoy_rules_get_no_native_warnings(void **state)
{
    static const char text[] = "domain: shop\n"
                               "descriptors:\n"
                               "  - key: user\n"
                               "    rate_limit: {unit: second, requests_per_unit: 5}\n";
    struct rn_report report;
    struct rn_ruleset *ruleset = parse_text("envoy.yaml", text, sizeof text - 1, &report);

    (void)state;
    assert_non_null(ruleset);
    rn_lint_ruleset(ruleset, &report);
    assert_int_equal(report.count[RN_WARNING], 0);
    rn_ruleset_free(ruleset);
    rn_report_done(&report);
}

static void native_rules_that_do_not_apply_to_envoy_get_a_warning(void **state)
{
    static const char *const paths[] = {TESTS_DIR "/rules/envoy/good/messaging.yaml",
                                        TESTS_DIR "/rules/good/costs.yaml"};
    struct rn_report report;
    struct text said;

    (void)state;
    rn_report_init(&report);
    struct rn_ruleset *ruleset = rn_ruleset_load(paths, 2, &report);

    assert_non_null(ruleset);
    rn_lint_ruleset(ruleset, &report);
    said = text_of_report(&report);
    assert_non_null(strstr(said.data, "do not apply to requests of Envoy's protocol; add "
                                      "apply_to_envoy: true"));
    free(said.data);
    rn_ruleset_free(ruleset);
    rn_report_done(&report);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_file_gets_its_warning),
        cmocka_unit_test(every_warning_has_a_remedy_and_a_place),
        cmocka_unit_test(envoy_rules_get_no_native_warnings),
        cmocka_unit_test(native_rules_that_do_not_apply_to_envoy_get_a_warning),
    };
    return cmocka_run_group_tests_name("rules/lint", tests, NULL, NULL);
}
