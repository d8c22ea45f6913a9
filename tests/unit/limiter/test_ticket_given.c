/* SPDX-License-Identifier: Apache-2.0 */
/* Tickets of limits that were given with the call. */
#include "ticket_fixture.h"

#include <stdio.h>
#include <stdlib.h>

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
    {"50 per calendar day", RATION_FIXED_WINDOW},
    {"50 per calendar week Europe/Rome", RATION_FIXED_WINDOW},
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tickets_settle_as_receipts_do),
        cmocka_unit_test(settling_mints_nothing),
        cmocka_unit_test(a_limit_given_at_open_has_tickets_too),
        cmocka_unit_test(places_cannot_be_reserved_nor_rates_acquired),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
