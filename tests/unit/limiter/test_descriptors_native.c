/* SPDX-License-Identifier: Apache-2.0 */
/* Envoy's requests under native rules: apply_to_envoy. */
#include "descriptors_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <ration/clients.h>

#define MILLI (SECOND / 1000)

/* Rules of both formats, in two files. */
static struct ration *open_both(const char *native, const char *envoy)
{
    char folder[] = "/tmp/ration-both-XXXXXX", paths[2][64];
    const char *const texts[2] = {native, envoy}, *const names[2] = {paths[0], paths[1]};
    struct ration *r = open_limits(NULL, 0);
    struct rn_report report;

    assert_non_null(mkdtemp(folder));
    for (size_t i = 0; i < 2; i++) {
        snprintf(paths[i], sizeof paths[i], "%s/%zu.yaml", folder, i);
        FILE *file = fopen(paths[i], "w");

        assert_non_null(file);
        assert_true(fputs(texts[i], file) >= 0);
        assert_int_equal(fclose(file), 0);
    }
    rn_report_init(&report);
    struct rn_ruleset *set = rn_ruleset_load(names, 2, &report);

    rn_report_done(&report);
    for (size_t i = 0; i < 2; i++)
        assert_int_equal(unlink(paths[i]), 0);
    assert_int_equal(rmdir(folder), 0);
    assert_non_null(set);
    assert_int_equal(rn_reload_install(r, set, T0, &(struct ration_error){0}), 0);
    return r;
}

static struct ration_totals totals_of(struct ration *r, const char *rule)
{
    struct ration_totals totals;

    assert_int_equal(ration_rule_totals(r, rule, strlen(rule), &totals), 0);
    return totals;
}

static const char by_user[] = "apply_to_envoy: true\n"
                              "limits:\n"
                              "  - {name: by-user, key: user, limit: 10 per hour,\n"
                              "     algorithm: fixed-window}\n";

static void native_rules_apply_only_where_a_file_says_so(void **state)
{
    const char *rest = strchr(by_user, '\n') + 1;
    struct ration *r = open_rules(rest);

    (void)state;
    for (int i = 0; i < 20; i++)
        assert_true(ask_for(r, "shop", "user=ann", T0));
    assert_false(out.statuses[0].limited);
    rules_at(r, by_user, T0);
    for (int i = 0; i < 10; i++)
        assert_true(ask_for(r, "shop", "user=ann", T0));
    assert_false(ask_for(r, "shop", "user=ann", T0));
    assert_true(out.statuses[0].over);
    assert_int_equal(out.decided_by, 0);
    assert_string_equal(out.statuses[0].rule, "by-user");
    assert_string_equal(out.statuses[0].name, "by-user");
    assert_int_equal(out.statuses[0].requests_per_unit, 10);
    assert_int_equal(out.statuses[0].unit, RATION_UNIT_HOUR);
    ration_close(r);
}

static void requests_of_all_protocols_share_a_counter(void **state)
{
    struct ration *r = open_rules(by_user);

    (void)state;
    assert_int_equal(admitted(r, "user=ann", 7, T0), 7);
    assert_true(ask_for(r, "shop", "user=ann", T0));
    assert_int_equal(out.statuses[0].remaining, 2);
    ration_close(r);
}

static void a_rule_is_charged_once_for_a_key_and_each_key_for_itself(void **state)
{
    struct ration *r = open_rules(by_user);
    struct asked a;

    (void)state;
    DESCRIBE(&a, "shop", "user=ann", "user=ann path=/x", "path=/x user=ann", "user=bob");
    assert_true(ask(r, &a, T0));
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(out.statuses[i].remaining, 9);
    assert_int_equal(left_of(r, "by-user", "user=ann", T0), 9);
    assert_int_equal(left_of(r, "by-user", "user=bob", T0), 9);
    assert_int_equal(totals_of(r, "by-user").allowed, 2);
    ration_close(r);
}

static void the_domain_is_an_attribute(void **state)
{
    struct ration *r = open_rules("apply_to_envoy: true\n"
                                  "limits:\n"
                                  "  - {name: all, key: domain, limit: 2 per hour}\n"
                                  "  - {name: shop, when: {domain: shop}, limit: 1 per hour}\n");

    (void)state;
    assert_true(ask_for(r, "shop", "user=ann", T0));
    assert_false(ask_for(r, "shop", "user=ann domain=other", T0));
    assert_true(ask_for(r, "other", "user=ann", T0));
    assert_true(ask_for(r, "other", "user=ann", T0));
    assert_false(ask_for(r, "other", "user=ann", T0));
    ration_close(r);
}

static void hits_are_the_cost_and_the_largest_counts(void **state)
{
    struct ration *r = open_rules(by_user);
    struct asked a;

    (void)state;
    DESCRIBE(&a, "shop", "user=ann", "user=ann path=/x");
    a.request.hits = 2;
    assert_true(ask(r, &a, T0));
    assert_int_equal(left_of(r, "by-user", "user=ann", T0), 8);
    a.asks[0].hits_given = true;
    a.asks[0].hits = 5;
    assert_true(ask(r, &a, T0));
    assert_int_equal(left_of(r, "by-user", "user=ann", T0), 3);
    assert_int_equal(totals_of(r, "by-user").hits_allowed, 7);
    ration_close(r);
}

static void a_rule_with_a_cost_of_its_own_keeps_it(void **state)
{
    struct ration *r = open_rules("apply_to_envoy: true\n"
                                  "limits:\n"
                                  "  - {name: tokens, key: user, limit: 10 per hour, cost: 4}\n");
    struct asked a;

    (void)state;
    DESCRIBE(&a, "shop", "user=ann");
    a.request.hits = 9;
    assert_true(ask(r, &a, T0));
    assert_true(ask(r, &a, T0));
    assert_false(ask(r, &a, T0));
    ration_close(r);
}

static void a_look_charges_nothing_and_late_debits_are_owed(void **state)
{
    struct ration *r = open_rules(by_user);
    struct asked look_at, used;

    (void)state;
    DESCRIBE(&look_at, "shop", "user=ann");
    look_at.asks[0].hits_given = true;
    DESCRIBE(&used, "shop", "user=ann", "user=ann path=/x");
    used.asks[0].hits_given = used.asks[1].hits_given = true;
    used.asks[0].hits = used.asks[1].hits = 6;
    for (int i = 0; i < 20; i++)
        assert_true(ask(r, &look_at, T0));
    assert_int_equal(out.statuses[0].remaining, 10);
    assert_true(ask(r, &used, T0));
    assert_true(ask(r, &look_at, T0));
    assert_false(ask(r, &used, T0)); /* 12 of 10: over, and charged once */
    assert_int_equal(out.statuses[0].remaining, 0);
    assert_false(ask(r, &look_at, T0));
    assert_true(out.statuses[0].over);
    assert_int_equal(totals_of(r, "by-user").hits_allowed, 12);
    ration_close(r);
}

static void a_charge_by_one_descriptor_beats_a_look_by_another(void **state)
{
    struct ration *r = open_rules(by_user);
    struct asked a;

    (void)state;
    DESCRIBE(&a, "shop", "user=ann path=/x", "user=ann");
    a.asks[0].hits_given = true; /* 0: looks */
    assert_true(ask(r, &a, T0));
    assert_int_equal(left_of(r, "by-user", "user=ann", T0), 9);
    ration_close(r);
}

static void refunds_are_given_back_once(void **state)
{
    struct ration *r = open_rules(by_user);
    struct asked a;

    (void)state;
    assert_int_equal(admitted(r, "user=ann", 8, T0), 8);
    DESCRIBE(&a, "shop", "user=ann", "user=ann path=/x");
    a.asks[0].refund = a.asks[1].refund = true;
    a.asks[0].hits_given = a.asks[1].hits_given = true;
    a.asks[0].hits = 3;
    a.asks[1].hits = 2;
    assert_true(ask(r, &a, T0));
    assert_int_equal(out.statuses[0].remaining, 5);
    assert_int_equal(left_of(r, "by-user", "user=ann", T0), 5);
    ration_close(r);
}

static void shadow_rules_refuse_no_request(void **state)
{
    struct ration *r = open_rules("apply_to_envoy: true\n"
                                  "limits:\n"
                                  "  - {name: shy, key: user, limit: 1 per hour, mode: shadow}\n");

    (void)state;
    assert_true(ask_for(r, "shop", "user=ann", T0));
    assert_false(out.shadowed);
    assert_true(ask_for(r, "shop", "user=ann", T0));
    assert_true(out.shadowed);
    assert_true(out.statuses[0].shadow);
    assert_false(out.statuses[0].over);
    ration_close(r);
}

static const char shop[] = "domain: shop\n"
                           "descriptors:\n"
                           "  - key: user\n"
                           "    rate_limit: {unit: minute, requests_per_unit: 3, name: envoys}\n"
                           "  - key: path\n"
                           "    rate_limit: {unit: minute, requests_per_unit: 100}\n";

static void both_kinds_are_charged_all_or_none(void **state)
{
    struct ration *r = open_both(by_user, shop);
    struct asked a;

    (void)state;
    for (int i = 0; i < 3; i++)
        assert_true(ask_for(r, "shop", "user=ann", T0));
    for (int i = 0; i < 5; i++)
        assert_false(ask_for(r, "shop", "user=ann", T0));
    assert_int_equal(left_of(r, "by-user", "user=ann", T0), 7);

    assert_int_equal(admitted(r, "user=bob", 10, T0), 10);
    DESCRIBE(&a, "shop", "path=/x", "user=bob");
    for (int i = 0; i < 5; i++)
        assert_false(ask(r, &a, T0));
    assert_false(out.statuses[0].over);
    assert_int_equal(out.statuses[0].remaining, 100);
    assert_true(out.statuses[1].over);
    assert_int_equal(out.decided_by, 1);
    ration_close(r);
}

static void a_status_reports_the_tightest_limit_of_both_kinds(void **state)
{
    struct ration *r = open_both(by_user, shop);

    (void)state;
    assert_true(ask_for(r, "shop", "user=ann", T0));
    assert_string_equal(out.statuses[0].name, "envoys"); /* 2 of 3, and 9 of 10 */
    assert_int_equal(out.statuses[0].remaining, 2);
    assert_int_equal(admitted(r, "user=ann", 8, T0), 8);
    assert_true(ask_for(r, "shop", "user=ann", T0)); /* 1 of 3, and 0 of 10 */
    assert_string_equal(out.statuses[0].name, "by-user");
    assert_int_equal(out.statuses[0].remaining, 0);
    assert_false(ask_for(r, "shop", "user=ann", T0));
    assert_string_equal(out.statuses[0].name, "by-user");
    assert_int_equal(totals_of(r, "shop.user").refused, 0);
    ration_close(r);
}

static void a_shadow_limit_is_reported_only_if_there_is_no_other(void **state)
{
    struct ration *r = open_both("apply_to_envoy: true\n"
                                 "limits:\n"
                                 "  - {name: shy, key: user, limit: 1 per hour, mode: shadow}\n",
                                 shop);

    (void)state;
    assert_true(ask_for(r, "shop", "user=ann", T0));
    assert_true(ask_for(r, "shop", "user=ann", T0));
    assert_string_equal(out.statuses[0].name, "envoys");
    assert_int_equal(out.statuses[0].remaining, 1);
    assert_true(out.shadowed);
    ration_close(r);
}

static void the_descriptor_with_the_most_entries_names_the_tier(void **state)
{
    struct ration *r = open_rules("apply_to_envoy: true\n"
                                  "limits:\n"
                                  "  - name: by-plan\n"
                                  "    key: user\n"
                                  "    limit: {by: plan, free: 1 per hour, pro: 5 per hour,\n"
                                  "            staff: unlimited, default: free}\n");
    struct asked a;

    (void)state;
    DESCRIBE(&a, "shop", "user=ann", "user=ann plan=pro");
    for (int i = 0; i < 5; i++)
        assert_true(ask(r, &a, T0));
    assert_false(ask(r, &a, T0));
    DESCRIBE(&a, "shop", "user=eve", "user=eve plan=staff");
    for (int i = 0; i < 9; i++)
        assert_true(ask(r, &a, T0));
    assert_int_equal(out.statuses[0].remaining, UINT32_MAX);
    ration_close(r);
}

static void denied_descriptors_refuse_and_allowed_ones_have_no_limit(void **state)
{
    struct ration *r = open_both("apply_to_envoy: true\n"
                                 "deny: [{user: mallory}]\n"
                                 "allow: [{user: probe}]\n"
                                 "limits:\n"
                                 "  - {name: by-user, key: user, limit: 1 per hour}\n",
                                 shop);
    struct asked a;

    (void)state;
    for (int i = 0; i < 9; i++)
        assert_true(ask_for(r, "shop", "user=probe", T0));
    assert_false(out.statuses[0].limited);
    DESCRIBE(&a, "shop", "user=ann", "user=mallory");
    assert_false(ask(r, &a, T0));
    assert_int_equal(out.decided_by, 1);
    assert_true(out.statuses[1].over);
    assert_false(out.statuses[0].over);
    assert_int_equal(left_of(r, "by-user", "user=ann", T0), 1);
    ration_close(r);
}

static void bans_hold_save_for_descriptors_that_are_allowed(void **state)
{
    struct ration *r = open_rules("apply_to_envoy: true\n"
                                  "allow: [{user: probe}]\n"
                                  "limits: [{name: by-user, key: user, limit: 3 per hour}]\n");

    struct ration_attribute domain = {"domain", 6, "bad", 3};
    struct ration_ban ban = {.attributes = &domain, .count = 1, .reason = ""};

    (void)state;
    assert_int_equal(ration_ban_set(r, &ban, NULL), 0);
    assert_true(ask_for(r, "good", "user=ann", T0));
    assert_false(ask_for(r, "bad", "user=ann", T0));
    assert_int_equal(out.decided_by, 0);
    assert_true(ask_for(r, "bad", "user=probe", T0));
    assert_int_equal(left_of(r, "by-user", "user=ann", T0), 2);
    ration_close(r);
}

static void rules_that_need_the_end_of_a_request_do_not_apply(void **state)
{
    struct ration *r =
        open_rules("apply_to_envoy: true\n"
                   "limits:\n"
                   "  - {name: failures, key: user, limit: 1 per hour, charge_on: status 401}\n"
                   "  - {name: places, key: user, limit: [1 concurrent, 2 per hour]}\n"
                   "  - {name: by-user, key: user, limit: 5 per hour}\n");

    (void)state;
    for (int i = 0; i < 5; i++)
        assert_true(ask_for(r, "shop", "user=ann", T0));
    assert_false(ask_for(r, "shop", "user=ann", T0));
    assert_string_equal(out.statuses[0].rule, "by-user");
    assert_int_equal(totals_of(r, "places").allowed, 0);
    ration_close(r);
}

static void a_throttled_request_is_delayed_no_longer_than_its_caller_waits(void **state)
{
    struct ration *r = open_rules("apply_to_envoy: true\n"
                                  "limits:\n"
                                  "  - {name: slow, key: user, limit: 2 per hour,\n"
                                  "     throttle: {from: 10%, max_delay: 10s}}\n");
    struct asked a;

    (void)state;
    DESCRIBE(&a, "shop", "user=ann");
    a.request.max_wait_ns = MILLI;
    assert_true(ask(r, &a, T0));
    assert_int_equal(out.delay_ns, MILLI);
    ration_close(r);
}

static void more_limits_than_can_be_charged_are_an_error(void **state)
{
    char text[8192] = "apply_to_envoy: true\nlimits:\n";
    struct asked a;
    size_t len = strlen(text);

    (void)state;
    for (int i = 0; i < 40; i++)
        len += (size_t)snprintf(text + len, sizeof text - len,
                                "  - {name: r%d, key: user, limit: %d per hour}\n", i, i + 1);
    struct ration *r = open_rules(text);

    DESCRIBE(&a, "shop", "user=ann");
    assert_true(ask(r, &a, T0));
    DESCRIBE(&a, "shop", "user=bob", "user=cem");
    assert_int_equal(ration_decide_descriptors(r, &a.request, T0, &out), RATION_EINVAL);
    assert_int_equal(left_of(r, "r0", "user=bob", T0), 1);
    ration_close(r);
}

static void a_single_descriptor_is_under_both_kinds(void **state)
{
    struct ration *r = open_both("apply_to_envoy: true\n"
                                 "deny: [{user: mallory}]\n"
                                 "limits:\n"
                                 "  - {name: by-user, key: user, limit: 2 per hour}\n",
                                 shop);
    struct ration_descriptor_entry entry = {"user", 4, "ann", 3};
    struct ration_descriptor d = {"shop", 4, &entry, 1, 0};
    struct ration_outcome o;

    (void)state;
    for (int i = 0; i < 5; i++)
        assert_int_equal(ration_decide_descriptor(r, &d, T0, &o), 0); /* looks */
    assert_int_equal(o.limit_count, 2);
    d.hits = 2;
    assert_int_equal(ration_decide_descriptor(r, &d, T0, &o), 0);
    assert_true(o.decision.allowed);
    d.hits = 1;
    assert_int_equal(ration_decide_descriptor(r, &d, T0, &o), 0);
    assert_false(o.decision.allowed);
    assert_string_equal(o.rule, "by-user");
    entry = (struct ration_descriptor_entry){"user", 4, "mallory", 7};
    assert_int_equal(ration_decide_descriptor(r, &d, T0, &o), 0);
    assert_int_equal(o.kind, RATION_BY_DENY_LIST);
    ration_close(r);
}

static void refused_keys_are_noted_whole(void **state)
{
    struct ration *r = open_rules("apply_to_envoy: true\n"
                                  "limits:\n"
                                  "  - {name: pair, key: [user, ip], limit: 1 per hour}\n");
    struct ration_top top[2];
    struct asked a;

    (void)state;
    DESCRIBE(&a, "shop", "user=ann ip=192.0.2.7", "user=bob ip=192.0.2.8");
    assert_true(ask(r, &a, T0));
    assert_false(ask(r, &a, T0));
    assert_int_equal(ration_top(r, top, 2), 2);
    assert_true(strcmp(top[0].name, "ann 192.0.2.7") == 0 ||
                strcmp(top[1].name, "ann 192.0.2.7") == 0);
    ration_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(native_rules_apply_only_where_a_file_says_so),
        cmocka_unit_test(requests_of_all_protocols_share_a_counter),
        cmocka_unit_test(a_rule_is_charged_once_for_a_key_and_each_key_for_itself),
        cmocka_unit_test(the_domain_is_an_attribute),
        cmocka_unit_test(hits_are_the_cost_and_the_largest_counts),
        cmocka_unit_test(a_rule_with_a_cost_of_its_own_keeps_it),
        cmocka_unit_test(a_look_charges_nothing_and_late_debits_are_owed),
        cmocka_unit_test(a_charge_by_one_descriptor_beats_a_look_by_another),
        cmocka_unit_test(refunds_are_given_back_once),
        cmocka_unit_test(shadow_rules_refuse_no_request),
        cmocka_unit_test(both_kinds_are_charged_all_or_none),
        cmocka_unit_test(a_status_reports_the_tightest_limit_of_both_kinds),
        cmocka_unit_test(a_shadow_limit_is_reported_only_if_there_is_no_other),
        cmocka_unit_test(the_descriptor_with_the_most_entries_names_the_tier),
        cmocka_unit_test(denied_descriptors_refuse_and_allowed_ones_have_no_limit),
        cmocka_unit_test(bans_hold_save_for_descriptors_that_are_allowed),
        cmocka_unit_test(rules_that_need_the_end_of_a_request_do_not_apply),
        cmocka_unit_test(a_throttled_request_is_delayed_no_longer_than_its_caller_waits),
        cmocka_unit_test(more_limits_than_can_be_charged_are_an_error),
        cmocka_unit_test(a_single_descriptor_is_under_both_kinds),
        cmocka_unit_test(refused_keys_are_noted_whole),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
