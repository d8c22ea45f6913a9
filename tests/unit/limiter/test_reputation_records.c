/* SPDX-License-Identifier: Apache-2.0 */
/* Bans by rules: who sees and lifts them, other nodes, reloads and restarts, Envoy's requests. */
#include "reputation_fixture.h"

#include <unistd.h>

#include <ration/envoy.h>

/* --- operators -------------------------------------------------------------------------------- */

static int64_t now_of(struct ration *r)
{
    return ration_now(r);
}

struct listed {
    unsigned count, banned;
    struct ration_reputation last;
    char rule[64], key[64];
};

static int note(void *arg, const struct ration_reputation *one)
{
    struct listed *l = arg;

    l->count++;
    l->banned += one->banned;
    l->last = *one;
    snprintf(l->rule, sizeof l->rule, "%.*s", (int)one->rule_len, one->rule);
    snprintf(l->key, sizeof l->key, "%.*s", (int)one->key_len, one->key ? one->key : "");
    return 0;
}

static struct listed list(struct ration *r, const struct ration_reputation_query *query)
{
    struct listed l = {0};
    uint64_t next = 1;

    assert_int_equal(ration_reputation_each(r, query, note, &l, &next), 0);
    assert_int_equal(next, 0);
    return l;
}

static void operators_see_who_is_banned(void **state)
{
    struct ration *r = open_rules(LOGIN "  - {name: other, key: user, limit: 1 per hour,\n"
                                        "     escalate: {after: 1 refusals within 1m, ban: 1h}}\n");
    int64_t now = now_of(r);
    struct listed l;
    struct ration_reputation_totals totals;

    (void)state;
    assert_int_equal(list(r, &(struct ration_reputation_query){0}).count, 0);
    offend(r, "ip=192.0.2.1", 5, now);
    offend(r, "ip=192.0.2.2", 4, now); /* two refusals */
    offend(r, "user=ann", 2, now);
    l = list(r, &(struct ration_reputation_query){0});
    assert_int_equal(l.count, 3);
    assert_int_equal(l.banned, 2);
    l = list(r, &(struct ration_reputation_query){.rule = "login", .rule_len = 5});
    assert_int_equal(l.count, 2);
    l = list(
        r, &(struct ration_reputation_query){.rule = "login", .rule_len = 5, .banned_only = true});
    assert_int_equal(l.count, 1);
    assert_string_equal(l.rule, "login");
    assert_string_equal(l.key, "192.0.2.1");
    assert_int_equal(l.last.level, 1);
    assert_in_range(l.last.ends_after_ns, 50 * SECOND, MINUTE);
    assert_int_equal(l.last.earned_percent, 100);
    assert_int_equal(
        ration_reputation_each(r, &(struct ration_reputation_query){.rule = "none", .rule_len = 4},
                               note, &l, NULL),
        RATION_ENORULE);
    ration_reputation_totals(r, &totals);
    assert_int_equal(totals.records, 3);
    assert_int_equal(totals.banned, 2);
    assert_int_equal(totals.bans, 2);
    assert_true(totals.capacity > 1000);
    ration_close(r);
}

static void a_listing_has_pages(void **state)
{
    struct ration *r = open_rules(LOGIN);
    struct ration_reputation_query query = {.limit = 7};
    struct listed l = {0};
    int64_t now = now_of(r);
    unsigned pages = 0;
    char ip[40];

    (void)state;
    for (unsigned i = 0; i < 50; i++) {
        snprintf(ip, sizeof ip, "ip=192.0.2.%u", i);
        offend(r, ip, 3, now);
    }
    do {
        assert_int_equal(ration_reputation_each(r, &query, note, &l, &query.cursor), 0);
        pages++;
    } while (query.cursor != 0);
    assert_int_equal(l.count, 50);
    assert_in_range(pages, 8, 9);
    ration_close(r);
}

static void operators_lift_bans(void **state)
{
    struct ration *r = open_rules(LOGIN "  - {name: other, key: user, limit: 1 per hour,\n"
                                        "     escalate: {after: 1 refusals within 1m, ban: 1h}}\n");
    int64_t now = now_of(r);
    struct words w;
    uint32_t count = 9;

    (void)state;
    offend(r, "ip=192.0.2.1", 5, now);
    assert_true(is_banned(r, "ip=192.0.2.1", now));
    split_words(&w, "ip=192.0.2.1");
    assert_int_equal(ration_reputation_lift(r, &w.request, "login", 5, now, &count), 0);
    assert_int_equal(count, 1);
    assert_false(is_banned(r, "ip=192.0.2.1", now));
    assert_int_equal(ration_reputation_lift(r, &w.request, NULL, 0, now, &count), 0);
    assert_int_equal(count, 0);
    assert_int_equal(ration_reputation_lift(r, &w.request, "none", 4, now, &count), RATION_ENORULE);
    split_words(&w, "user=ann");
    assert_int_equal(ration_reputation_lift(r, &w.request, "login", 5, now, &count),
                     RATION_EUNMATCHED);
    split_words(&w, "host=example.org");
    assert_int_equal(ration_reputation_lift(r, &w.request, NULL, 0, now, &count),
                     RATION_EUNMATCHED);
    /* The level is forgotten, too. */
    offend(r, "ip=192.0.2.1", 3, now);
    assert_int_equal(decide(r, "ip=192.0.2.1", now).level, 1);
    struct listed l = list(r, &(struct ration_reputation_query){.banned_only = true});

    assert_int_equal(ration_reputation_lift_hash(r, "other", 5, l.last.hash, now), RATION_EGONE);
    assert_true(is_banned(r, "ip=192.0.2.1", now));
    assert_int_equal(ration_reputation_lift_hash(r, "login", 5, l.last.hash, now), 0);
    assert_false(is_banned(r, "ip=192.0.2.1", now));
    assert_int_equal(ration_reputation_lift_hash(r, "login", 5, l.last.hash, now), RATION_EGONE);
    assert_int_equal(ration_reputation_lift_hash(r, "none", 4, l.last.hash, now), RATION_ENORULE);
    struct ration_totals totals;

    ration_totals(r, &totals);
    assert_int_equal(totals.lifted, 2);
    ration_close(r);
}

/* --- other nodes ------------------------------------------------------------------------------ */

static void what_happens_here_is_told_and_applied_elsewhere(void **state)
{
    struct ration *here = open_limits(NULL, 0), *there = open_limits(NULL, 0);
    static const struct rn_hash_key secret = {3, 4};
    struct rn_reputation_event events[4];
    uint64_t sequence = 0;
    struct words w;

    (void)state;
    assert_int_equal(rn_limiter_share(here, &secret, no_fault), 0);
    assert_int_equal(rn_limiter_share(there, &secret, no_fault), 0);
    rules_at(here, LOGIN, T0);
    rules_at(there, LOGIN, T0);
    int64_t now = now_of(here);

    assert_int_equal(rn_reputation_recent(here, &sequence, events, 4), 0);
    rn_fallback_use(rn_table_store(here->table));
    offend(here, "ip=192.0.2.1", 5, now);
    rn_fallback_use(rn_table_store(there->table));
    assert_int_equal(rn_reputation_recent(here, &sequence, events, 4), 1);
    assert_int_equal(sequence, 1);
    assert_int_equal(events[0].level, 1);
    assert_true(events[0].rule == rn_reputation_rule(there, RN_SLICE("login")));
    assert_in_range(events[0].ends_in_ns, 50 * SECOND, MINUTE);
    assert_int_equal(events[0].name_len, 9);
    assert_memory_equal(events[0].name, "192.0.2.1", 9);
    assert_true(rn_reputation_apply(there, events[0].rule, events[0].hash, 1, 2 * HOUR));
    struct ration_outcome out = decide(there, "ip=192.0.2.1", now_of(there));

    assert_int_equal(out.kind, RATION_BY_ESCALATION);
    assert_true(out.decision.verdict.retry_after_ns <= MINUTE); /* no longer than the plan says */
    assert_true(rn_reputation_apply(there, events[0].rule + 1, events[0].hash, 1, HOUR));
    /* A weaker one changes nothing; a lift ends it. */
    assert_true(rn_reputation_apply(there, events[0].rule, events[0].hash, 1, SECOND));
    assert_true(is_banned(there, "ip=192.0.2.1", now_of(there) + 30 * SECOND));
    split_words(&w, "ip=192.0.2.1");
    assert_int_equal(ration_reputation_lift(here, &w.request, "login", 5, now, NULL), 0);
    assert_int_equal(rn_reputation_recent(here, &sequence, events, 4), 1);
    assert_int_equal(events[0].level, 0);
    assert_true(rn_reputation_apply(there, events[0].rule, events[0].hash, 0, 0));
    assert_false(is_banned(there, "ip=192.0.2.1", now_of(there)));
    sequence = UINT64_MAX;
    assert_int_equal(rn_reputation_recent(here, &sequence, events, 4), 0);
    assert_int_equal(sequence, 2);
    rn_fallback_use(NULL);
    ration_close(here);
    ration_close(there);
}

/* --- reloads and restarts ----------------------------------------------------------------------
 */

static void a_reload_keeps_records_and_applies_its_plan(void **state)
{
    struct ration *r = open_rules(LOGIN);
    int64_t now = T0 + HOUR;

    (void)state;
    offend(r, "ip=192.0.2.1", 5, now - 20 * MINUTE);
    offend(r, "ip=192.0.2.1", 5, now); /* four minutes */
    rules_at(r,
             "limits:\n  - {name: login, key: ip, limit: 2 per minute,\n"
             "     escalate: {after: 100 refusals within 10s, ban: 2m, grow: 2x}}\n",
             now);
    assert_int_equal(decide(r, "ip=192.0.2.1", now).level, 2);
    rules_at(r, "limits:\n  - {name: login, key: ip, limit: 2 per minute}\n", now);
    assert_int_equal(decide(r, "ip=192.0.2.1", now).kind, RATION_BY_LIMITS);
    rules_at(r,
             "limits:\n  - {name: login, key: ip, limit: 2 per minute,\n"
             "     escalate: {after: 3 refusals within 10s, ban: 1s, grow: 1x}}\n",
             now);
    assert_int_equal(decide(r, "ip=192.0.2.1", now).kind, RATION_BY_LIMITS); /* shorter bans */
    rules_at(r, LOGIN, now + HOUR);
    offend(r, "ip=192.0.2.1", 5, now + HOUR);
    assert_true(decide(r, "ip=192.0.2.1", now + HOUR).level >= 3);
    ration_close(r);
}

static struct ration *open_file(const char *path)
{
    struct ration_options options = {.memory_bytes = UINT64_C(4) << 20, .state_path = path};
    struct ration_error error;
    struct ration *r = NULL;

    if (ration_open(&options, &r, &error) != 0)
        fail_msg("%s", error.text);
    rules_at(r, LOGIN, ration_now(r));
    return r;
}

static void a_ban_survives_a_restart_and_holds_for_all_processes(void **state)
{
    char path[] = "/tmp/ration-reputation-XXXXXX", beside[64];
    int64_t now;

    (void)state;
    close(mkstemp(path));
    unlink(path);
    struct ration *r = open_file(path), *other = open_file(path);

    now = ration_now(r);
    offend(r, "ip=192.0.2.1", 5, now);
    assert_true(is_banned(other, "ip=192.0.2.1", now)); /* as another process would see it */
    ration_close(other);
    ration_close(r);
    r = open_file(path);
    assert_true(is_banned(r, "ip=192.0.2.1", now));
    struct listed l = list(r, &(struct ration_reputation_query){.banned_only = true});

    assert_string_equal(l.key, "192.0.2.1");
    ration_close(r);
    unlink(path);
    for (const char *const *end = (const char *const[]){"reputation", "overrides", NULL}; *end;
         end++) {
        snprintf(beside, sizeof beside, "%s.%s", path, *end);
        unlink(beside);
    }
}

/* --- Envoy --------------------------------------------------------------------------------------
 */

static void envoy_requests_are_banned_by_native_rules(void **state)
{
    struct ration *r = open_rules("apply_to_envoy: true\n" LOGIN);
    struct ration_descriptor_entry entry = {"ip", 2, "192.0.2.1", 9};
    struct ration_descriptor_ask ask = {.entries = &entry, .count = 1};
    struct ration_descriptors request = {.domain = "d", .domain_len = 1, .asks = &ask, .count = 1};
    struct ration_descriptors_outcome out;

    (void)state;
    ask.hits_given = true; /* what was used: never an offence */
    ask.hits = 5;
    for (int i = 0; i < 20; i++)
        assert_int_equal(ration_decide_descriptors(r, &request, T0, &out), 0);
    ask.hits = 0; /* a look */
    for (int i = 0; i < 20; i++)
        assert_int_equal(ration_decide_descriptors(r, &request, T0, &out), 0);
    assert_false(is_banned(r, "ip=192.0.2.1", T0));
    ask.hits_given = false;
    for (int i = 0; i < 3; i++)
        assert_int_equal(ration_decide_descriptors(r, &request, T0, &out), 0);
    assert_true(is_banned(r, "ip=192.0.2.1", T0));
    assert_int_equal(ration_decide_descriptors(r, &request, T0, &out), 0);
    assert_false(out.allowed);
    assert_true(out.statuses[0].over);
    assert_string_equal(out.statuses[0].rule, "login");
    assert_in_range(out.statuses[0].reset_ns, 59 * SECOND, MINUTE);
    ration_close(r);
}

static int note_hash(void *arg, const struct ration_reputation *one)
{
    *(uint64_t *)arg = one->hash;
    return 0;
}

/* Other nodes know both by that hash: else a lift would be of another client there. */
static void a_ban_and_its_lift_have_the_hash_that_listings_show(void **state)
{
    struct ration *r = open_rules(LOGIN);
    int64_t now = now_of(r);
    struct ration_reputation_query all = {0};
    struct rn_reputation_event events[16];
    struct words w;
    char words[32];

    (void)state;
    for (unsigned i = 1; i <= 6; i++) { /* hashes with several endings */
        uint64_t listed = 0, sequence = UINT64_MAX;

        rn_reputation_recent(r, &sequence, events, COUNT(events));
        snprintf(words, sizeof words, "ip=192.0.2.%u", i);
        offend(r, words, 5, now);
        assert_int_equal(ration_reputation_each(r, &all, note_hash, &listed, NULL), 0);
        assert_int_equal(ration_reputation_lift_hash(r, "login", 5, listed, now), 0);
        assert_int_equal(rn_reputation_recent(r, &sequence, events, COUNT(events)), 2);
        assert_int_equal(events[0].level, 1);
        assert_int_equal(events[1].level, 0);
        assert_true(events[0].hash == listed && events[1].hash == listed);
        offend(r, words, 5, now);
        split_words(&w, words);
        assert_int_equal(ration_reputation_lift(r, &w.request, "login", 5, now, NULL), 0);
        assert_int_equal(rn_reputation_recent(r, &sequence, events, COUNT(events)), 2);
        assert_true(events[0].hash == listed && events[1].hash == listed);
    }
    ration_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(operators_see_who_is_banned),
        cmocka_unit_test(a_listing_has_pages),
        cmocka_unit_test(operators_lift_bans),
        cmocka_unit_test(what_happens_here_is_told_and_applied_elsewhere),
        cmocka_unit_test(a_reload_keeps_records_and_applies_its_plan),
        cmocka_unit_test(a_ban_survives_a_restart_and_holds_for_all_processes),
        cmocka_unit_test(envoy_requests_are_banned_by_native_rules),
        cmocka_unit_test(a_ban_and_its_lift_have_the_hash_that_listings_show),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
