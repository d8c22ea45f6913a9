/* SPDX-License-Identifier: Apache-2.0 */
/* Bans by rules: when they begin and end, and which refusals are no offences. */
#include "reputation_fixture.h"

/* --- beginning and ending --------------------------------------------------------------------- */

static void a_client_that_is_refused_again_and_again_is_banned(void **state)
{
    struct ration *r = open_rules(LOGIN);
    struct ration_outcome out = offend(r, "ip=192.0.2.1", 5, T0);

    (void)state;
    assert_int_equal(out.kind, RATION_BY_LIMITS); /* the third refusal begins the ban */
    assert_false(out.decision.allowed);
    out = decide(r, "ip=192.0.2.1", T0 + SECOND);
    assert_int_equal(out.kind, RATION_BY_ESCALATION);
    assert_false(out.decision.allowed || out.decision.verdict.allowed);
    assert_string_equal(out.rule, "login");
    assert_int_equal(out.status, 403);
    assert_int_equal(out.level, 1);
    assert_in_range(out.decision.verdict.retry_after_ns, 58 * SECOND, 59 * SECOND);
    assert_int_equal(out.limit_count, 0);
    assert_true(decide(r, "ip=192.0.2.2", T0 + SECOND).decision.allowed);
    /* Refusals by the ban are no offences, and when it is over, the limit decides again. */
    offend(r, "ip=192.0.2.1", 100, T0 + 59 * SECOND);
    assert_int_equal(admitted(r, "ip=192.0.2.1", 2, T0 + 61 * SECOND), 2);
    struct ration_totals totals;

    assert_int_equal(ration_rule_totals(r, "login", 5, &totals), 0);
    assert_int_equal(totals.bans, 1);
    assert_int_equal(totals.ban_refusals, 101);
    assert_int_equal(totals.refused, 3 + 101);
    ration_totals(r, &totals);
    assert_int_equal(totals.bans, 1);
    assert_int_equal(totals.ban_refusals, 101);
    ration_close(r);
}

static void a_ban_charges_nothing(void **state)
{
    struct ration *r = open_rules(LOGIN "  - name: all\n    limit: 1000 per hour\n");

    (void)state;
    offend(r, "ip=192.0.2.1", 5, T0);
    uint64_t before = left_of(r, "all", "ip=192.0.2.2", T0);

    offend(r, "ip=192.0.2.1", 50, T0);
    assert_int_equal(left_of(r, "all", "ip=192.0.2.2", T0), before);
    ration_close(r);
}

static void bans_grow_and_are_forgotten(void **state)
{
    static const int minutes[] = {1, 4, 16, 60, 60};
    struct ration *r = open_rules(LOGIN);
    int64_t now = T0;

    (void)state;
    for (unsigned i = 0; i < COUNT(minutes); i++) {
        offend(r, "ip=192.0.2.1", 5, now);
        struct ration_outcome out = decide(r, "ip=192.0.2.1", now);

        assert_int_equal(out.level, i + 1);
        assert_in_range(out.decision.verdict.retry_after_ns, minutes[i] * MINUTE - SECOND,
                        minutes[i] * MINUTE);
        now += 2 * HOUR;
    }
    now += 48 * HOUR;
    offend(r, "ip=192.0.2.1", 5, now);
    assert_int_equal(decide(r, "ip=192.0.2.1", now).level, 1);
    ration_close(r);
}

static void the_response_of_a_rule_is_that_of_its_bans(void **state)
{
    struct ration *r =
        open_rules(LOGIN "    response: {status: 429, headers: ietf, message: Go away}\n");

    (void)state;
    offend(r, "ip=192.0.2.1", 5, T0);
    struct ration_outcome out = decide(r, "ip=192.0.2.1", T0);

    assert_int_equal(out.kind, RATION_BY_ESCALATION);
    assert_int_equal(out.status, 429);
    assert_int_equal(out.headers, RATION_HEADERS_IETF);
    assert_string_equal(out.message, "Go away");
    ration_close(r);
}

static void each_rule_that_refused_counts_and_the_longest_ban_answers(void **state)
{
    struct ration *r = open_rules("limits:\n"
                                  "  - {name: few, key: ip, limit: 1 per minute,\n"
                                  "     escalate: {after: 2 refusals within 1m, ban: 1m}}\n"
                                  "  - {name: fewer, key: ip, limit: 1 per minute,\n"
                                  "     escalate: {after: 2 refusals within 1m, ban: 2m}}\n"
                                  "  - {name: many, key: ip, limit: 1000 per minute,\n"
                                  "     escalate: {after: 2 refusals within 1m, ban: 1h}}\n");
    struct ration_totals totals;

    (void)state;
    offend(r, "ip=192.0.2.1", 3, T0);
    struct ration_outcome out = decide(r, "ip=192.0.2.1", T0);

    assert_int_equal(out.kind, RATION_BY_ESCALATION);
    assert_string_equal(out.rule, "fewer");
    for (const char *const *name = (const char *const[]){"few", "fewer", "many", NULL}; *name;
         name++) {
        assert_int_equal(ration_rule_totals(r, *name, strlen(*name), &totals), 0);
        assert_int_equal(totals.bans, **name == 'f');
        assert_int_equal(totals.ban_refusals, strcmp(*name, "fewer") == 0);
    }
    ration_close(r);
}

/* --- what is no offence ---------------------------------------------------------------------- */

static void refusals_at_a_lowered_factor_are_no_offences(void **state)
{
    struct ration *r = open_factor_rules(LOGIN);

    (void)state;
    set_factor(r, "login", 50);
    offend(r, "ip=192.0.2.1", 50, T0);
    assert_false(is_banned(r, "ip=192.0.2.1", T0));
    set_factor(r, "login", 100);
    offend(r, "ip=192.0.2.1", 4, T0);
    assert_true(is_banned(r, "ip=192.0.2.1", T0));
    /* Also in the company of another rule, and above 100 percent. */
    set_factor(r, "login", 200);
    offend(r, "ip=192.0.2.3", 6, T0);
    assert_false(is_banned(r, "ip=192.0.2.3", T0));
    offend(r, "ip=192.0.2.3", 1, T0);
    assert_true(is_banned(r, "ip=192.0.2.3", T0));
    ration_close(r);
}

static void refusals_for_the_sake_of_other_priorities_are_no_offences(void **state)
{
    struct ration *r = open_rules(
        "limits:\n"
        "  - name: api\n"
        "    key: ip\n"
        "    limit: 10 per minute\n"
        "    priority: {by: class, levels: {live: 0%, batch: 50%}, default: live}\n" ESCALATE);

    (void)state;
    assert_int_equal(admitted(r, "ip=192.0.2.1 class=batch", 50, T0), 5);
    assert_false(is_banned(r, "ip=192.0.2.1 class=batch", T0));
    assert_int_equal(admitted(r, "ip=192.0.2.1 class=live", 5, T0), 5);
    offend(r, "ip=192.0.2.1 class=batch", 3, T0); /* now nobody would be admitted */
    assert_true(is_banned(r, "ip=192.0.2.1 class=live", T0));
    ration_close(r);
}

static void looks_are_no_offences(void **state)
{
    struct ration *r = open_rules(LOGIN);

    (void)state;
    offend(r, "ip=192.0.2.1", 2, T0);
    for (int i = 0; i < 50; i++)
        assert_false(look(r, "ip=192.0.2.1", T0).decision.allowed);
    assert_int_equal(decide(r, "ip=192.0.2.1", T0).kind, RATION_BY_LIMITS);
    ration_close(r);
}

static void shadow_mode_bans_nobody(void **state)
{
    struct ration *r = open_rules(LOGIN "    mode: shadow\n");
    struct words w;
    struct ration_outcome out;

    (void)state;
    assert_int_equal(admitted(r, "ip=192.0.2.1", 50, T0), 50);
    assert_false(is_banned(r, "ip=192.0.2.1", T0));
    rules_at(r, LOGIN, T0);
    ration_shadow_set(r, true);
    assert_int_equal(admitted(r, "ip=192.0.2.2", 50, T0), 50);
    ration_shadow_set(r, false);
    split_words(&w, "ip=192.0.2.3");
    w.request.shadow = true;
    for (int i = 0; i < 50; i++)
        assert_int_equal(ration_decide(r, &w.request, T0, &out), 0);
    assert_false(is_banned(r, "ip=192.0.2.2", T0) || is_banned(r, "ip=192.0.2.3", T0));
    /* A ban that was earned before is told, not enforced. */
    offend(r, "ip=192.0.2.4", 5, T0);
    assert_true(is_banned(r, "ip=192.0.2.4", T0));
    ration_shadow_set(r, true);
    out = decide(r, "ip=192.0.2.4", T0);
    assert_true(out.decision.allowed && out.shadow_refused);
    ration_close(r);
}

static void no_answer(struct rn_store *store, struct rn_charge *batch, size_t n)
{
    (void)store;
    for (size_t i = 0; i < n; i++)
        batch[i].error = RATION_ESTORE;
}

static void refusals_without_the_store_are_no_offences(void **state)
{
    static const struct rn_store_ops ops = {.apply = no_answer};
    static const char *const modes[] = {"local", "refuse"};
    static const struct rn_hash_key secret = {1, 2};
    struct rn_store silent = {.ops = &ops};

    (void)state;
    for (unsigned i = 0; i < COUNT(modes); i++) {
        struct ration *r = open_limits(NULL, 0);
        char text[1000];

        assert_int_equal(rn_limiter_share(r, &secret, no_fault), 0);
        snprintf(text, sizeof text, LOGIN "    on_store_failure: %s\n", modes[i]);
        rules_at(r, text, T0);
        rn_fallback_use(&silent);
        assert_int_equal(admitted(r, "ip=192.0.2.1", 50, T0), i == 0 ? 2 : 0);
        assert_false(is_banned(r, "ip=192.0.2.1", T0));
        /* The same limits, shared by nodes, and a store that answers. */
        rn_fallback_use(rn_table_store(r->table));
        offend(r, "ip=192.0.2.1", 5, T0);
        assert_true(is_banned(r, "ip=192.0.2.1", T0));
        rn_fallback_use(NULL);
        assert_true(is_banned(r, "ip=192.0.2.1", T0)); /* a ban needs no store */
        ration_close(r);
    }
}

static void a_full_table_is_no_offence(void **state)
{
    struct ration *r = open_rules("limits:\n"
                                  "  - {name: tiny, key: ip, limit: 2 per hour, on_full: refuse,\n"
                                  "     escalate: {after: 2 refusals within 1m, ban: 1m}}\n");
    struct ration_outcome out;
    unsigned failed = 0;
    char ip[40];

    (void)state;
    for (unsigned i = 0; i < 400000; i++) {
        struct words w;

        snprintf(ip, sizeof ip, "ip=10.%u.%u.%u", i >> 16, i >> 8 & 255, i & 255);
        split_words(&w, ip);
        failed += ration_decide(r, &w.request, T0, &out) == RATION_EFULL;
    }
    struct ration_totals totals;

    ration_totals(r, &totals);
    assert_true(failed > 1000);
    assert_int_equal(totals.bans, 0);
    ration_close(r);
}

static void an_unlimited_client_is_not_banned(void **state)
{
    struct ration *r = open_rules(
        "limits:\n"
        "  - name: api\n"
        "    key: user\n"
        "    limit: {by: tier, free: 2 per minute, gold: unlimited, default: free}\n" ESCALATE);

    (void)state;
    offend(r, "user=ann tier=free", 5, T0);
    assert_true(is_banned(r, "user=ann tier=free", T0));
    assert_true(decide(r, "user=ann tier=gold", T0).decision.allowed);
    ration_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_client_that_is_refused_again_and_again_is_banned),
        cmocka_unit_test(a_ban_charges_nothing),
        cmocka_unit_test(bans_grow_and_are_forgotten),
        cmocka_unit_test(the_response_of_a_rule_is_that_of_its_bans),
        cmocka_unit_test(each_rule_that_refused_counts_and_the_longest_ban_answers),
        cmocka_unit_test(refusals_at_a_lowered_factor_are_no_offences),
        cmocka_unit_test(refusals_for_the_sake_of_other_priorities_are_no_offences),
        cmocka_unit_test(looks_are_no_offences),
        cmocka_unit_test(shadow_mode_bans_nobody),
        cmocka_unit_test(refusals_without_the_store_are_no_offences),
        cmocka_unit_test(a_full_table_is_no_offence),
        cmocka_unit_test(an_unlimited_client_is_not_banned),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
