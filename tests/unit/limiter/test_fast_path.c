/* SPDX-License-Identifier: Apache-2.0 */
/* The short way to an admission: which limits it is for, and that it leads where the long
 * way does. */
#include "clients_fixture.h"

#include "limiter/decide/fast_path.h"
#include "limiter/decide/gather.h"

/* --- when it is used --------------------------------------------------------------------- */

static bool goes_the_short_way(struct ration *r, const char *words)
{
    static struct rn_matches matches; /* large */
    struct words w;

    split_words(&w, words);
    rn_match_request(r->shelf.book->ruleset, &w.request, &matches);
    return rn_fast_path_count(r->shelf.book, &matches) != 0;
}

/* Of a rule that says so besides its name and key. */
static void assert_way(const char *said, bool short_one)
{
    char text[256];

    snprintf(text, sizeof text, "limits:\n  - {name: a, key: user, %s}\n", said);
    struct ration *r = open_rules(text);

    if (goes_the_short_way(r, "user=ann method=GET") != short_one)
        fail_msg("%s", said);
    ration_close(r);
}

static void one_limit_that_only_counts_is_plain(void **state)
{
    static const char *const plain[] = {
        "limit: 5 per minute",
        "limit: 5 per minute, algorithm: fixed-window",
        "limit: 5 per minute, algorithm: sliding-window",
        "limit: 5 per minute, algorithm: sliding-log",
        "limit: 5 per calendar month, spread: 1 hour",
        "limit: 5 per minute, when: {method: GET}, cost: {header: x-cost, default: 2}",
        "limit: [5 per minute, 50 per hour]",
        "limit: {by: tier, free: 5 per minute, pro: 50 per minute, default: free}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        assert_way(plain[i], true);
}

static void whatever_minds_more_than_room_is_not(void **state)
{
    static const char *const others[] = {
        "limit: unlimited",
        "limit: 5 concurrent, lease: 1 minute",
        "limit: 5 per minute queue 2",
        "limit: 5 per minute, mode: shadow",
        "limit: 100 per minute, soft: 10%",
        "limit: 5 per minute, charge_on: status 401",
        "limit: 5 per minute, priority: {by: rank, levels: {high: 0%, low: 50%}, default: low}",
        "limit: 10 per minute, throttle: {from: 50%, max_delay: 2s}",
        ("limit: [1 per 1s, 2 per 2s, 3 per 3s, 4 per 4s, 5 per 5s, 6 per 6s, 7 per 7s, 8 per 8s, "
         "9 per 9s]"),
        "limit: [5 per minute, 50 per hour queue 5]",
        "limit: {by: tier, free: 5 per minute, pro: 50 per hour, default: free}",
    };

    (void)state;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        assert_way(others[i], false);
}

static void several_rules_are_plain_if_each_is(void **state)
{
    struct ration *r = open_rules("limits:\n"
                                  "  - {name: a, key: user, limit: 5 per minute}\n"
                                  "  - {name: b, key: ip, limit: 5 per minute}\n"
                                  "  - {name: c, key: team, limit: 5 per minute, mode: shadow}\n");

    (void)state;
    assert_true(goes_the_short_way(r, "user=ann"));
    assert_true(goes_the_short_way(r, "user=ann ip=192.0.2.1"));
    assert_false(goes_the_short_way(r, "user=ann team=red"));
    assert_false(goes_the_short_way(r, "path=/"));
    ration_close(r);
}

static void what_a_changed_rule_inherits_is_minded_first(void **state)
{
    struct ration *r = open_rules("limits:\n  - {name: a, key: user, limit: 5 per minute}\n");

    (void)state;
    assert_true(goes_the_short_way(r, "user=ann"));
    rules_at(r, "limits:\n  - {name: a, key: user, limit: 5 per hour}\n", T0 + SECOND);
    assert_false(goes_the_short_way(r, "user=ann"));
    ration_close(r);
}

/* --- where it leads ---------------------------------------------------------------------- */

static struct ration_outcome decide_at_length(struct ration *r, const char *words, uint64_t cost,
                                              int64_t now_ns)
{
    struct rn_terms terms = {.reserving = true}; /* needs more than the outcome */
    struct ration_outcome out;
    struct words w;

    split_words(&w, words);
    w.request.cost = cost;
    assert_int_equal(rn_gather_decide(r, &w.request, now_ns, &terms, &out), 0);
    return out;
}

static struct ration_outcome decide_shortly(struct ration *r, const char *words, uint64_t cost,
                                            int64_t now_ns)
{
    struct ration_outcome out;
    struct words w;

    split_words(&w, words);
    w.request.cost = cost;
    assert_int_equal(ration_decide(r, &w.request, now_ns, &out), 0);
    return out;
}

static void assert_limits_equal(const struct ration_outcome *a, const struct ration_outcome *b)
{
    assert_int_equal(a->limit_count, b->limit_count);
    assert_int_equal(a->listed, b->listed);
    for (uint32_t i = 0; i < a->listed; i++) {
        const struct ration_outcome_limit *l = &a->limits[i], *m = &b->limits[i];

        assert_string_equal(l->rule, m->rule);
        assert_same(&l->verdict, &m->verdict);
        assert_int_equal(l->algorithm, m->algorithm);
        assert_int_equal(l->amount, m->amount);
        assert_int_equal(l->period_ns, m->period_ns);
        assert_int_equal(l->shadow, m->shadow);
    }
}

/* Of two clients: all but the hashes. */
static void assert_outcomes_equal(const struct ration_outcome *a, const struct ration_outcome *b)
{
    assert_int_equal(a->decision.allowed, b->decision.allowed);
    assert_int_equal(a->decision.decided_by, b->decision.decided_by);
    assert_same(&a->decision.verdict, &b->decision.verdict);
    assert_int_equal(a->kind, b->kind);
    assert_true(a->soft == b->soft && a->shadow_refused == b->shadow_refused && a->hold == b->hold);
    assert_int_equal(a->delay_ns, b->delay_ns);
    assert_int_equal(a->status, b->status);
    assert_int_equal(a->headers, b->headers);
    assert_int_equal(a->lease, b->lease);
    assert_int_equal(a->place_count, b->place_count);
    assert_int_equal(a->due_count, b->due_count);
    assert_int_equal(a->at_ns, b->at_ns);
    assert_string_equal(a->rule, b->rule);
    assert_string_equal(a->message, b->message);
    assert_limits_equal(a, b);
    assert_int_equal(a->receipt_count, b->receipt_count);
    for (uint32_t i = 0; i < a->receipt_count; i++) {
        assert_int_equal(a->receipts[i].salt, b->receipts[i].salt);
        assert_int_equal(a->receipts[i].cap, b->receipts[i].cap);
        assert_int_equal(a->receipts[i].taken, b->receipts[i].taken);
        assert_int_equal(a->receipts[i].mark, b->receipts[i].mark);
    }
}

/* What counters of the service and of the rule have grown by since `before`, which is
 * brought up to date. */
struct counted {
    struct ration_totals all, rule;
};

static void assert_counted(struct ration *r, const char *rule, struct counted *before,
                           const struct ration_outcome *out)
{
    const struct ration_verdict *v = &out->decision.verdict;
    bool near = v->allowed && v->remaining * 5 < v->limit;
    struct counted now;

    ration_totals(r, &now.all);
    assert_int_equal(ration_rule_totals(r, rule, strlen(rule), &now.rule), 0);
    assert_int_equal(now.all.allowed - before->all.allowed, v->allowed);
    assert_int_equal(now.all.refused - before->all.refused, !v->allowed);
    assert_int_equal(now.all.near - before->all.near, near);
    assert_int_equal(now.rule.allowed - before->rule.allowed, v->allowed);
    assert_int_equal(now.rule.refused - before->rule.refused, !v->allowed);
    assert_int_equal(now.rule.near - before->rule.near, near);
    *before = now;
}

/* One client decides shortly, its twin at length: they stay alike. */
static void walk(const char *limit, unsigned seed)
{
    char text[512];
    struct counted counted = {0};
    int64_t now_ns = T0;

    snprintf(text, sizeof text,
             "limits:\n  - {name: a, key: [team, user or ip], %s,\n"
             "     response: {status: 503, message: Later., headers: x}}\n",
             limit);
    struct ration *r = open_rules(text);

    srand(seed);
    for (int i = 0; i < 2000; i++) {
        const char *words = rand() % 2 ? "team=1 user=ann" : "team=1 ip=192.0.2.1";
        const char *twins = words[7] == 'u' ? "team=2 user=ann" : "team=2 ip=192.0.2.1";
        uint64_t cost = (uint64_t)rand() % 3;

        now_ns += rand() % 4 == 0 ? rand() % (10 * SECOND) : rand() % 1000;
        struct ration_outcome out = decide_shortly(r, words, cost, now_ns);

        assert_counted(r, "a", &counted, &out);
        struct ration_outcome twin = decide_at_length(r, twins, cost, now_ns);

        assert_counted(r, "a", &counted, &twin);
        assert_outcomes_equal(&out, &twin);
        if (rand() % 8 == 0)
            assert_int_equal(ration_outcome_give_back(r, &out, now_ns),
                             ration_outcome_give_back(r, &twin, now_ns));
    }
    ration_close(r);
}

static void both_ways_lead_to_the_same_outcome(void **state)
{
    (void)state;
    walk("limit: 20 per minute", 1);
    walk("limit: 20 per minute burst 3", 2);
    walk("limit: 20 per minute, algorithm: fixed-window", 3);
    walk("limit: 20 per minute, algorithm: sliding-window", 4);
    walk("limit: 20 per minute, algorithm: sliding-window, sub_windows: 6", 5);
    walk("limit: 20 per minute, algorithm: sliding-log", 6);
    walk("limit: 20 per calendar day", 7);
    walk("limit: 20 per minute, on_full: refuse, cost: 2", 8);
}

/* --- several limits, overrides and bans --------------------------------------------------- */

static const char *const mixed_rules[] = {
    "  - {name: a, key: [team, user], limit: [9 per minute, 40 per hour]}\n",
    "  - {name: a, key: [team, user], limit: 6 per minute}\n"
    "  - {name: b, key: [team, ip], limit: 30 per hour burst 9, cost: 2}\n",
    "  - {name: a, key: [team, user], algorithm: fixed-window, limit: [9 per minute, 40 per "
    "hour]}\n"
    "  - {name: b, key: [team, ip], algorithm: sliding-window, limit: 12 per minute}\n",
    "  - {name: a, key: [team, user], limit: 9 per minute burst 4}\n"
    "  - {name: b, key: [team, ip], algorithm: fixed-window, limit: 10 per minute}\n"
    "  - {name: c, key: team, algorithm: sliding-window, limit: 20 per minute}\n"
    "  - {name: d, key: team, algorithm: sliding-log, limit: 25 per 2 minutes}\n"
    "  - {name: e, key: team, algorithm: sliding-window, sub_windows: 6, limit: 60 per hour}\n",
    "  - {name: a, key: [team, user], limit: 6 per minute, mode: shadow}\n"
    "  - {name: b, key: [team, ip], limit: [9 per minute, 40 per hour]}\n",
    "  - {name: a, key: [team, user], limit: {by: tier, free: 5 per minute, pro: 9 per minute, "
    "default: free}}\n"
    "  - {name: b, key: [team, ip], limit: 9 per minute, algorithm: sliding-log}\n",
    "  - {name: a, key: [team, user], limit: {by: tier, free: 5 per minute, pro: 9 per hour, "
    "default: free}}\n",
    "  - {name: a, key: [team, user], limit: 9 per minute queue 3}\n"
    "  - {name: b, key: [team, ip], limit: 100 per calendar day, soft: 10%}\n",
};

/* What the service and each rule have counted. */
#define RULES 5
struct all_counted {
    struct ration_totals totals[RULES + 1];
};

static struct all_counted count_all(struct ration *r)
{
    struct all_counted now = {0};

    ration_totals(r, &now.totals[RULES]);
    for (unsigned i = 0; i < RULES; i++)
        (void)ration_rule_totals(r, &"abcde"[i], 1, &now.totals[i]);
    for (unsigned i = 0; i <= RULES; i++)
        now.totals[i].block_rate = 0; /* follows from the others */
    return now;
}

/* Counters are numbers only: what was added between two looks. */
static struct all_counted added(const struct all_counted *from, const struct all_counted *to)
{
    struct all_counted sum;
    const uint64_t *a = (const uint64_t *)from, *b = (const uint64_t *)to;

    _Static_assert(sizeof sum % sizeof(uint64_t) == 0, "counters only");
    for (size_t i = 0; i < sizeof sum / sizeof(uint64_t); i++)
        ((uint64_t *)&sum)[i] = b[i] - a[i];
    return sum;
}

/* Of many other clients, and of the two that are compared. */
static void set_clients(struct ration *r)
{
    char words[64];

    for (int i = 0; i < 50; i++) {
        snprintf(words, sizeof words, "team=%d user=u%d", 3 + i, i);
        set_limit(r, "a", words, "1 per hour");
        snprintf(words, sizeof words, "ip=203.0.%d.0/24", i);
        ban(r, words);
    }
    for (int team = 1; team <= 2; team++) {
        snprintf(words, sizeof words, "team=%d user=bob", team);
        set_limit(r, "a", words, "3 per minute");
    }
    ban(r, "user=eve");
    ban(r, "ip=198.51.100.0/24 user=ann");
}

/* One client decides shortly, its twin at length: they stay alike. */
static void walk_mixed(const char *limits, bool clients, unsigned seed)
{
    static const char *const users[] = {"ann", "ann", "bob", "cid", "eve"};
    static const char *const ips[] = {"192.0.2.1", "192.0.2.1", "198.51.100.7", "203.0.3.9"};
    char text[1024], words[128];
    int64_t now_ns = T0;

    snprintf(text, sizeof text, "limits:\n%s", limits);
    struct ration *r = open_rules(text);

    if (clients)
        set_clients(r);
    srand(seed);
    for (int i = 0; i < 8000; i++) {
        int length = snprintf(words, sizeof words, "team=1 user=%s ip=%s tier=%s",
                              users[rand() % 5], ips[rand() % 4], rand() % 2 ? "pro" : "free");
        uint64_t cost = (uint64_t)rand() % 3;
        bool counted = i % 8 == 0;
        struct all_counted before = {0}, middle = {0}, after;

        assert_true(length < (int)sizeof words);
        now_ns += rand() % 3 == 0 ? rand() % (20 * SECOND) : rand() % 1000;
        if (counted)
            before = count_all(r);
        struct ration_outcome out = decide_shortly(r, words, cost, now_ns);

        if (counted)
            middle = count_all(r);
        words[5] = '2';
        struct ration_outcome twin = decide_at_length(r, words, cost, now_ns);

        if (counted) {
            after = count_all(r);
            before = added(&before, &middle);
            after = added(&middle, &after);
            assert_memory_equal(&before, &after, sizeof after);
        }
        assert_outcomes_equal(&out, &twin);
        if (rand() % 8 == 0)
            assert_int_equal(ration_outcome_give_back(r, &out, now_ns),
                             ration_outcome_give_back(r, &twin, now_ns));
    }
    ration_close(r);
}

static void several_limits_lead_to_the_same_outcome_both_ways(void **state)
{
    (void)state;
    for (unsigned i = 0; i < COUNT(mixed_rules); i++)
        walk_mixed(mixed_rules[i], false, i);
}

static void overrides_and_bans_change_nothing_for_others(void **state)
{
    (void)state;
    for (unsigned i = 0; i < COUNT(mixed_rules); i++)
        walk_mixed(mixed_rules[i], true, 100 + i);
}

/* --- ration_check ------------------------------------------------------------------------- */

static struct rn_store *real;

static void pass_on(struct rn_store *store, struct rn_charge *batch, size_t n)
{
    (void)store;
    rn_store_apply(real, batch, n);
}

static void charges_lead_to_the_same_decision_both_ways(void **state)
{
    static const struct rn_store_ops ops = {.apply = pass_on};
    struct rn_store other = {&ops}; /* not the table: each step is made by itself */
    const struct ration_named limits[] = {
        named("a", "9 per minute"),
        named("b", "40 per hour burst 9"),
        with(named("c", "10 per minute"), RATION_FIXED_WINDOW),
        with(named("d", "25 per 2 minutes"), RATION_SLIDING_LOG),
        with(named("e", "20 per minute"), RATION_SLIDING_WINDOW),
        named("f", "9 per minute queue 5"),
    };
    struct ration *r = open_limits(limits, COUNT(limits));
    int64_t now_ns = T0;

    (void)state;
    real = r->store;
    srand(7);
    for (int i = 0; i < 30000; i++) {
        struct ration_charge c[5], twin[5];
        struct ration_decision d, e;
        size_t n = 1 + (size_t)rand() % 5;

        now_ns += rand() % 3 == 0 ? rand() % (20 * SECOND) : rand() % 1000;
        for (size_t k = 0; k < n; k++) { /* perhaps the same key twice */
            c[k] = charge((uint32_t)rand() % COUNT(limits), rand() % 2 ? "1x" : "1y",
                          (uint64_t)rand() % 3);
            twin[k] = c[k];
            twin[k].key = ((const char *)c[k].key)[1] == 'x' ? "2x" : "2y";
        }
        assert_int_equal(ration_check(r, c, n, now_ns, &d), 0);
        r->store = &other;
        assert_int_equal(ration_check(r, twin, n, now_ns, &e), 0);
        r->store = real;
        assert_int_equal(d.allowed, e.allowed);
        assert_int_equal(d.decided_by, e.decided_by);
        assert_same(&d.verdict, &e.verdict);
        for (size_t k = 0; k < n; k++) {
            assert_same(&c[k].verdict, &twin[k].verdict);
            assert_int_equal(c[k].taken, twin[k].taken);
            assert_int_equal(c[k].at_ns, twin[k].at_ns);
            assert_int_equal(c[k].error, twin[k].error);
            if (c[k].taken != 0)
                assert_int_equal(c[k].mark, twin[k].mark);
        }
    }
    ration_close(r);
}

static void a_refused_key_is_among_those_refused_most(void **state)
{
    struct ration *r = open_rules("limits:\n  - {name: a, key: user, limit: 1 per day}\n");
    struct ration_top top[2];

    (void)state;
    assert_int_equal(admitted(r, "user=ann", 5, T0), 1);
    assert_int_equal(ration_top(r, top, 2), 1);
    assert_int_equal(top[0].refused, 4);
    assert_string_equal(top[0].name, "ann");
    ration_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_limit_that_only_counts_is_plain),
        cmocka_unit_test(whatever_minds_more_than_room_is_not),
        cmocka_unit_test(several_rules_are_plain_if_each_is),
        cmocka_unit_test(what_a_changed_rule_inherits_is_minded_first),
        cmocka_unit_test(both_ways_lead_to_the_same_outcome),
        cmocka_unit_test(several_limits_lead_to_the_same_outcome_both_ways),
        cmocka_unit_test(overrides_and_bans_change_nothing_for_others),
        cmocka_unit_test(charges_lead_to_the_same_decision_both_ways),
        cmocka_unit_test(a_refused_key_is_among_those_refused_most),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
