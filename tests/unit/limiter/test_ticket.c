/* SPDX-License-Identifier: Apache-2.0 */
/* Tickets: what they are worth, to whom, and for how long. */
#include "ticket_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "limiter/ticket.h"

static const char tokens[] = "limits:\n"
                             "  - { name: minute, key: user, limit: 1000 per minute }\n"
                             "  - name: day\n"
                             "    key: user\n"
                             "    algorithm: fixed-window\n"
                             "    limit: 5000 per day\n";

/* --- reservations -------------------------------------------------------------------------- */

static void what_was_not_used_comes_back(void **state)
{
    struct ration *r = open_rules(tokens);
    struct slip slip;

    (void)state;
    reserve(r, "user=ann", 400, T0, &slip);
    assert_true(slip.out.decision.allowed);
    assert_int_equal(strspn(slip.text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                       "0123456789-_"),
                     strlen(slip.text));
    assert_int_equal(left_of(r, "minute", "user=ann", T0), 600);
    assert_int_equal(commit(r, &slip, 100, T0), 0);
    assert_int_equal(left_of(r, "minute", "user=ann", T0), 900);
    assert_int_equal(left_of(r, "day", "user=ann", T0), 4900);
    ration_close(r);
}

static void a_reservation_is_settled_once(void **state)
{
    struct ration *r = open_rules(tokens);
    struct slip first, second;

    (void)state;
    reserve(r, "user=ann", 400, T0, &first);
    reserve(r, "user=ann", 300, T0, &second);
    assert_int_equal(refund(r, &first, T0), 0);
    assert_int_equal(refund(r, &first, T0), RATION_EALREADY);
    assert_int_equal(commit(r, &first, 0, T0), RATION_EALREADY);
    assert_int_equal(left_of(r, "minute", "user=ann", T0), 700);
    assert_int_equal(
        ration_ticket_commit(r, second.text, strlen(second.text), true, 0, T0 + SECOND), 0);
    assert_int_equal(refund(r, &second, T0 + SECOND), RATION_EALREADY);
    assert_int_equal(left_of(r, "day", "user=ann", T0), 4700);
    ration_close(r);
}

static void after_its_time_the_charge_stands(void **state)
{
    struct ration *r = open_rules(tokens);
    struct slip slip;

    (void)state;
    reserve(r, "user=ann", 400, T0, &slip);
    assert_int_equal(refund(r, &slip, T0 + MINUTE), RATION_EGONE);
    assert_int_equal(commit(r, &slip, 1, T0 + 60 * MINUTE), RATION_EGONE);
    assert_int_equal(left_of(r, "day", "user=ann", T0 + 60 * MINUTE), 4600);
    ration_close(r);
}

static void more_than_was_reserved_cannot_be_committed(void **state)
{
    struct ration *r = open_rules(tokens);
    struct slip slip;

    (void)state;
    reserve(r, "user=ann", 400, T0, &slip);
    assert_int_equal(commit(r, &slip, 401, T0), RATION_ECOST);
    assert_int_equal(commit(r, &slip, 400, T0), 0); /* it was not settled by that */
    assert_int_equal(left_of(r, "minute", "user=ann", T0), 600);
    ration_close(r);
}

static void a_rule_with_a_cost_of_its_own_keeps_at_most_that(void **state)
{
    struct ration *r = open_rules("limits:\n"
                                  "  - { name: units, key: user, limit: 100 per hour }\n"
                                  "  - { name: calls, key: user, limit: 100 per hour, cost: 2 }\n");
    struct slip slip;

    (void)state;
    reserve(r, "user=ann", 50, T0, &slip);
    assert_int_equal(left_of(r, "calls", "user=ann", T0), 98);
    assert_int_equal(commit(r, &slip, 10, T0), 0);
    assert_int_equal(left_of(r, "units", "user=ann", T0), 90);
    assert_int_equal(left_of(r, "calls", "user=ann", T0), 98);
    ration_close(r);
}

static void a_refusal_has_no_ticket_and_charges_nothing(void **state)
{
    struct ration *r = open_rules(tokens);
    struct slip slip;

    (void)state;
    reserve(r, "user=ann", 1001, T0, &slip);
    assert_false(slip.out.decision.allowed);
    assert_string_equal(slip.text, "");
    assert_int_equal(refund(r, &slip, T0), RATION_EINVAL);
    assert_int_equal(left_of(r, "minute", "user=ann", T0), 1000);
    ration_close(r);
}

static void without_a_rule_there_is_a_ticket_too(void **state)
{
    struct ration *r = open_rules(tokens);
    struct slip slip;

    (void)state;
    reserve(r, "ip=192.0.2.1", 7, T0, &slip);
    assert_true(slip.out.decision.allowed);
    assert_int_equal(commit(r, &slip, 8, T0), RATION_ECOST);
    assert_int_equal(commit(r, &slip, 3, T0), 0);
    assert_int_equal(commit(r, &slip, 3, T0), RATION_EALREADY);
    ration_close(r);
}

static void a_timeout_out_of_range_is_refused(void **state)
{
    static const int64_t bad[] = {0, -1, 999999, INT64_C(86400) * SECOND + 1, INT64_MAX};
    struct ration *r = open_rules(tokens);
    struct ration_limit limit = named("", "5 per minute").limit;
    struct ration_charge c = {.ad_hoc = &limit, .key = "k", .key_len = 1, .cost = 1};
    struct slip slip;
    struct words w;

    (void)state;
    split_words(&w, "user=ann");
    for (size_t i = 0; i < COUNT(bad); i++) {
        assert_int_equal(ration_decide_reserve(r, &w.request, bad[i], T0, &slip.out, slip.text),
                         RATION_EINVAL);
        assert_int_equal(ration_reserve_ticket(r, &c, bad[i], T0, slip.text), RATION_EINVAL);
    }
    assert_int_equal(left_of(r, "minute", "user=ann", T0), 1000);
    ration_close(r);
}

/* --- forgery -------------------------------------------------------------------------------- */

/* Every one of these calls must say that it is no ticket. */
static void assert_worthless(struct ration *r, const char *text, size_t len)
{
    assert_int_equal(ration_ticket_commit(r, text, len, true, 0, T0), RATION_EINVAL);
    assert_int_equal(ration_ticket_refund(r, text, len, T0), RATION_EINVAL);
    assert_int_equal(ration_ticket_renew(r, text, len, 0, T0, NULL), RATION_EINVAL);
    assert_int_equal(ration_ticket_release(r, text, len, T0), RATION_EINVAL);
}

static void no_letter_of_a_ticket_can_be_changed(void **state)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_+/=. \n";
    struct ration *r = open_rules(tokens);
    struct slip slip;

    (void)state;
    reserve(r, "user=ann", 400, T0, &slip);
    size_t len = strlen(slip.text);

    for (size_t i = 0; i < len; i++) {
        char was = slip.text[i];

        for (size_t l = 0; l < sizeof letters; l++) { /* the NUL, too */
            if (letters[l] == was)
                continue;
            slip.text[i] = letters[l];
            assert_worthless(r, slip.text, len);
        }
        slip.text[i] = was;
    }
    assert_int_equal(refund(r, &slip, T0), 0);
    ration_close(r);
}

static void a_ticket_that_was_cut_or_extended_is_worth_nothing(void **state)
{
    struct ration *r = open_rules(tokens);
    struct slip slip;

    (void)state;
    reserve(r, "user=ann", 400, T0, &slip);
    size_t len = strlen(slip.text);

    for (size_t i = 0; i < len; i++) {
        assert_worthless(r, slip.text, i);
        assert_worthless(r, slip.text + len - i, i);
    }
    for (size_t more = 1; more < 9; more++) {
        memset(slip.text + len, 'A', more);
        assert_worthless(r, slip.text, len + more);
    }
    memset(slip.text, 'A', sizeof slip.text);
    assert_worthless(r, slip.text, sizeof slip.text);
    ration_close(r);
}

static void a_ticket_of_another_table_is_worth_nothing(void **state)
{
    struct ration *r = open_rules(tokens), *other = open_rules(tokens);
    struct slip slip;

    (void)state;
    reserve(r, "user=ann", 400, T0, &slip);
    assert_worthless(other, slip.text, strlen(slip.text));
    assert_int_equal(refund(r, &slip, T0), 0);
    ration_close(r);
    ration_close(other);
}

static void a_ticket_serves_for_what_it_was_made(void **state)
{
    struct ration *r = open_rules("limits:\n"
                                  "  - { name: c, key: user, limit: 2 concurrent }\n");
    struct slip reserved, acquired;

    (void)state;
    reserve(r, "user=ann", 1, T0, &reserved);
    acquire(r, "user=bob", 0, T0, &acquired);
    assert_int_equal(renew(r, &reserved, 0, T0, NULL), RATION_EINVAL);
    assert_int_equal(release(r, &reserved, T0), RATION_EINVAL);
    assert_int_equal(commit(r, &acquired, 1, T0), RATION_EINVAL);
    assert_int_equal(refund(r, &acquired, T0), RATION_EINVAL);
    assert_int_equal(left_of(r, "c", "user=ann", T0), 1);
    assert_int_equal(left_of(r, "c", "user=bob", T0), 1);
    ration_close(r);
}

static void a_body_reads_back_as_it_was_written(void **state)
{
    struct rn_ticket t = {.kind = RN_TICKET_RESERVATION,
                          .id = UINT64_MAX,
                          .at_ns = INT64_MIN,
                          .timeout_ns = INT64_MAX,
                          .reserved = UINT64_MAX,
                          .lease = UINT64_MAX,
                          .receipt_count = RATION_CHARGES_MAX,
                          .place_count = RATION_LEASES_MAX};
    const struct rn_hash_key key = {1, 2};
    char text[RATION_TICKET_SIZE], again[RATION_TICKET_SIZE];
    struct rn_ticket read;

    (void)state;
    for (uint32_t i = 0; i < RATION_CHARGES_MAX; i++)
        t.receipts[i] =
            (struct ration_receipt){UINT64_MAX, i, UINT64_MAX - i, UINT64_MAX, INT64_MIN};
    for (uint32_t i = 0; i < RATION_LEASES_MAX; i++)
        t.places[i] = (struct ration_place){UINT64_MAX, RATION_PLACES_MAX, RATION_LEASE_MAX_NS};
    rn_ticket_write(&t, &key, text);
    assert_true(strlen(text) < sizeof text);
    assert_true(rn_ticket_parse(rn_slice_of(text), &key, &read));
    assert_memory_equal(read.receipts, t.receipts, sizeof t.receipts);
    assert_memory_equal(read.places, t.places, sizeof t.places);
    assert_true(read.at_ns == t.at_ns && read.timeout_ns == t.timeout_ns && read.id == t.id &&
                read.reserved == t.reserved && read.lease == t.lease && !read.given);
    rn_ticket_write(&read, &key, again);
    assert_string_equal(again, text);
}

static void as_many_limits_as_can_apply_fit_into_a_ticket(void **state)
{
    char text[RATION_CHARGES_MAX * 80], *at = text;
    struct slip slip;

    (void)state;
    at += sprintf(at, "limits:\n");
    for (unsigned i = 0; i < RATION_CHARGES_MAX; i++)
        at += sprintf(at, "  - { name: r%u, key: user, limit: 1000 per %u minutes }\n", i, i + 1);
    struct ration *r = open_rules(text);

    reserve(r, "user=ann", 100, T0, &slip);
    assert_int_equal(slip.out.receipt_count, RATION_CHARGES_MAX);
    assert_int_equal(commit(r, &slip, 40, T0), 0);
    assert_int_equal(left_of(r, "r0", "user=ann", T0), 960);
    reserve(r, "user=ann", 960, T0, &slip); /* all of them have that much left, */
    assert_true(slip.out.decision.allowed);
    reserve(r, "user=ann", 1, T0, &slip); /* and none has more */
    assert_false(slip.out.decision.allowed);
    ration_close(r);
}

/* --- across reloads and processes ---------------------------------------------------------------
 */

static void a_reload_that_keeps_the_rule_keeps_the_ticket(void **state)
{
    struct ration *r = open_rules(tokens);
    struct slip slip;

    (void)state;
    reserve(r, "user=ann", 400, T0, &slip);
    rules_at(r, tokens, T0);
    assert_int_equal(commit(r, &slip, 100, T0), 0);
    assert_int_equal(left_of(r, "minute", "user=ann", T0), 900);
    ration_close(r);
}

static void what_a_rule_that_is_gone_was_charged_is_burnt(void **state)
{
    struct ration *r = open_rules(tokens);
    struct slip both, one, kept;

    (void)state;
    reserve(r, "user=ann", 400, T0, &both);
    reserve(r, "user=ann", 100, T0, &one);
    reserve(r, "user=ann", 100, T0, &kept);
    rules_at(r, "limits:\n  - { name: minute, key: user, limit: 1000 per minute }\n", T0);
    assert_int_equal(refund(r, &one, T0), 0); /* one of its limits is still there */
    assert_int_equal(left_of(r, "minute", "user=ann", T0), 500);
    rules_at(r, "limits:\n  - { name: other, key: user, limit: 1000 per minute }\n", T0);
    assert_int_equal(refund(r, &both, T0), RATION_EGONE);
    assert_int_equal(refund(r, &both, T0), RATION_EALREADY);
    assert_int_equal(commit(r, &kept, 100, T0), 0); /* nothing to give back */
    rules_at(r, tokens, T0);
    assert_int_equal(left_of(r, "day", "user=ann", T0), 4400);
    ration_close(r);
}

static void a_smaller_limit_gets_back_the_share_that_was_charged(void **state)
{
    struct ration *r = open_rules("limits:\n  - { name: m, key: user, limit: 1000 per minute }\n");
    struct slip slip, rest;

    (void)state;
    reserve(r, "user=ann", 400, T0, &slip);
    reserve(r, "user=ann", 600, T0, &rest);
    rules_at(r, "limits:\n  - { name: m, key: user, limit: 10 per minute }\n", T0);
    assert_int_equal(left_of(r, "m", "user=ann", T0), 0);
    assert_int_equal(refund(r, &slip, T0), 0);
    assert_int_equal(left_of(r, "m", "user=ann", T0), 4);
    rules_at(r, "limits:\n  - { name: m, key: user, limit: 1000 per minute }\n", T0);
    assert_int_equal(left_of(r, "m", "user=ann", T0), 400);
    ration_close(r);
}

static void a_ticket_outlives_its_process(void **state)
{
    char path[] = "/tmp/ration-test-XXXXXX";
    struct slip slip, place;
    int64_t now_ns;

    (void)state;
    close(mkstemp(path));
    unlink(path);
    struct ration *r = open_file(path);

    now_ns = ration_now(r);
    rules_at(r,
             "limits:\n"
             "  - { name: m, key: user, limit: 1000 per hour }\n"
             "  - { name: c, key: user, limit: 3 concurrent }\n",
             now_ns);
    reserve(r, "user=ann", 1, now_ns, &slip);
    acquire(r, "user=ann", MINUTE, now_ns, &place);
    ration_close(r);

    r = open_file(path);
    rules_at(r,
             "limits:\n"
             "  - { name: m, key: user, limit: 1000 per hour }\n"
             "  - { name: c, key: user, limit: 3 concurrent }\n",
             now_ns);
    assert_int_equal(left_of(r, "m", "user=ann", now_ns), 998);
    assert_int_equal(left_of(r, "c", "user=ann", now_ns), 1);
    assert_int_equal(refund(r, &slip, now_ns), 0);
    assert_int_equal(refund(r, &slip, now_ns), RATION_EALREADY);
    assert_int_equal(release(r, &place, now_ns), 0);
    assert_int_equal(release(r, &place, now_ns), RATION_EGONE);
    assert_int_equal(left_of(r, "m", "user=ann", now_ns), 999);
    assert_int_equal(left_of(r, "c", "user=ann", now_ns), 3);
    ration_close(r);
    unlink(path);
}

static void of_two_who_share_the_file_one_settles(void **state)
{
    char path[] = "/tmp/ration-test-XXXXXX";
    struct slip slip;

    (void)state;
    close(mkstemp(path));
    unlink(path);
    struct ration *a = open_file(path), *b = open_file(path);
    int64_t now_ns = ration_now(a);

    rules_at(a, tokens, now_ns);
    rules_at(b, tokens, now_ns);
    reserve(a, "user=ann", 400, now_ns, &slip);
    assert_int_equal(commit(b, &slip, 100, now_ns), 0);
    assert_int_equal(refund(a, &slip, now_ns), RATION_EALREADY);
    assert_int_equal(left_of(a, "minute", "user=ann", now_ns), 900);
    ration_close(a);
    ration_close(b);
    unlink(path);
}

/* --- limits given with the call ------------------------------------------------------------------
 */

static const struct {
    const char *text;
    enum ration_algorithm algorithm;
} every_kind[] = {
    {"50 per minute", RATION_TOKEN_BUCKET},
    {"50 per minute burst 20", RATION_TOKEN_BUCKET},
    {"50 per minute in steps of 6s", RATION_TOKEN_BUCKET},
    {"7000000 per 3 seconds", RATION_TOKEN_BUCKET},
    {"50 per minute queue 30", RATION_LEAKY_BUCKET},
    {"50 per minute", RATION_FIXED_WINDOW},
    {"50 per minute", RATION_SLIDING_LOG},
    {"50 per minute", RATION_SLIDING_WINDOW},
};

static uint32_t random_up_to(uint64_t *seed, uint32_t n)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*seed >> 33) % n;
}

/* One step of a trace, by receipts and by tickets: their states stay equal. */
struct twins {
    struct ration *r;
    struct ration_limit limit;
    uint64_t seed;
    int64_t now_ns;
    struct {
        struct ration_charge c;
        uint64_t hold;
        char ticket[RATION_TICKET_SIZE];
    } open[8];
};

static struct ration_charge twin_charge(const struct twins *t, const char *key, uint64_t cost)
{
    return (struct ration_charge){
        .ad_hoc = &t->limit, .key = key, .key_len = strlen(key), .cost = cost};
}

static void open_both(struct twins *t, size_t at, uint64_t cost)
{
    struct ration_charge c = twin_charge(t, "by ticket", cost);
    struct ration_decision d;

    t->open[at].c = twin_charge(t, "by receipt", cost);
    t->open[at].hold = 0;
    assert_int_equal(ration_reserve_ticket(t->r, &c, MINUTE, t->now_ns, t->open[at].ticket), 0);
    assert_int_equal(
        ration_reserve(t->r, &t->open[at].c, 1, MINUTE, t->now_ns, &t->open[at].hold, &d), 0);
    assert_int_equal(d.allowed, c.verdict.allowed);
    assert_int_equal(t->open[at].ticket[0] != '\0', d.allowed);
}

static void settle_both(struct twins *t, size_t at)
{
    uint64_t cost = t->open[at].c.cost, kept = random_up_to(&t->seed, (uint32_t)cost + 1);
    const char *text = t->open[at].ticket;
    int code = ration_ticket_commit(t->r, text, strlen(text), false, kept, t->now_ns);

    if (t->open[at].hold == 0)
        assert_int_equal(code, RATION_EINVAL);
    else
        assert_int_equal(code == 0, ration_commit(t->r, t->open[at].hold, &t->open[at].c, 1, &kept,
                                                  t->now_ns) == 0);
}

static uint64_t left_under(const struct twins *t, const char *key)
{
    struct ration_charge c = twin_charge(t, key, 0);

    assert_int_equal(ration_peek(t->r, &c, t->now_ns), 0);
    return c.verdict.remaining;
}

static void tickets_settle_as_receipts_do(void **state)
{
    (void)state;
    for (size_t k = 0; k < COUNT(every_kind); k++) {
        struct twins *t = calloc(1, sizeof *t);

        assert_non_null(t);
        t->r = open_limits(NULL, 0);
        t->limit = with(named("", every_kind[k].text), every_kind[k].algorithm).limit;
        t->now_ns = T0;
        t->seed = k;
        for (size_t i = 0; i < COUNT(t->open); i++)
            open_both(t, i, 1);
        for (unsigned i = 0; i < 2000; i++) {
            size_t at = random_up_to(&t->seed, COUNT(t->open));

            t->now_ns += random_up_to(&t->seed, 2000) * (SECOND / 500);
            if (random_up_to(&t->seed, 2))
                open_both(t, at, 1 + random_up_to(&t->seed, 12));
            else
                settle_both(t, at);
            assert_int_equal(left_under(t, "by ticket"), left_under(t, "by receipt"));
        }
        ration_close(t->r);
        free(t);
    }
}

/* Whatever is reserved, settled, forgotten and reloaded: what is kept in all never
 * exceeds what the limit admits, a full bucket and its refill. */
static void settling_mints_nothing(void **state)
{
    static const char *const algorithms[] = {"token-bucket", "fixed-window", "sliding-log",
                                             "sliding-window"};
    enum { CAP = 50, STEPS = 3000, OPEN = 8 };
    static struct slip open[OPEN];
    static uint64_t costs[OPEN];

    (void)state;
    for (size_t k = 0; k < COUNT(algorithms); k++) {
        char rules[200];
        uint64_t seed = k, kept = 0;
        int64_t now_ns = T0;

        snprintf(rules, sizeof rules,
                 "limits:\n  - { name: m, key: user, limit: 50 per minute, algorithm: %s }\n",
                 algorithms[k]);
        struct ration *r = open_rules(rules);

        memset(open, 0, sizeof open);
        for (unsigned i = 0; i < STEPS; i++) {
            size_t at = random_up_to(&seed, OPEN);

            now_ns += random_up_to(&seed, 1500) * (SECOND / 1000);
            if (random_up_to(&seed, 50) == 0)
                rules_at(r, rules, now_ns);
            if (random_up_to(&seed, 2)) { /* what was there is forgotten */
                costs[at] = 1 + random_up_to(&seed, 12);
                reserve(r, "user=ann", costs[at], now_ns, &open[at]);
                kept += open[at].out.decision.allowed ? costs[at] : 0;
                continue;
            }
            uint64_t used = random_up_to(&seed, (uint32_t)costs[at] + 1);
            uint64_t before = left_of(r, "m", "user=ann", now_ns);
            bool settled = commit(r, &open[at], used, now_ns) == 0;
            uint64_t back = left_of(r, "m", "user=ann", now_ns) - before;

            assert_true(back <= (settled ? costs[at] - used : 0));
            kept -= back;
        }
        uint64_t windows = (uint64_t)((now_ns - T0) / MINUTE) + 2;

        assert_true(kept <= CAP * windows);
        assert_true(kept >= CAP * windows / 4); /* it was not idle, either */
        ration_close(r);
    }
}

static void a_limit_given_at_open_has_tickets_too(void **state)
{
    const struct ration_named limits[] = {named("api", "100 per minute")};
    struct ration *r = open_limits(limits, 1);
    struct ration_charge c = charge(0, "ann", 30);
    struct slip slip;

    (void)state;
    assert_int_equal(ration_reserve_ticket(r, &c, MINUTE, T0, slip.text), 0);
    assert_int_equal(commit(r, &slip, 10, T0), 0);
    assert_int_equal(left(r, 0, "ann", T0), 90);
    ration_close(r);
}

static void places_cannot_be_reserved_nor_rates_acquired(void **state)
{
    struct ration *r = open_limits(NULL, 0);
    struct ration_limit places = named("", "3 concurrent").limit;
    struct ration_limit rate = named("", "3 per minute").limit;
    struct ration_charge c = {.ad_hoc = &places, .key = "k", .key_len = 1, .cost = 1};
    char ticket[RATION_TICKET_SIZE];

    (void)state;
    assert_int_equal(ration_reserve_ticket(r, &c, MINUTE, T0, ticket), RATION_EINVAL);
    c.ad_hoc = &rate;
    assert_int_equal(ration_acquire_ticket(r, &c, 0, T0, ticket), RATION_EINVAL);
    c.ad_hoc = NULL;
    assert_int_equal(ration_reserve_ticket(r, &c, MINUTE, T0, ticket), RATION_EINVAL);
    assert_int_equal(ration_acquire_ticket(r, &c, 0, T0, ticket), RATION_EINVAL);
    ration_close(r);
}

/* --- what an operator has forgiven --------------------------------------------------- */

static void reset(struct ration *r, const char *words, int64_t now_ns)
{
    struct words w;

    split_words(&w, words);
    assert_int_equal(ration_state_reset(r, &w.request, NULL, 0, now_ns, NULL), 0);
}

static const char *const forgiving[] = {"token-bucket", "fixed-window", "sliding-window",
                                        "sliding-log"};

static struct ration *open_forgiving(const char *algorithm)
{
    char rules[200];

    snprintf(rules, sizeof rules,
             "limits: [{name: api, key: user, algorithm: %s, limit: 10 per hour}]", algorithm);
    return open_rules(rules);
}

static void what_was_reset_is_not_given_back_as_well(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(forgiving); i++) {
        struct ration *r = open_forgiving(forgiving[i]);
        struct slip slip, other;

        reserve(r, "user=ann", 8, T0, &slip);
        reserve(r, "user=bob", 8, T0, &other);
        reset(r, "user=ann", T0 + SECOND);
        assert_int_equal(admitted(r, "user=ann", 20, T0 + SECOND), 10);
        assert_int_equal(refund(r, &slip, T0 + SECOND), 0);
        assert_int_equal(admitted(r, "user=ann", 20, T0 + SECOND), 0);
        assert_int_equal(refund(r, &other, T0 + SECOND), 0); /* it was not his */
        assert_in_range(left_of(r, "api", "user=bob", T0 + SECOND), 9, 10);
        ration_close(r);
    }
}

static void what_was_charged_after_a_reset_is_given_back(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(forgiving); i++) {
        struct ration *r = open_forgiving(forgiving[i]);
        struct slip slip;

        reset(r, "user=ann", T0);
        reserve(r, "user=ann", 10, T0 + 1, &slip);
        assert_int_equal(refund(r, &slip, T0 + 1), 0);
        assert_int_equal(left_of(r, "api", "user=ann", T0 + 1), 10);
        ration_close(r);
    }
}

static void of_several_resets_the_last_one_counts(void **state)
{
    struct ration *r = open_forgiving("fixed-window");
    struct slip slip;

    (void)state;
    reset(r, "user=ann", T0);
    reserve(r, "user=ann", 4, T0 + SECOND, &slip);
    reset(r, "user=ann", T0 + 2 * SECOND);
    assert_int_equal(admitted(r, "user=ann", 4, T0 + 2 * SECOND), 4);
    assert_int_equal(commit(r, &slip, 1, T0 + 3 * SECOND), 0);
    assert_int_equal(left_of(r, "api", "user=ann", T0 + 3 * SECOND), 6);
    ration_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_not_used_comes_back),
        cmocka_unit_test(a_reservation_is_settled_once),
        cmocka_unit_test(after_its_time_the_charge_stands),
        cmocka_unit_test(more_than_was_reserved_cannot_be_committed),
        cmocka_unit_test(a_rule_with_a_cost_of_its_own_keeps_at_most_that),
        cmocka_unit_test(a_refusal_has_no_ticket_and_charges_nothing),
        cmocka_unit_test(without_a_rule_there_is_a_ticket_too),
        cmocka_unit_test(a_timeout_out_of_range_is_refused),
        cmocka_unit_test(no_letter_of_a_ticket_can_be_changed),
        cmocka_unit_test(a_ticket_that_was_cut_or_extended_is_worth_nothing),
        cmocka_unit_test(a_ticket_of_another_table_is_worth_nothing),
        cmocka_unit_test(a_ticket_serves_for_what_it_was_made),
        cmocka_unit_test(a_body_reads_back_as_it_was_written),
        cmocka_unit_test(as_many_limits_as_can_apply_fit_into_a_ticket),
        cmocka_unit_test(a_reload_that_keeps_the_rule_keeps_the_ticket),
        cmocka_unit_test(what_a_rule_that_is_gone_was_charged_is_burnt),
        cmocka_unit_test(a_smaller_limit_gets_back_the_share_that_was_charged),
        cmocka_unit_test(a_ticket_outlives_its_process),
        cmocka_unit_test(of_two_who_share_the_file_one_settles),
        cmocka_unit_test(tickets_settle_as_receipts_do),
        cmocka_unit_test(settling_mints_nothing),
        cmocka_unit_test(a_limit_given_at_open_has_tickets_too),
        cmocka_unit_test(places_cannot_be_reserved_nor_rates_acquired),
        cmocka_unit_test(what_was_reset_is_not_given_back_as_well),
        cmocka_unit_test(what_was_charged_after_a_reset_is_given_back),
        cmocka_unit_test(of_several_resets_the_last_one_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
