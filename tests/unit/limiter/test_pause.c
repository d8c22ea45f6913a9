/* SPDX-License-Identifier: Apache-2.0 */
/* Pauses: who is refused, for how long, and what is not concerned. */
#include "descriptors_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <ration/pause.h>
#include <ration/reputation.h>

#include "limiter/board.h"

#define DAY (24 * 60 * MINUTE)

static const char two_rules[] = "limits:\n"
                                "  - {name: stripe, key: ip, limit: 5 per minute}\n"
                                "  - {name: all, limit: 1000 per minute}\n";

static int pause_client(struct ration *r, const char *words, const char *rule, int64_t for_ns,
                        int64_t now_ns)
{
    struct words w;

    split_words(&w, words);
    return ration_pause(r,
                        &(struct ration_pause_of){.request = &w.request,
                                                  .rule = rule,
                                                  .rule_len = rule ? strlen(rule) : 0},
                        for_ns, now_ns, NULL);
}

static int64_t lift_client(struct ration *r, const char *words, int64_t now_ns)
{
    struct words w;
    int64_t rest_ns = -1;

    split_words(&w, words);
    assert_int_equal(
        ration_pause_lift(r, &(struct ration_pause_of){.request = &w.request}, now_ns, &rest_ns),
        0);
    return rest_ns;
}

static struct ration_pause_of key_of(const char *key)
{
    return (struct ration_pause_of){.key = key, .key_len = strlen(key)};
}

static int64_t pause_key(struct ration *r, const char *key, int64_t for_ns, int64_t now_ns)
{
    struct ration_pause_of of = key_of(key);
    int64_t rest_ns = -1;

    assert_int_equal(ration_pause(r, &of, for_ns, now_ns, &rest_ns), 0);
    return rest_ns;
}

static int64_t rest_of(struct ration *r, const char *key, int64_t now_ns)
{
    struct ration_pause_of of = key_of(key);
    int64_t rest_ns = -1;

    assert_int_equal(ration_pause_rest(r, &of, now_ns, &rest_ns), 0);
    return rest_ns;
}

static struct ration_charge take_ad_hoc(struct ration *r, const char *text, const char *key,
                                        int64_t now_ns)
{
    static struct ration_named limit; /* the charge refers to it */

    limit = named("ad hoc", text);
    struct ration_charge c = {
        .ad_hoc = &limit.limit, .key = key, .key_len = strlen(key), .cost = 1};

    assert_int_equal(ration_take(r, &c, now_ns), 0);
    return c;
}

/* --- clients of rules ---------------------------------------------------------------------------
 */

static void a_paused_client_is_refused_until_the_pause_ends(void **state)
{
    struct ration *r = open_rules(two_rules);
    struct ration_outcome o;

    (void)state;
    assert_int_equal(pause_client(r, "ip=192.0.2.1", "stripe", 30 * SECOND, T0), 0);
    o = decide(r, "ip=192.0.2.1", T0 + 10 * SECOND);
    assert_int_equal(o.kind, RATION_BY_PAUSE);
    assert_false(o.decision.allowed || o.decision.verdict.allowed);
    assert_string_equal(o.rule, "stripe");
    assert_int_equal(o.status, 429);
    assert_int_equal(o.decision.verdict.retry_after_ns, 20 * SECOND);
    assert_int_equal(o.limit_count, 0);
    assert_int_equal(look(r, "ip=192.0.2.1", T0 + 10 * SECOND).kind, RATION_BY_PAUSE);
    assert_true(decide(r, "ip=192.0.2.2", T0 + 10 * SECOND).decision.allowed);
    assert_false(decide(r, "ip=192.0.2.1", T0 + 30 * SECOND - 1).decision.allowed);
    assert_int_equal(admitted(r, "ip=192.0.2.1", 10, T0 + 30 * SECOND), 5);
    ration_close(r);
}

static void a_pause_charges_nothing_and_is_counted(void **state)
{
    struct ration *r = open_rules(two_rules);
    struct ration_pause_totals totals;
    struct ration_totals all, rule;

    (void)state;
    assert_int_equal(pause_client(r, "ip=192.0.2.1", "stripe", 30 * SECOND, T0), 0);
    assert_int_equal(admitted(r, "ip=192.0.2.1", 20, T0), 0);
    look(r, "ip=192.0.2.1", T0);
    assert_int_equal(left_of(r, "all", "ip=192.0.2.2", T0), 1000);
    ration_pause_totals(r, T0 + SECOND, &totals);
    assert_int_equal(totals.begun, 1);
    assert_int_equal(totals.lifted, 0);
    assert_int_equal(totals.refused, 20);
    assert_int_equal(totals.last_ends_ns, 29 * SECOND);
    ration_totals(r, &all);
    assert_int_equal(all.refused, 20);
    assert_int_equal(ration_rule_totals(r, "stripe", 6, &rule), 0);
    assert_int_equal(rule.refused, 20);
    assert_int_equal(rule.hits_refused, 20);
    assert_int_equal(lift_client(r, "ip=192.0.2.1", T0 + SECOND), 29 * SECOND);
    assert_int_equal(lift_client(r, "ip=192.0.2.1", T0 + SECOND), 0);
    ration_pause_totals(r, T0 + 30 * SECOND, &totals);
    assert_int_equal(totals.lifted, 1);
    assert_int_equal(totals.last_ends_ns, 0);
    assert_int_equal(admitted(r, "ip=192.0.2.1", 20, T0 + SECOND), 5);
    ration_close(r);
}

static void the_longer_end_counts_and_zero_changes_nothing(void **state)
{
    struct ration *r = open_limits(NULL, 0);

    (void)state;
    assert_int_equal(pause_key(r, "a", 0, T0), 0);
    assert_int_equal(rest_of(r, "a", T0), 0);
    assert_int_equal(pause_key(r, "a", 30 * SECOND, T0), 30 * SECOND);
    assert_int_equal(pause_key(r, "a", SECOND, T0 + SECOND), 29 * SECOND);
    assert_int_equal(pause_key(r, "a", 0, T0 + SECOND), 29 * SECOND);
    assert_int_equal(pause_key(r, "a", DAY, T0 + 2 * SECOND), DAY);
    assert_int_equal(rest_of(r, "a", T0 + DAY), 2 * SECOND);
    assert_int_equal(rest_of(r, "a", T0 + DAY + 2 * SECOND), 0);
    ration_close(r);
}

static void a_length_below_zero_or_above_a_day_is_refused(void **state)
{
    struct ration *r = open_limits(NULL, 0);
    struct ration_pause_of of = key_of("a"), none = {0};

    (void)state;
    assert_int_equal(ration_pause(r, &of, -1, T0, NULL), RATION_EINVAL);
    assert_int_equal(ration_pause(r, &of, RATION_PAUSE_MAX_NS + 1, T0, NULL), RATION_EINVAL);
    assert_int_equal(ration_pause(r, &none, SECOND, T0, NULL), RATION_EINVAL);
    assert_int_equal(ration_pause(r, &of, RATION_PAUSE_MAX_NS, T0, NULL), 0);
    assert_int_equal(rest_of(r, "a", T0), RATION_PAUSE_MAX_NS);
    ration_close(r);
}

static void a_pause_of_an_unknown_rule_or_client_is_an_error(void **state)
{
    struct ration *r =
        open_rules("limits:\n"
                   "  - {name: stripe, key: ip, when: {path: /pay}, limit: 5/min}\n"
                   "  - {name: free, key: ip, when: {path: /free}, limit: unlimited}\n");

    (void)state;
    assert_int_equal(pause_client(r, "ip=192.0.2.1 path=/pay", "strype", SECOND, T0),
                     RATION_ENORULE);
    assert_int_equal(pause_client(r, "ip=192.0.2.1 path=/x", "stripe", SECOND, T0),
                     RATION_EUNMATCHED);
    assert_int_equal(pause_client(r, "ip=192.0.2.1 path=/x", NULL, SECOND, T0), RATION_EUNMATCHED);
    assert_int_equal(pause_client(r, "ip=192.0.2.1 path=/free", NULL, SECOND, T0),
                     RATION_EUNMATCHED);
    ration_close(r);
}

static void without_a_rule_all_that_apply_are_paused(void **state)
{
    struct ration *r = open_rules(two_rules);

    (void)state;
    assert_int_equal(pause_client(r, "ip=192.0.2.1", NULL, 30 * SECOND, T0), 0);
    assert_int_equal(decide(r, "ip=192.0.2.2", T0).kind, RATION_BY_PAUSE); /* of `all` */
    assert_string_equal(decide(r, "ip=192.0.2.2", T0).rule, "all");
    ration_close(r);
}

static void shadow_mode_refuses_nothing(void **state)
{
    struct ration *r = open_rules("limits:\n"
                                  "  - {name: s, key: ip, limit: 5 per minute, mode: shadow}\n");
    struct ration_outcome o;

    (void)state;
    assert_int_equal(pause_client(r, "ip=192.0.2.1", "s", 30 * SECOND, T0), 0);
    assert_true(decide(r, "ip=192.0.2.1", T0).decision.allowed);
    rules_at(r, two_rules, T0);
    assert_int_equal(pause_client(r, "ip=192.0.2.1", "stripe", 30 * SECOND, T0), 0);
    ration_shadow_set(r, true);
    o = decide(r, "ip=192.0.2.1", T0);
    assert_true(o.decision.allowed && o.shadow_refused);
    ration_close(r);
}

static void a_pause_is_no_offence(void **state)
{
    struct ration *r = open_rules(
        "limits:\n"
        "  - name: login\n"
        "    key: ip\n"
        "    limit: 2 per minute\n"
        "    escalate: {after: 3 refusals within 10s, ban: 1m, grow: 4x, up_to: 1h, forget: 1d}\n");
    struct ration_outcome o;

    (void)state;
    assert_int_equal(pause_client(r, "ip=192.0.2.1", "login", 5 * SECOND, T0), 0);
    assert_int_equal(admitted(r, "ip=192.0.2.1", 20, T0), 0);
    assert_int_equal(admitted(r, "ip=192.0.2.1", 2, T0 + 5 * SECOND), 2);
    for (unsigned i = 0; i < 3; i++)
        decide(r, "ip=192.0.2.1", T0 + 5 * SECOND);
    assert_int_equal(pause_client(r, "ip=192.0.2.1", "login", 5 * SECOND, T0 + 6 * SECOND), 0);
    o = decide(r, "ip=192.0.2.1", T0 + 6 * SECOND); /* a ban comes first */
    assert_int_equal(o.kind, RATION_BY_ESCALATION);
    ration_close(r);
}

static void a_pause_survives_a_reload_and_holds_in_every_tier(void **state)
{
    static const char tiers[] = "limits:\n"
                                "  - name: stripe\n"
                                "    key: ip\n"
                                "    limit:\n"
                                "      by: tier\n"
                                "      free: 5 per minute\n"
                                "      pro: 50 per minute\n"
                                "      vip: unlimited\n"
                                "      default: 5 per minute\n";
    struct ration *r = open_rules(two_rules);

    (void)state;
    assert_int_equal(pause_client(r, "ip=192.0.2.1", "stripe", 30 * SECOND, T0), 0);
    rules_at(r, tiers, T0 + SECOND);
    assert_int_equal(decide(r, "ip=192.0.2.1 tier=pro", T0 + SECOND).kind, RATION_BY_PAUSE);
    assert_int_equal(decide(r, "ip=192.0.2.1 tier=vip", T0 + SECOND).kind, RATION_BY_PAUSE);
    assert_int_equal(decide(r, "ip=192.0.2.1", T0 + SECOND).kind, RATION_BY_PAUSE);
    assert_true(decide(r, "ip=192.0.2.2 tier=vip", T0 + SECOND).decision.allowed);
    ration_close(r);
}

static void reservations_and_places_of_a_paused_client_are_refused(void **state)
{
    struct ration *r = open_rules("limits:\n"
                                  "  - {name: jobs, key: ip, limit: 5 concurrent}\n");
    char ticket[RATION_TICKET_SIZE];
    struct ration_outcome o;
    struct words w;

    (void)state;
    split_words(&w, "ip=192.0.2.1");
    assert_int_equal(ration_acquire_request(r, &w.request, 0, T0, &o, ticket), 0);
    assert_true(o.decision.allowed);
    assert_int_equal(pause_client(r, "ip=192.0.2.1", "jobs", 30 * SECOND, T0), 0);
    assert_int_equal(ration_ticket_renew(r, ticket, strlen(ticket), 0, T0, NULL), 0);
    assert_int_equal(ration_ticket_release(r, ticket, strlen(ticket), T0), 0);
    assert_int_equal(ration_acquire_request(r, &w.request, 0, T0, &o, ticket), 0);
    assert_int_equal(o.kind, RATION_BY_PAUSE);
    assert_string_equal(ticket, "");
    assert_int_equal(ration_decide_reserve(r, &w.request, SECOND, T0, &o, ticket), 0);
    assert_int_equal(o.kind, RATION_BY_PAUSE);
    assert_string_equal(ticket, "");
    ration_close(r);
}

/* --- charges ------------------------------------------------------------------------------------
 */

static void an_ad_hoc_key_is_paused_whatever_its_limit(void **state)
{
    struct ration *r = open_limits(NULL, 0);
    struct ration_charge c;

    (void)state;
    pause_key(r, "stripe", 30 * SECOND, T0);
    c = take_ad_hoc(r, "5 per minute", "stripe", T0 + SECOND);
    assert_true(c.paused);
    assert_false(c.verdict.allowed);
    assert_int_equal(c.verdict.retry_after_ns, 29 * SECOND);
    assert_int_equal(c.verdict.remaining, 0);
    assert_int_equal(c.taken, 0);
    assert_true(take_ad_hoc(r, "100 per hour", "stripe", T0 + SECOND).paused);
    c = take_ad_hoc(r, "100 per hour", "adyen", T0 + SECOND);
    assert_true(c.verdict.allowed && !c.paused);
    c = take_ad_hoc(r, "100 per hour", "stripe", T0 + 30 * SECOND);
    assert_true(c.verdict.allowed && !c.paused);
    assert_int_equal(c.verdict.remaining, 99);
    ration_close(r);
}

static void a_key_of_a_limit_given_at_open_is_paused_under_it_alone(void **state)
{
    struct ration_named limits[] = {named("a", "5 per minute"), named("b", "5 per minute")};
    struct ration *r = open_limits(limits, 2);
    struct ration_pause_of of = {.key = "k", .key_len = 1, .limit_given = true, .limit = 0};
    struct ration_charge c = {.limit = 0, .hash = ration_hash(r, 0, "k", 1), .cost = 1};
    struct ration_charge both[2] = {charge(0, "k", 1), charge(1, "k", 1)};
    struct ration_decision decision;
    uint64_t hold = 7;

    (void)state;
    assert_int_equal(ration_pause(r, &of, 30 * SECOND, T0, NULL), 0);
    assert_false(take(r, 0, "k", 1, T0));
    assert_true(take(r, 1, "k", 1, T0));
    assert_true(take(r, 0, "other", 1, T0));
    assert_true(take_ad_hoc(r, "5 per minute", "k", T0).verdict.allowed);
    assert_int_equal(ration_take(r, &c, T0), 0); /* by hash */
    assert_true(c.paused && !c.verdict.allowed);
    assert_int_equal(ration_check(r, both, 2, T0, &decision), 0);
    assert_false(decision.allowed);
    assert_int_equal(decision.decided_by, 0);
    assert_int_equal(decision.verdict.retry_after_ns, 30 * SECOND);
    assert_true(both[0].paused && !both[1].paused && both[1].verdict.allowed);
    assert_int_equal(both[1].taken, 0);
    assert_int_equal(left(r, 1, "k", T0), 4);
    assert_int_equal(ration_reserve(r, both, 2, SECOND, T0, &hold, &decision), 0);
    assert_false(decision.allowed);
    both[0].drain = true;
    assert_int_equal(ration_take(r, &both[0], T0), 0);
    assert_int_equal(both[0].taken, 0);
    of.limit = 2;
    assert_int_equal(ration_pause(r, &of, SECOND, T0, NULL), RATION_EINVAL);
    assert_int_equal(take(r, 0, "k", 5, T0 + 30 * SECOND), 1);
    ration_close(r);
}

static void batches_and_looks_know_pauses(void **state)
{
    struct ration_named limits[] = {named("a", "5 per minute")};
    struct ration *r = open_limits(limits, 1);
    struct ration_pause_of of = {.key = "k", .key_len = 1, .limit_given = true};
    struct ration_charge c[3] = {charge(0, "j", 1), charge(0, "k", 1), charge(0, "l", 1)};

    (void)state;
    assert_int_equal(ration_pause(r, &of, 30 * SECOND, T0, NULL), 0);
    ration_take_batch(r, c, 3, T0);
    assert_true(c[0].verdict.allowed && !c[1].verdict.allowed && c[2].verdict.allowed);
    assert_true(!c[0].paused && c[1].paused && !c[2].paused);
    assert_int_equal(ration_peek(r, &c[1], T0 + SECOND), 0);
    assert_true(c[1].paused && !c[1].verdict.allowed);
    assert_int_equal(c[1].verdict.retry_after_ns, 29 * SECOND);
    assert_int_equal(c[1].verdict.remaining, 5); /* nothing was spent */
    ration_close(r);
}

static void places_given_with_a_call_are_refused(void **state)
{
    struct ration *r = open_limits(NULL, 0);
    struct ration_named limit = named("x", "2 concurrent");
    struct ration_charge c = {.ad_hoc = &limit.limit, .key = "k", .key_len = 1, .cost = 1};
    uint64_t lease = 1;

    (void)state;
    pause_key(r, "k", 30 * SECOND, T0);
    assert_int_equal(ration_acquire(r, &c, 0, T0, &lease), 0);
    assert_true(c.paused && !c.verdict.allowed);
    assert_int_equal(lease, 0);
    assert_int_equal(ration_acquire(r, &c, 0, T0 + 30 * SECOND, &lease), 0);
    assert_true(c.verdict.allowed && lease != 0);
    ration_close(r);
}

static void a_shadow_limit_tells_a_pause_and_admits(void **state)
{
    struct ration_named limits[] = {flagged(named("a", "5 per minute"), RATION_SHADOW),
                                    named("b", "5 per minute")};
    struct ration *r = open_limits(limits, 2);
    struct ration_pause_of of = {.key = "k", .key_len = 1, .limit_given = true};
    struct ration_charge both[2] = {charge(0, "k", 1), charge(1, "k", 1)};
    struct ration_decision decision;
    struct ration_pause_totals totals;

    (void)state;
    assert_int_equal(ration_pause(r, &of, 30 * SECOND, T0, NULL), 0);
    assert_int_equal(ration_check(r, both, 2, T0, &decision), 0);
    assert_true(decision.allowed);
    ration_pause_totals(r, T0, &totals);
    assert_int_equal(totals.refused, 0);
    ration_close(r);
}

/* --- Envoy -------------------------------------------------------------------------------------
 */

static int pause_descriptor(struct ration *r, const char *domain, const char *text, int64_t now_ns)
{
    struct asked a;

    DESCRIBE(&a, domain, text);
    return ration_pause(r,
                        &(struct ration_pause_of){
                            .descriptor = &(struct ration_descriptor){.domain = domain,
                                                                      .domain_len = strlen(domain),
                                                                      .entries = a.asks[0].entries,
                                                                      .count = a.asks[0].count}},
                        30 * SECOND, now_ns, NULL);
}

static void a_descriptor_is_paused_under_its_envoy_rule(void **state)
{
    struct ration *r = open_rules(shop_rules);
    struct asked a;

    (void)state;
    assert_int_equal(pause_descriptor(r, "shop", "user=ann", T0), 0);
    DESCRIBE(&a, "shop", "route=cart", "user=ann");
    assert_false(ask(r, &a, T0 + SECOND));
    assert_int_equal(out.decided_by, 1);
    assert_true(out.statuses[1].over && !out.statuses[0].over);
    assert_int_equal(out.statuses[1].reset_ns, 29 * SECOND);
    assert_true(ask_for(r, "shop", "user=bob", T0));
    assert_true(ask_for(r, "shop", "route=cart", T0));
    assert_int_equal(out.statuses[0].remaining, 9); /* the refusal charged nothing */
    assert_true(ask_for(r, "shop", "user=ann", T0 + 30 * SECOND));
    assert_int_equal(pause_descriptor(r, "shop", "white=1", T0), RATION_EUNMATCHED);
    assert_int_equal(pause_descriptor(r, "none", "user=ann", T0), RATION_EUNMATCHED);
    ration_close(r);
}

static void what_was_used_is_reported_and_given_back_meanwhile(void **state)
{
    struct ration *r = open_rules(shop_rules);
    struct asked a;

    (void)state;
    DESCRIBE(&a, "shop", "user=ann");
    assert_true(ask(r, &a, T0));
    assert_int_equal(pause_descriptor(r, "shop", "user=ann", T0), 0);
    a.asks[0].hits_given = true;
    a.asks[0].hits = 1;
    assert_true(ask(r, &a, T0));
    assert_int_equal(out.statuses[0].remaining, 1);
    a.asks[0].refund = true;
    assert_true(ask(r, &a, T0));
    assert_int_equal(out.statuses[0].remaining, 2);
    a.asks[0] = (struct ration_descriptor_ask){
        .entries = a.asks[0].entries, .count = a.asks[0].count, .hits_given = true};
    assert_false(ask(r, &a, T0)); /* a look tells the pause */
    ration_close(r);
}

static void a_native_rule_pauses_descriptors(void **state)
{
    struct ration *r = open_rules("apply_to_envoy: true\n"
                                  "limits:\n"
                                  "  - {name: by-user, key: user, limit: 10 per hour}\n");

    (void)state;
    assert_int_equal(pause_client(r, "user=ann", "by-user", 30 * SECOND, T0), 0);
    assert_false(ask_for(r, "any", "user=ann", T0));
    assert_string_equal(out.statuses[0].rule, "by-user");
    assert_int_equal(out.statuses[0].reset_ns, 30 * SECOND);
    assert_true(ask_for(r, "any", "user=bob", T0));
    ration_close(r);
}

/* --- files, capacity, damage ---------------------------------------------------------------------
 */

static struct ration *open_file(const char *path)
{
    struct ration *r = NULL;
    struct ration_error error;

    if (ration_open(&(struct ration_options){.state_path = path, .memory_bytes = UINT64_C(1) << 20},
                    &r, &error) != 0)
        fail_msg("%s", error.text);
    rules_at(r, two_rules, T0);
    return r;
}

static void processes_that_share_a_state_file_share_pauses(void **state)
{
    char path[64];

    (void)state;
    snprintf(path, sizeof path, "/tmp/ration-pause-%ld", (long)getpid());
    unlink(path);
    struct ration *a = open_file(path), *b = open_file(path);

    assert_int_equal(pause_client(a, "ip=192.0.2.1", "stripe", 30 * SECOND, T0), 0);
    pause_key(a, "k", MINUTE, T0);
    assert_int_equal(decide(b, "ip=192.0.2.1", T0).kind, RATION_BY_PAUSE);
    assert_int_equal(rest_of(b, "k", T0), MINUTE);
    assert_int_equal(lift_client(b, "ip=192.0.2.1", T0), 30 * SECOND);
    assert_true(decide(a, "ip=192.0.2.1", T0).decision.allowed);
    ration_close(a);
    ration_close(b);
    a = open_file(path);
    assert_int_equal(rest_of(a, "k", T0 + SECOND), 59 * SECOND);
    ration_close(a);
    unlink(path);
}

static void at_capacity_a_pause_is_refused_and_those_in_force_stay(void **state)
{
    struct ration *r = NULL;
    struct ration_error error;
    char key[24];
    unsigned n = 0;
    int code = 0;

    (void)state;
    assert_int_equal(
        ration_open(&(struct ration_options){.memory_bytes = UINT64_C(1) << 20}, &r, &error), 0);
    for (; code == 0 && n < 200000; n++) {
        snprintf(key, sizeof key, "key %u", n);
        struct ration_pause_of of = key_of(key);

        code = ration_pause(r, &of, MINUTE, T0, NULL);
    }
    assert_int_equal(code, RATION_EFULL);
    for (unsigned i = 0; i < 2 * n; i++) { /* other keys do not drive them out */
        snprintf(key, sizeof key, "other %u", i);
        take_ad_hoc(r, "5 per minute", key, T0);
    }
    for (unsigned i = 0; i + 1 < n; i++) {
        snprintf(key, sizeof key, "key %u", i);
        assert_int_equal(rest_of(r, key, T0), MINUTE);
    }
    ration_close(r);
}

/* Returns how many there was room for. */
static unsigned pause_as_many_as_possible(struct ration *r, const char *name, int64_t now_ns)
{
    char key[24];
    unsigned n = 0;
    int code = 0;

    for (; code == 0 && n < 200000; n++) {
        snprintf(key, sizeof key, "%s %u", name, n);
        struct ration_pause_of of = key_of(key);

        code = ration_pause(r, &of, MINUTE, now_ns, NULL);
    }
    assert_int_equal(code, RATION_EFULL);
    return n - 1;
}

static void pauses_leave_room_for_limits(void **state)
{
    struct ration *r = NULL;
    struct ration_error error;
    struct ration_pause_of first = key_of("a 0");
    unsigned admitted = 0, room;
    char key[24];

    (void)state;
    assert_int_equal(
        ration_open(&(struct ration_options){.memory_bytes = UINT64_C(1) << 20}, &r, &error), 0);
    room = pause_as_many_as_possible(r, "a", T0);
    assert_true(room > 1000);
    for (unsigned i = 0; i < 6000; i++) {
        snprintf(key, sizeof key, "other %u", i % 1000);
        admitted += take_ad_hoc(r, "5 per minute", key, T0).verdict.allowed;
    }
    assert_int_equal(admitted, 5000);
    assert_int_equal(pause_key(r, "a 1", 2 * MINUTE, T0), 2 * MINUTE); /* no more of them */
    assert_int_equal(ration_pause_lift(r, &first, T0, NULL), 0);
    assert_int_equal(pause_as_many_as_possible(r, "b", T0), 1);
    assert_int_equal(pause_as_many_as_possible(r, "c", T0 + 10 * MINUTE), room);
    ration_close(r);
}

static void a_full_board_has_no_room_for_pauses(void **state)
{
    struct ration *r = open_limits(NULL, 0);
    struct ration_pause_of of = key_of("k");

    (void)state;
    r->pauses.board = &r->pauses.none;
    assert_int_equal(ration_pause(r, &of, SECOND, T0, NULL), RATION_EFULL);
    assert_int_equal(ration_pause_lift(r, &of, T0, NULL), RATION_EUNMATCHED);
    assert_true(take_ad_hoc(r, "5 per minute", "k", T0).verdict.allowed);
    ration_close(r);
}

static void damaged_words_of_the_board_refuse_nobody(void **state)
{
    static const uint64_t words[] = {1, UINT64_MAX, (uint64_t)INT64_MAX, UINT64_C(1) << 63, 12345};
    struct ration *r = open_rules(two_rules);
    struct rn_pause_board *board = r->pauses.board;

    (void)state;
    for (size_t i = 0; i < COUNT(words); i++) {
        board->latest_ns = words[i];
        memset(board->filter, 0xff, sizeof board->filter);
        assert_true(decide(r, "ip=192.0.2.9", T0 + (int64_t)i * MINUTE).decision.allowed);
        assert_true(take_ad_hoc(r, "5 per minute", "k", T0 + (int64_t)i * MINUTE).verdict.allowed);
        pause_key(r, "p", SECOND, T0 + (int64_t)i * MINUTE);
        assert_int_equal(rest_of(r, "q", T0 + (int64_t)i * MINUTE), 0);
    }
    ration_close(r);
}

static void a_state_that_ends_beyond_a_day_is_no_pause(void **state)
{
    struct ration *r = open_limits(NULL, 0);

    (void)state;
    pause_key(r, "k", RATION_PAUSE_MAX_NS, T0 + DAY);
    assert_int_equal(rest_of(r, "k", T0 + DAY), RATION_PAUSE_MAX_NS);
    assert_int_equal(rest_of(r, "k", T0), 0); /* as if its word had been changed */
    ration_close(r);
}

/* --- other nodes
 * ----------------------------------------------------------------------------------
 */

static const char *no_fault(const struct rn_limit *limit)
{
    (void)limit;
    return NULL;
}

static void changes_are_kept_for_other_nodes(void **state)
{
    const struct rn_hash_key secret = {1, 2};
    struct ration *a = open_limits(NULL, 0), *b = open_limits(NULL, 0);
    struct rn_pause_event events[4];
    uint64_t number = 0;

    (void)state;
    assert_int_equal(rn_limiter_share(a, &secret, no_fault), 0);
    assert_int_equal(rn_limiter_share(b, &secret, no_fault), 0);
    assert_int_equal(rn_pause_recent(a, &number, events, 4), 0);
    int64_t now = ration_now(a);

    pause_key(a, "k", 30 * SECOND, now);
    pause_key(a, "k", SECOND, now); /* changes nothing */
    pause_key(a, "j", SECOND, now);
    assert_int_equal(rn_pause_recent(a, &number, events, 1), 1);
    assert_int_equal(events[0].ends_ns, now + 30 * SECOND);
    assert_false(events[0].heard);
    assert_true(rn_pause_apply(b, events[0].key, 30 * SECOND));
    assert_in_range(rest_of(b, "k", RATION_NOW), 1, 30 * SECOND);
    struct ration_pause_of of = key_of("k");

    assert_int_equal(ration_pause_lift(a, &of, RATION_NOW, NULL), 0);
    assert_int_equal(rn_pause_recent(a, &number, events, 4), 2);
    assert_int_equal(events[1].ends_ns, 0);
    assert_true(rn_pause_apply(b, events[1].key, 0));
    assert_int_equal(rest_of(b, "k", RATION_NOW), 0);
    number = 0;
    assert_int_equal(rn_pause_recent(b, &number, events, 4), 2);
    assert_true(events[0].heard && events[1].heard);
    ration_close(a);
    ration_close(b);
}

static void the_log_keeps_the_last_changes(void **state)
{
    const struct rn_hash_key secret = {1, 2};
    struct ration *r = open_limits(NULL, 0);
    struct rn_pause_event events[16];
    uint64_t number = 0, count = 0, got;
    char key[24];

    (void)state;
    assert_int_equal(rn_limiter_share(r, &secret, no_fault), 0);
    for (unsigned i = 0; i < RN_PAUSE_LOG + 100; i++) {
        snprintf(key, sizeof key, "key %u", i);
        pause_key(r, key, (int64_t)(i + 1) * 1000000, T0);
    }
    while ((got = rn_pause_recent(r, &number, events, 16)) != 0) {
        if (count == 0)
            assert_int_equal(events[0].ends_ns, T0 + 101 * INT64_C(1000000));
        count += got;
    }
    assert_int_equal(count, RN_PAUSE_LOG);
    ration_close(r);
}

/* --- lengths -----------------------------------------------------------------------------------
 */

static int64_t length_of(const char *text)
{
    int64_t wall_ns = INT64_C(1794990600) * SECOND, for_ns = -1; /* 2026-11-18 08:30:00 */
    struct ration_error error;

    return ration_pause_length(text, strlen(text), wall_ns, &for_ns, &error) == 0 ? for_ns : -1;
}

static void a_length_is_seconds_a_time_or_a_date(void **state)
{
    (void)state;
    assert_int_equal(length_of("30"), 30 * SECOND);
    assert_int_equal(length_of(" 120 "), 120 * SECOND);
    assert_int_equal(length_of("0"), 0);
    assert_int_equal(length_of("86400"), DAY);
    assert_int_equal(length_of("30s"), 30 * SECOND);
    assert_int_equal(length_of("5 minutes"), 5 * MINUTE);
    assert_int_equal(length_of("250ms"), SECOND / 4);
    assert_int_equal(length_of("Wed, 18 Nov 2026 08:31:00 GMT"), MINUTE);
    assert_int_equal(length_of("Wed, 18 Nov 2026 08:29:00 GMT"), 0);
    assert_int_equal(length_of("Sun, 06 Nov 1994 08:49:37 GMT"), 0);
    assert_int_equal(length_of("Thu, 19 Nov 2026 08:30:00 GMT"), DAY);
}

static void a_longer_retry_after_is_cut_to_a_day(void **state)
{
    (void)state;
    assert_int_equal(length_of("86401"), DAY);
    assert_int_equal(length_of("99999999999999999999999999"), DAY);
    assert_int_equal(length_of("Thu, 19 Nov 2026 08:30:01 GMT"), DAY);
    assert_int_equal(length_of("Fri, 31 Dec 9999 23:59:59 GMT"), DAY);
}

static void other_lengths_are_refused(void **state)
{
    static const char *const texts[] = {"",
                                        "soon",
                                        "-1",
                                        "1.5",
                                        "25h",
                                        "30 s x",
                                        "Wed, 31 Feb 2026 08:31:00 GMT",
                                        "Wed, 18 Nov 2026 25:31:00 GMT",
                                        "Wed, 18 Nov 2026 08:31:00 CET",
                                        "Xxx, 18 Nov 2026 08:31:00 GMT",
                                        "Wednesday, 18-Nov-26 08:31:00 GMT"};
    struct ration_error error;
    int64_t for_ns = 7;

    (void)state;
    for (size_t i = 0; i < COUNT(texts); i++)
        assert_int_equal(length_of(texts[i]), -1);
    assert_int_equal(ration_pause_length("2 days", 6, RATION_NOW, &for_ns, &error), RATION_EPARSE);
    assert_string_equal(error.text, "\"2 days\" is longer than 24 hours; a pause is not");
    assert_int_equal(ration_pause_length("soon", 4, RATION_NOW, &for_ns, &error), RATION_EPARSE);
    assert_string_equal(error.text, "\"soon\" is not a length; write whole seconds, a length of "
                                    "time such as 30s or 500ms, or a date such as Wed, 18 Nov 2026 "
                                    "08:30:00 GMT");
    assert_int_equal(for_ns, 7);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_paused_client_is_refused_until_the_pause_ends),
        cmocka_unit_test(a_pause_charges_nothing_and_is_counted),
        cmocka_unit_test(the_longer_end_counts_and_zero_changes_nothing),
        cmocka_unit_test(a_length_below_zero_or_above_a_day_is_refused),
        cmocka_unit_test(a_pause_of_an_unknown_rule_or_client_is_an_error),
        cmocka_unit_test(without_a_rule_all_that_apply_are_paused),
        cmocka_unit_test(shadow_mode_refuses_nothing),
        cmocka_unit_test(a_pause_is_no_offence),
        cmocka_unit_test(a_pause_survives_a_reload_and_holds_in_every_tier),
        cmocka_unit_test(reservations_and_places_of_a_paused_client_are_refused),
        cmocka_unit_test(an_ad_hoc_key_is_paused_whatever_its_limit),
        cmocka_unit_test(a_key_of_a_limit_given_at_open_is_paused_under_it_alone),
        cmocka_unit_test(batches_and_looks_know_pauses),
        cmocka_unit_test(places_given_with_a_call_are_refused),
        cmocka_unit_test(a_shadow_limit_tells_a_pause_and_admits),
        cmocka_unit_test(a_descriptor_is_paused_under_its_envoy_rule),
        cmocka_unit_test(what_was_used_is_reported_and_given_back_meanwhile),
        cmocka_unit_test(a_native_rule_pauses_descriptors),
        cmocka_unit_test(processes_that_share_a_state_file_share_pauses),
        cmocka_unit_test(at_capacity_a_pause_is_refused_and_those_in_force_stay),
        cmocka_unit_test(pauses_leave_room_for_limits),
        cmocka_unit_test(a_full_board_has_no_room_for_pauses),
        cmocka_unit_test(damaged_words_of_the_board_refuse_nobody),
        cmocka_unit_test(a_state_that_ends_beyond_a_day_is_no_pause),
        cmocka_unit_test(changes_are_kept_for_other_nodes),
        cmocka_unit_test(the_log_keeps_the_last_changes),
        cmocka_unit_test(a_length_is_seconds_a_time_or_a_date),
        cmocka_unit_test(a_longer_retry_after_is_cut_to_a_day),
        cmocka_unit_test(other_lengths_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
