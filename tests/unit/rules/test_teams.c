/* SPDX-License-Identifier: Apache-2.0 */
/* Rules directories with teams: names, what a team may say, and which version is kept. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit/rules/fixtures.h"

#define LIMIT(name) "limits: [{name: " name ", key: ip, limit: 5 per minute}]\n"

static char folder[64];
static struct rn_report report;
static struct rn_ruleset *ruleset;
static struct rn_teams *last; /* of the ruleset that was loaded before */

static const char *in_folder(const char *name)
{
    static char path[256];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void put(const char *name, const char *text)
{
    FILE *file = fopen(in_folder(name), "w");

    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void make_team(const char *name)
{
    assert_int_equal(mkdir(in_folder(name), 0700), 0);
}

static int set_up(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/ration-teams-XXXXXX");
    assert_non_null(mkdtemp(folder));
    rn_report_init(&report);
    return 0;
}

static int tear_down(void **state)
{
    char command[100];

    (void)state;
    rn_ruleset_free(ruleset);
    ruleset = NULL;
    rn_teams_free(last);
    last = NULL;
    rn_report_done(&report);
    snprintf(command, sizeof command, "rm -r %s", folder);
    return system(command);
}

/* As a limiter does: the teams of what was good are the last ones. */
static bool load(void)
{
    const char *const paths[] = {folder};

    if (ruleset != NULL) {
        rn_teams_free(last);
        last = ruleset->teams;
        ruleset->teams = NULL;
    }
    rn_ruleset_free(ruleset);
    rn_report_done(&report);
    ruleset = rn_ruleset_reload(paths, 1, last, NULL, &report);
    return ruleset != NULL;
}

static void expect_rules(const char *names)
{
    char found[512] = "";

    assert_non_null(ruleset);
    for (uint32_t i = 0; i < ruleset->rule_count; i++)
        snprintf(found + strlen(found), sizeof found - strlen(found), "%s%.*s", i == 0 ? "" : " ",
                 (int)ruleset->rules[i].name.len, ruleset->rules[i].name.data);
    assert_string_equal(found, names);
}

static void expect_said(const char *part)
{
    struct text said = text_of_report(&report);

    if (strstr(said.data, part) == NULL)
        fail_msg("\"%s\" is not in:\n%s", part, said.data);
    free(said.data);
}

static const struct rn_team *team(const char *name)
{
    const struct rn_team *found = rn_teams_find(ruleset->teams, rn_slice_of(name));

    assert_non_null(found);
    return found;
}

/* The root with one limit, and the teams api and web with one each. */
static void put_two_teams(void)
{
    put("root.yaml", LIMIT("all"));
    make_team("web");
    make_team("api");
    put("web/a.yaml", LIMIT("login"));
    put("api/a.yaml", LIMIT("login"));
}

static void a_sub_directory_is_a_team_and_its_names_have_its_prefix(void **state)
{
    (void)state;
    put_two_teams();
    put("api/b.json", "{\"limits\": [{\"name\": \"api.search\", \"limit\": \"5 per day\"}]}");
    assert_true(load());
    expect_rules("all api.login api.search web.login");
    assert_int_equal(report.kept_count, 0);
    assert_false(team("api")->kept);
}

static void a_root_without_files_is_enough_if_a_team_has_some(void **state)
{
    (void)state;
    make_team("web");
    assert_false(load());
    expect_said("holds no rules");
    put("web/a.yaml", LIMIT("login"));
    assert_true(load());
    expect_rules("web.login");
}

static void names_with_a_leading_dot_are_skipped(void **state)
{
    (void)state;
    put_two_teams();
    make_team("..2026");
    put("..2026/a.yaml", "not: rules");
    put("web/.a.yaml.swp.yaml", "not: rules");
    assert_int_equal(symlink("..2026", in_folder("..data")), 0);
    assert_true(load());
    expect_rules("all api.login web.login");
}

static void a_link_that_leads_nowhere_is_an_error(void **state)
{
    (void)state;
    put_two_teams();
    assert_int_equal(symlink("gone", in_folder("ops")), 0);
    assert_false(load());
    expect_said("a link that leads nowhere; mend or remove it");
    assert_int_equal(unlink(in_folder("ops")), 0);
    assert_true(load());
}

/* A team may not be able to read the file, and messages would quote it. */
static void a_link_out_of_the_directory_is_not_followed(void **state)
{
    static const char text[] = "hunter2: s3cret\n";
    char outside[] = "/tmp/ration-secret-XXXXXX";
    int fd = mkstemp(outside);

    (void)state;
    put_two_teams();
    assert_int_equal(write(fd, text, sizeof text - 1), sizeof text - 1);
    close(fd);
    assert_int_equal(symlink(outside, in_folder("web/b.yaml")), 0);
    assert_false(load());
    expect_said("web/b.yaml: error: cannot be read: it is a link that leads out of the directory; "
                "put the file itself there");
    struct text said = text_of_report(&report);
    assert_null(strstr(said.data, "hunter2"));
    free(said.data);
    assert_int_equal(unlink(in_folder("web/b.yaml")), 0);
    assert_int_equal(symlink(outside, in_folder("root2.yaml")), 0);
    assert_false(load());
    expect_said("root2.yaml: error: cannot be read: it is a link that leads out");
    assert_int_equal(unlink(in_folder("root2.yaml")), 0);
    assert_int_equal(symlink("/", in_folder("ops")), 0);
    assert_false(load());
    expect_said("ops: error: a link that leads out of the directory; put the files themselves "
                "there");
    assert_int_equal(unlink(in_folder("ops")), 0);
    assert_int_equal(unlink(outside), 0);
    assert_true(load());
}

static void a_link_inside_the_directory_is_followed(void **state)
{
    (void)state;
    put_two_teams();
    make_team("..2026");
    put("..2026/more.yaml", LIMIT("more"));
    assert_int_equal(symlink("..2026", in_folder("..data")), 0);
    assert_int_equal(symlink("../..data/more.yaml", in_folder("web/more.yaml")), 0);
    assert_true(load());
    expect_rules("all api.login web.login web.more");
}

static void a_team_uses_its_own_tiers_and_attributes_and_the_roots(void **state)
{
    (void)state;
    put("root.yaml", "tiers: {plans: {free: 1 per day}}\n"
                     "attributes: {tenant: {header: x-tenant}}\n"
                     "limits: [{name: a, key: tenant, limit: {by: tier, use: plans}}]\n");
    make_team("api");
    make_team("web");
    put("api/a.yaml", "tiers: {plans: {free: 2 per day}}\n"
                      "attributes: {tenant: {path: '/t/{tenant}/**'}}\n"
                      "limits:\n"
                      "  - {name: own, key: tenant, limit: {by: tier, use: plans}}\n"
                      "  - {name: full, key: api.tenant, limit: {by: tier, use: api.plans}}\n");
    put("web/a.yaml", "limits: [{name: a, key: tenant, limit: {by: tier, use: plans}}]\n");
    assert_true(load());
    assert_int_equal(report.kept_count, 0);
    expect_rules("a api.own api.full web.a");
    uint16_t roots = rn_ruleset_attribute(ruleset, RN_SLICE("tenant"));
    uint16_t own = rn_ruleset_attribute(ruleset, RN_SLICE("api.tenant"));
    static const uint64_t amounts[] = {1, 2, 2, 1};

    for (uint32_t i = 0; i < 4; i++) {
        assert_int_equal(ruleset->rules[i].key[0].attributes[0], i == 1 || i == 2 ? own : roots);
        assert_int_equal(ruleset->rules[i].tiers[0].limits[0]->spec.amount, amounts[i]);
    }
    assert_int_equal(ruleset->attributes[own].source, RN_SOURCE_PATH);
    assert_int_equal(ruleset->attributes[own].segment, 1);
    assert_true(rn_slice_is(ruleset->attributes[own].pattern, "/t/{api.tenant}/**"));
}

/* The text of a file of team api beside team web, and what is said about it. */
static void expect_refused(const char *text, const char *said)
{
    put("api/a.yaml", text);
    assert_false(load());
    expect_said(said);
}

static void sections_of_the_root_are_refused_in_a_team(void **state)
{
    (void)state;
    put_two_teams();
    put("web/a.yaml", "tiers: {plans: {free: 1 per day}}\n" LIMIT("login"));
    expect_refused("mode: shadow\n", "api/a.yaml:1:1: error: only files at the root may say "
                                     "\"mode\"; a team's hold limits, tiers and attributes");
    expect_refused("server: {http: none}\n", "only files at the root may say \"server\"");
    expect_refused("domain: shop\n", "only files at the root may say \"domain\"");
    expect_refused("lmits: []\n", "unknown key \"lmits\"; did you mean \"limits\"?");
    expect_refused("attributes: {ip: {header: x-real-ip}}\n",
                   "only files at the root may say where \"ip\" comes from");
    expect_refused("attributes: {api.host: {header: x-host}}\n",
                   "only files at the root may say where \"host\" comes from");
    expect_refused("attributes: {a: {trusted_proxies: [10.0.0.0/8]}}\n",
                   "only files at the root may say which proxies are trusted");
    expect_refused("limits: [{name: a, key: web.tenant, limit: 1 per day}]\n",
                   "\"web.tenant\" belongs to team web");
    expect_refused("limits: [{name: a, limit: {by: tier, use: web.plans}}]\n",
                   "no tiers are named \"web.plans\"");
    expect_refused("limits: [{name: l123456789012345678901234567890123456789012345678901234567890, "
                   "limit: 1 per day}]\n",
                   "longer than 63 characters");
    expect_refused("limits: [{name: a, limit: 1 per day}, {name: api.a, limit: 1 per day}]\n",
                   "there is a limit named \"api.a\" already");
}

static void the_root_owns_the_names_it_uses(void **state)
{
    (void)state;
    put_two_teams();
    put("root.yaml", "limits: [{name: api.login, key: api.tenant, limit: 5 per day}]\n");
    assert_false(load());
    expect_said("api/a.yaml:1:17: error: there is a limit named \"api.login\" already");
    put("api/a.yaml", "attributes: {tenant: {header: x-tenant}}\n");
    assert_false(load());
    expect_said("api/a.yaml:1:14: error: files at the root use \"api.tenant\"");
}

static void odd_directories_are_refused(void **state)
{
    (void)state;
    put_two_teams();
    make_team("Team.One");
    assert_false(load());
    expect_said("Team.One: error: \"Team.One\" is not a valid team name");
    rmdir(in_folder("Team.One"));
    make_team("web/inner");
    assert_false(load());
    expect_said("web/inner: error: a directory inside a team's");
}

static void errors_of_all_teams_are_reported_at_the_start(void **state)
{
    (void)state;
    put_two_teams();
    put("api/a.yaml", "limits: [{name: a}]");
    put("web/a.yaml", "limits: [{name: a, lmit: 4}]");
    assert_false(load());
    expect_said("api/a.yaml:1:10: error: a limit that does not say how much");
    expect_said("web/a.yaml:1:20: error: unknown key \"lmit\"");
}

static void a_team_with_an_error_keeps_its_rules_and_the_others_change(void **state)
{
    (void)state;
    put_two_teams();
    assert_true(load());
    put("root.yaml", LIMIT("everything"));
    put("web/a.yaml", LIMIT("signup"));
    put("api/a.yaml", "limits: [{name: a}]");
    put("api/b.yaml", LIMIT("new"));
    for (int round = 0; round < 3; round++) { /* it stays kept, as often as files are read */
        assert_true(load());
        expect_rules("everything api.login web.signup");
        assert_true(team("api")->kept);
        assert_int_equal(team("api")->errors, 1);
        assert_false(team("web")->kept);
        assert_int_equal(report.count[RN_ERROR], 1);
        expect_said("api/a.yaml:1:10: error: a limit that does not say how much");
        assert_non_null(strstr(ruleset->rules[1].file.data, "a.yaml (former version)"));
    }
    put("api/a.yaml", LIMIT("login"));
    assert_true(load());
    expect_rules("everything api.login api.new web.signup");
    assert_false(team("api")->kept);
    assert_int_equal(report.kept_count, 0);
}

static void a_new_team_with_an_error_has_no_rules_yet(void **state)
{
    (void)state;
    put_two_teams();
    assert_true(load());
    make_team("late");
    put("late/a.yaml", "limits: [{name: a}]");
    assert_true(load());
    expect_rules("all api.login web.login");
    assert_true(team("late")->kept);
    put("late/a.yaml", LIMIT("a"));
    assert_true(load());
    expect_rules("all api.login late.a web.login");
}

static void a_deleted_file_removes_its_rules(void **state)
{
    (void)state;
    put_two_teams();
    put("api/b.yaml", LIMIT("b"));
    assert_true(load());
    unlink(in_folder("api/b.yaml"));
    assert_true(load());
    expect_rules("all api.login web.login");
    unlink(in_folder("api/a.yaml"));
    assert_true(load());
    expect_rules("all web.login");
    rmdir(in_folder("api"));
    assert_true(load());
    expect_rules("all web.login");
    assert_null(rn_teams_find(ruleset->teams, RN_SLICE("api")));
}

static void kept_rules_must_fit_the_new_root(void **state)
{
    (void)state;
    put_two_teams();
    put("root.yaml", "tiers: {plans: {free: 1 per day}}\n");
    put("api/a.yaml", "limits: [{name: a, limit: {by: tier, use: plans}}]\n");
    assert_true(load());
    put("root.yaml", LIMIT("all"));
    put("api/a.yaml", "limits: [{name: a}]");
    assert_false(load());
    expect_said("api/a.yaml:1:10: error: a limit that does not say how much");
    expect_said("api/a.yaml (former version):1:43: error: no tiers are named \"plans\"");
    put("root.yaml", "tiers: {plans: {free: 3 per day}}\n"); /* now it does */
    assert_true(load());
    expect_rules("api.a web.login");
    assert_int_equal(ruleset->rules[0].tiers[0].limits[0]->spec.amount, 3);
}

static void an_error_of_the_root_refuses_everything(void **state)
{
    (void)state;
    put_two_teams();
    assert_true(load());
    put("root.yaml", "limits: [{name: a}]");
    put("web/a.yaml", LIMIT("signup"));
    assert_false(load());
    assert_int_equal(report.count[RN_ERROR], 1);
}

static const char *no_fives(const struct rn_limit *limit)
{
    return limit->cap == 5 ? "five" : NULL;
}

static void a_limit_that_the_store_cannot_hold_is_its_teams_error(void **state)
{
    const char *const paths[] = {folder};

    (void)state;
    put("root.yaml", "limits: [{name: all, key: ip, limit: 4 per minute, algorithm: sliding-log}]");
    make_team("web");
    put("web/a.yaml", "limits: [{name: a, key: ip, limit: 3 per minute, algorithm: sliding-log}]");
    assert_true(load());
    last = ruleset->teams;
    ruleset->teams = NULL;
    rn_ruleset_free(ruleset);
    put("web/a.yaml", "limits: [{name: a, key: ip, limit: 5 per minute, algorithm: sliding-log}]");
    ruleset = rn_ruleset_reload(paths, 1, last, &(struct rn_ruleset_host){.store_fault = no_fives},
                                &report);
    expect_rules("all web.a");
    assert_int_equal(ruleset->rules[1].tiers[0].limits[0]->spec.amount, 3);
    expect_said("web/a.yaml:1:10: error: \"web.a\" has five");
}

#define IN_A_FOLDER(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        IN_A_FOLDER(a_sub_directory_is_a_team_and_its_names_have_its_prefix),
        IN_A_FOLDER(a_root_without_files_is_enough_if_a_team_has_some),
        IN_A_FOLDER(names_with_a_leading_dot_are_skipped),
        IN_A_FOLDER(a_link_that_leads_nowhere_is_an_error),
        IN_A_FOLDER(a_link_out_of_the_directory_is_not_followed),
        IN_A_FOLDER(a_link_inside_the_directory_is_followed),
        IN_A_FOLDER(a_team_uses_its_own_tiers_and_attributes_and_the_roots),
        IN_A_FOLDER(sections_of_the_root_are_refused_in_a_team),
        IN_A_FOLDER(the_root_owns_the_names_it_uses),
        IN_A_FOLDER(odd_directories_are_refused),
        IN_A_FOLDER(errors_of_all_teams_are_reported_at_the_start),
        IN_A_FOLDER(a_team_with_an_error_keeps_its_rules_and_the_others_change),
        IN_A_FOLDER(a_new_team_with_an_error_has_no_rules_yet),
        IN_A_FOLDER(a_deleted_file_removes_its_rules),
        IN_A_FOLDER(kept_rules_must_fit_the_new_root),
        IN_A_FOLDER(an_error_of_the_root_refuses_everything),
        IN_A_FOLDER(a_limit_that_the_store_cannot_hold_is_its_teams_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
