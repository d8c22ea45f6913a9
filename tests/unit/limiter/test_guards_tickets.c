/* SPDX-License-Identifier: Apache-2.0 */
/* Tickets and outcomes under rules whose tiers guard each other: what is settled
 * reaches the guards as ration_give_back does. */
#include "guards_fixture.h"
#include "ticket_fixture.h"

#define SLIPS 12

/* A rule of two tiers, of which pro is the larger; and what is written of each
 * tier besides. */
struct pair {
    const char *algorithm; /* and whatever the rule says besides */
    const char *free, *pro;
};

static const struct pair pairs[] = {
    {"algorithm: fixed-window", "10 per 10s", "81 per minute"},
    {"algorithm: fixed-window", "10 per 10s", "60 per minute"},
    {"algorithm: sliding-log", "10 per 10s", "72 per minute"},
    {"algorithm: sliding-window", "10 per 10s", "81 per minute"},
    {"algorithm: sliding-window, sub_windows: 6", "10 per 10s", "96 per minute"},
    {"mode: enforce", "10 per 10s in steps of 2s", "120 per minute burst 90 in steps of 20s"},
    {"mode: enforce", "2 per 4h burst 2", "20 per calendar day"},
};

/* Both tiers, or the one. */
static struct ration *open_pair(const struct pair *p, bool free, bool pro)
{
    char text[400];

    if (free && pro)
        snprintf(text, sizeof text,
                 "limits:\n  - { name: api, key: user, %s, "
                 "limit: { by: plan, free: %s, pro: %s, default: free } }\n",
                 p->algorithm, p->free, p->pro);
    else
        snprintf(text, sizeof text, "limits:\n  - { name: api, key: user, %s, limit: %s }\n",
                 p->algorithm, free ? p->free : p->pro);
    return open_rules(text);
}

static const struct rn_compiled *tier_limit(const struct ration *r, uint32_t tier)
{
    const struct rn_book *book = r->shelf.book;

    return &book->limits[book->ruleset->rules[0].tiers[tier].limits[0]->id];
}

/* ---- staying */

struct life {
    struct ration *r;
    struct slip slips[SLIPS];
};

static void begin(struct life *l, const char *words, uint64_t cost, size_t at, bool ticket,
                  int64_t now_ns)
{
    struct slip *slip = &l->slips[at];
    struct words w;

    *slip = (struct slip){.text = ""};
    stopped_at(l->r, now_ns);
    if (ticket) {
        reserve(l->r, words, cost, now_ns, slip);
        return;
    }
    split_words(&w, words);
    w.request.cost = cost;
    assert_int_equal(ration_decide(l->r, &w.request, now_ns, &slip->out), 0);
}

/* Gives back what a ticket, else what a plain outcome says. */
static int settle(struct life *l, size_t at, uint64_t used, int64_t now_ns)
{
    struct slip *slip = &l->slips[at];

    stopped_at(l->r, now_ns);
    if (slip->text[0] == '\0') {
        int code = ration_outcome_give_back(l->r, &slip->out, now_ns);

        slip->out.receipt_count = 0;
        return code;
    }
    return used == 0 ? refund(l->r, slip, now_ns) : commit(l->r, slip, used, now_ns);
}

/* The same life with the other tier and without. */
static void stay_with(const struct pair *p, bool pro, int steps)
{
    struct life with_others = {.r = open_pair(p, true, true)};
    struct life no_server = {.r = open_pair(p, !pro, pro)};
    const char *words = pro ? "user=ann plan=pro" : "user=ann plan=free";
    struct client c = new_client(pro);

    for (int i = 0; i < steps; i++) {
        size_t at = below(&c, SLIPS);
        uint64_t cost = 1 + (below(&c, 3) ? below(&c, 3) : below(&c, 12)), used = below(&c, 2);
        bool ticket = below(&c, 2);

        rest(&c);
        if (below(&c, 3) == 0) {
            assert_int_equal(settle(&with_others, at, used, c.now_ns),
                             settle(&no_server, at, used, c.now_ns));
            continue;
        }
        begin(&with_others, words, cost, at, ticket, c.now_ns);
        begin(&no_server, words, cost, at, ticket, c.now_ns);
        const struct ration_verdict *got = &with_others.slips[at].out.decision.verdict;
        const struct ration_verdict *wanted = &no_server.slips[at].out.decision.verdict;

        if (got->allowed != wanted->allowed)
            fail_msg("step %d: %s is not what it is alone", i, pro ? p->pro : p->free);
        assert_same(got, wanted);
        c.retry_ns = wanted->retry_after_ns == RATION_NEVER ? 0 : wanted->retry_after_ns;
    }
    ration_close(with_others.r);
    ration_close(no_server.r);
}

static void a_client_that_settles_and_stays_never_notices_the_other_tier(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(pairs); i++) {
        stay_with(&pairs[i], false, STEPS(60000));
        stay_with(&pairs[i], true, STEPS(6000));
    }
}

/* ---- moving */

/* Those that the model can undo. */
static bool counts_charges(const struct rn_compiled *l)
{
    return l->limit.algorithm != RATION_TOKEN_BUCKET && !l->limit.calendar;
}

static struct ration_limit spec_of(const struct ration *r, uint32_t tier)
{
    return r->shelf.book->ruleset->rules[0].tiers[tier].limits[0]->spec;
}

/* Mostly the smaller, most of which comes back; then the larger, at once. */
static void settle_then_move(const struct pair *p)
{
    struct life l = {.r = open_pair(p, true, true)};
    struct ration_limit larger = spec_of(l.r, 1);
    char words[64];

    assert_true(tier_limit(l.r, 0)->guard_count == 1);
    for (unsigned number = 0; number < 6 && counts_charges(tier_limit(l.r, 1)); number++) {
        struct client c = new_client(number);
        struct model m;

        model_init(&m, &larger);
        for (int i = 0; i < STEPS(2000); i++) {
            bool rush = i % 50 > 44;
            size_t n = 0;

            rest(&c);
            snprintf(words, sizeof words, "user=%s plan=%s", c.key, rush ? "pro" : "free");
            for (; n < SLIPS; n++) {
                begin(&l, words, 1, n, below(&c, 2), c.now_ns);
                if (!l.slips[n].out.decision.allowed)
                    break;
                judge(&m, &c, 1, NULL, 0);
            }
            for (size_t k = 0; k < n && !rush; k++)
                if (below(&c, 4)) {
                    assert_int_equal(settle(&l, k, 0, c.now_ns), 0);
                    model_give_back(&m, m.charge_count - (n - k), 1);
                }
        }
        model_done(&m);
    }
    ration_close(l.r);
}

static void settling_and_moving_mints_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(pairs); i++)
        settle_then_move(&pairs[i]);
}

/* What came back to free is free for pro as well, as far as that is known. */
static void what_comes_back_is_free_for_the_larger_tier(void **state)
{
    (void)state;
    for (size_t i = 2; i <= 4; i++) {
        struct life l = {.r = open_pair(&pairs[i], true, true)};
        uint64_t full = left_of(l.r, "api", "user=ann plan=pro", stopped_at(l.r, T0));

        begin(&l, "user=ann plan=free", 4, 0, true, T0);
        begin(&l, "user=ann plan=free", 3, 1, false, T0);
        assert_int_equal(left_of(l.r, "api", "user=ann plan=pro", T0), full - 7);
        assert_int_equal(settle(&l, 0, 1, stopped_at(l.r, T0 + SECOND)), 0);
        assert_int_equal(left_of(l.r, "api", "user=ann plan=pro", T0 + SECOND), full - 4);
        assert_int_equal(settle(&l, 1, 0, T0 + SECOND), 0);
        assert_int_equal(left_of(l.r, "api", "user=ann plan=pro", T0 + SECOND), full - 1);
        ration_close(l.r);
    }
}

/* Windows that end at another time for each client give back at any time. */
static void clients_that_are_spread_get_all_back(void **state)
{
    struct ration *r = open_rules("limits:\n  - { name: api, key: user, spread: 6h, "
                                  "limit: { by: plan, free: 10 per calendar day, "
                                  "pro: 400 per calendar month, default: free } }\n");
    char words[32];

    (void)state;
    for (unsigned number = 0; number < 200; number++) {
        struct client c = new_client(number);
        struct slip slip;
        uint64_t before;

        snprintf(words, sizeof words, "user=%u", number);
        stopped_at(r, c.now_ns);
        admitted(r, words, 2, c.now_ns);
        before = left_of(r, "api", words, c.now_ns);
        reserve(r, words, 4, c.now_ns, &slip);
        assert_int_equal(left_of(r, "api", words, c.now_ns), before - 4);
        assert_int_equal(refund(r, &slip, c.now_ns), 0);
        assert_int_equal(left_of(r, "api", words, c.now_ns), before);
    }
    ration_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_client_that_settles_and_stays_never_notices_the_other_tier),
        cmocka_unit_test(settling_and_moving_mints_nothing),
        cmocka_unit_test(what_comes_back_is_free_for_the_larger_tier),
        cmocka_unit_test(clients_that_are_spread_get_all_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
