/* SPDX-License-Identifier: Apache-2.0 */
/* Decisions without the server that makes them for many nodes, and single requests in
 * shadow mode. */
#include "rules_fixture.h"

#include "limiter/decide/fallback.h"

static const char rules[] =
    "limits:\n"
    "  - {name: local, key: user, limit: 2 per day, when: {path: /local}}\n"
    "  - {name: open, key: user, limit: 1 per day, on_store_failure: allow, when: {path: /open}}\n"
    "  - {name: shut, key: user, limit: 9 per day, on_store_failure: refuse, when: {path: /shut},\n"
    "     response: {status: 503, message: Not now., headers: x}}\n"
    "  - {name: seen, key: user, limit: 9 per day, on_store_failure: refuse, mode: shadow,\n"
    "     when: {path: /seen}}\n"
    "  - {name: one, key: user, limit: 5 per day, when: {path: /both}}\n"
    "  - {name: two, key: user, limit: 9 per day, on_store_failure: refuse, when: {path: /both}}\n"
    "allow:\n  - {user: root}\n"
    "deny:\n  - {user: eve}\n";

static struct ration_outcome no_server(struct ration *r, const char *words)
{
    struct words w;
    struct ration_outcome out;

    split_words(&w, words);
    assert_int_equal(rn_fallback_decide(r, &w.request, T0, &out), 0);
    return out;
}

static void a_local_rule_is_counted_with_what_was_decided_before(void **state)
{
    struct ration *r = open_rules(rules);

    (void)state;
    assert_true(decide(r, "user=ann path=/local", T0).decision.allowed);
    assert_true(no_server(r, "user=ann path=/local").decision.allowed);
    assert_false(no_server(r, "user=ann path=/local").decision.allowed);
    assert_false(decide(r, "user=ann path=/local", T0).decision.allowed);
    ration_close(r);
}

static void an_open_rule_is_as_if_it_were_not_there(void **state)
{
    struct ration *r = open_rules(rules);

    (void)state;
    for (int i = 0; i < 3; i++) {
        struct ration_outcome out = no_server(r, "user=ann path=/open");

        assert_true(out.decision.allowed && out.kind == RATION_BY_NO_RULE && out.listed == 0);
    }
    assert_int_equal(decide(r, "user=ann path=/open", T0).decision.verdict.remaining, 0);
    ration_close(r);
}

static void a_rule_that_is_shut_refuses_in_its_own_words(void **state)
{
    struct ration *r = open_rules(rules);
    struct ration_outcome out = no_server(r, "user=ann path=/shut");

    (void)state;
    assert_false(out.decision.allowed);
    assert_int_equal(out.decision.verdict.retry_after_ns, RN_SECOND_NS);
    assert_string_equal(out.rule, "shut");
    assert_string_equal(out.message, "Not now.");
    assert_int_equal(out.status, 503);
    assert_int_equal(out.headers, RATION_HEADERS_X);
    assert_true(out.listed == 0 && out.decision.decided_by == -1);
    assert_int_equal(decide(r, "user=ann path=/shut", T0).decision.verdict.remaining, 8);
    ration_close(r);
}

static void what_one_rule_refuses_no_other_is_charged_for(void **state)
{
    struct ration *r = open_rules(rules);

    (void)state;
    assert_string_equal(no_server(r, "user=ann path=/both").rule, "two");
    assert_int_equal(decide(r, "user=ann path=/both", T0).decision.verdict.remaining, 4);
    ration_close(r);
}

static void shadow_limits_refuse_no_request(void **state)
{
    struct ration *r = open_rules(rules);

    (void)state;
    assert_true(no_server(r, "user=ann path=/seen").decision.allowed);
    ration_shadow_set(r, true);
    struct ration_outcome out = no_server(r, "user=ann path=/shut");

    assert_true(out.decision.allowed && out.shadow_refused);
    ration_close(r);
}

static void lists_are_as_ever(void **state)
{
    struct ration *r = open_rules(rules);

    (void)state;
    assert_int_equal(no_server(r, "user=root path=/shut").kind, RATION_BY_ALLOW_LIST);
    assert_int_equal(no_server(r, "user=eve path=/open").kind, RATION_BY_DENY_LIST);
    ration_close(r);
}

static void one_request_may_be_in_shadow_mode_and_is_counted(void **state)
{
    struct ration *r = open_rules(rules);
    struct ration_outcome out;
    struct words w;

    (void)state;
    split_words(&w, "user=ann path=/local");
    w.request.shadow = true;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(ration_decide(r, &w.request, T0, &out), 0);
        assert_true(out.decision.allowed);
        assert_int_equal(out.shadow_refused, i == 2);
    }
    assert_false(decide(r, "user=ann path=/local", T0).decision.allowed);
    ration_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_local_rule_is_counted_with_what_was_decided_before),
        cmocka_unit_test(an_open_rule_is_as_if_it_were_not_there),
        cmocka_unit_test(a_rule_that_is_shut_refuses_in_its_own_words),
        cmocka_unit_test(what_one_rule_refuses_no_other_is_charged_for),
        cmocka_unit_test(shadow_limits_refuse_no_request),
        cmocka_unit_test(lists_are_as_ever),
        cmocka_unit_test(one_request_may_be_in_shadow_mode_and_is_counted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
