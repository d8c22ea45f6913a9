/* SPDX-License-Identifier: Apache-2.0 */
/* Rules on trial: whatever rules there are, those with a trial load, and have what they must. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "rules/print/print.h"
#include "rules/print/trial.h"
#include "unit/rules/fixtures.h"

static struct rn_ruleset *load(const char *text, size_t len, struct rn_report *report)
{
    struct rn_ruleset *ruleset = parse_text("rules.yaml", text, len, report);

    if (ruleset == NULL)
        fail_msg("%s\n%.*s", text_of_report(report).data, (int)len, text);
    return ruleset;
}

static struct rn_ruleset *load_text(const char *text, struct rn_report *report)
{
    return load(text, strlen(text), report);
}

static struct text print_of(const struct rn_ruleset *ruleset)
{
    struct text text = {NULL, 0};

    rn_print_ruleset(ruleset, text_add, &text);
    return text;
}

static uint32_t lines_of(const struct rn_buf *list)
{
    uint32_t count = 0;

    for (size_t i = 0; i < list->len; i++)
        count += list->data[i] == '\n';
    return count;
}

/* All rules of the file on trial beside none; then what is left when the trial ends. */
static void try_all(const char *name, struct text text)
{
    struct rn_report report, empty_report, tried_report, ended_report;
    struct rn_ruleset *empty = load_text("limits: []", &empty_report);
    struct rn_ruleset *candidate = load(text.data, text.len, &report);
    struct rn_trial trial = {0};

    if (candidate->domains == NULL) {
        if (!rn_trial_make(empty, candidate, RN_SLICE(""), &report, &trial))
            fail_msg("%s: %s", name, text_of_report(&report).data);
        struct rn_ruleset *tried = load(trial.text.data, trial.text.len, &tried_report);
        struct rn_buf left = {0};
        struct text before = print_of(empty);

        assert_int_equal(lines_of(&trial.added), candidate->rule_count);
        assert_int_equal(tried->rule_count, candidate->rule_count);
        for (uint32_t i = 0; i < tried->rule_count; i++) {
            const struct rn_rule *rule = &tried->rules[i];

            assert_true(rule->shadow);
            assert_null(rule->escalate);
            assert_null(rule->earn);
            assert_null(rule->usage);
        }
        assert_true(rn_trial_end(tried, rn_buf_slice(&trial.added), &left));
        assert_true(left.len >= before.len); /* attributes and signals may have come */
        struct rn_ruleset *ended = load(left.data, left.len, &ended_report);

        assert_int_equal(ended->rule_count, 0);
        rn_ruleset_free(ended);
        rn_report_done(&ended_report);
        rn_buf_done(&left);
        free(before.data);
        rn_ruleset_free(tried);
        rn_report_done(&tried_report);
    }
    rn_trial_done(&trial);
    rn_ruleset_free(candidate);
    rn_ruleset_free(empty);
    rn_report_done(&report);
    rn_report_done(&empty_report);
}

static void all_rules_of_good_files_can_be_tried(void **state)
{
    (void)state;
    each_fixture("good", try_all);
}

/* The file on trial beside itself. */
static void try_itself(const char *name, struct text text)
{
    struct rn_report report, again_report;
    struct rn_ruleset *base = load(text.data, text.len, &report);
    struct rn_ruleset *candidate = load(text.data, text.len, &again_report);
    struct rn_trial trial = {0};
    struct text printed = print_of(base);

    if (base->domains == NULL) {
        assert_true(rn_trial_make(base, candidate, RN_SLICE(""), &again_report, &trial));
        if (trial.added.len + trial.removed.len + trial.changed.len != 0 || trial.differs != 0)
            fail_msg("%s differs from itself: %.*s", name, (int)trial.added.len, trial.added.data);
        if (base->rule_count != 0)
            assert_memory_equal(trial.text.data, printed.data, printed.len);
    }
    rn_trial_done(&trial);
    free(printed.data);
    rn_ruleset_free(candidate);
    rn_ruleset_free(base);
    rn_report_done(&report);
    rn_report_done(&again_report);
}

static void rules_in_force_have_nothing_to_try_and_are_printed_as_they_are(void **state)
{
    (void)state;
    each_fixture("good", try_itself);
}

static void a_trial_names_what_it_adds_changes_and_leaves(void **state)
{
    struct rn_report base_report, report;
    struct rn_ruleset *base = load_text("limits:\n"
                                        "  - {name: a, limit: 1 per hour}\n"
                                        "  - {name: b, limit: 2 per hour}\n"
                                        "  - {name: c, limit: 3 per hour}\n"
                                        "  - {name: a.trial, limit: 9 per hour, mode: shadow}\n",
                                        &base_report);
    struct rn_ruleset *candidate = load_text("limits:\n"
                                             "  - {name: d, limit: 4 per hour}\n"
                                             "  - {name: a, limit: 1 per hour}\n"
                                             "  - {name: b, limit: 5 per hour, mode: shadow}\n",
                                             &report);
    struct rn_trial trial = {0};

    (void)state;
    assert_true(rn_trial_make(base, candidate, RN_SLICE("a.trial\n"), &report, &trial));
    rn_buf_put_char(&trial.added, '\0');
    rn_buf_put_char(&trial.changed, '\0');
    rn_buf_put_char(&trial.removed, '\0');
    assert_string_equal(trial.added.data, "d.trial\nb.trial\n");
    assert_string_equal(trial.changed.data, "b\n");
    assert_string_equal(trial.removed.data, "c\n");
    rn_buf_put_char(&trial.text, '\0');
    assert_string_equal(trial.text.data, "mode: enforce\n"
                                         "limits:\n"
                                         "  - name: \"a\"\n    limit: [1 per hour]\n"
                                         "  - name: \"b\"\n    limit: [2 per hour]\n"
                                         "  - name: \"c\"\n    limit: [3 per hour]\n"
                                         "  - name: \"d.trial\"\n    limit: [4 per hour]\n"
                                         "    mode: shadow\n"
                                         "  - name: \"b.trial\"\n    limit: [5 per hour]\n"
                                         "    mode: shadow\n");
    rn_trial_done(&trial);
    rn_ruleset_free(candidate);
    rn_ruleset_free(base);
    rn_report_done(&report);
    rn_report_done(&base_report);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_rules_of_good_files_can_be_tried),
        cmocka_unit_test(rules_in_force_have_nothing_to_try_and_are_printed_as_they_are),
        cmocka_unit_test(a_trial_names_what_it_adds_changes_and_leaves),
    };
    return cmocka_run_group_tests_name("rules/trial", tests, NULL, NULL);
}
