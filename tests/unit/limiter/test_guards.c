/* SPDX-License-Identifier: Apache-2.0 */
/* Variants of which one is the larger: however a client moves between them, the
 * naive model of the larger admits all it got; and a client that stays with one
 * never notices the others. */
#include "rules_fixture.h"

#include <stdio.h>

#include "core/envelope.h"
#include "model/model.h"

/* ---- limits, small and large */

static struct ration_named small_one(unsigned i)
{
    static const char *const texts[] = {"10 per 10s", "10 per 10s burst 4", "10 per 10s queue 7",
                                        "10 per 10s in steps of 2s", "20 per 20s"};
    struct ration_named n = named("v", i < COUNT(texts) ? texts[i] : texts[0]);

    switch (i) {
    case 5:
        return with(n, RATION_FIXED_WINDOW);
    case 6:
        n.limit.from_first = true;
        return with(n, RATION_FIXED_WINDOW);
    case 7:
        return with(n, RATION_SLIDING_LOG);
    case 8:
        return with(n, RATION_SLIDING_WINDOW);
    case 9:
        n.limit.sub_windows = 5;
        return with(n, RATION_SLIDING_WINDOW);
    default:
        return n;
    }
}

#define SMALL 10

/* Some have just the room that they need for those above, some have more. */
static struct ration_named large_one(unsigned i)
{
    struct ration_named n = named("v", "81 per minute");

    switch (i) {
    case 0:
        return named("v", "66 per minute burst 20");
    case 1:
        return named("v", "120 per minute burst 90 in steps of 20s");
    case 2:
        return named("v", "90 per minute queue 24");
    case 3:
        return with(n, RATION_FIXED_WINDOW);
    case 4:
        return with(n, RATION_SLIDING_LOG);
    case 5:
        return with(n, RATION_SLIDING_WINDOW);
    case 6:
        n = named("v", "90 per minute");
        n.limit.sub_windows = 6;
        return with(n, RATION_SLIDING_WINDOW);
    default:
        return with(named("v", "60 per minute"), RATION_FIXED_WINDOW); /* of fixed ones only */
    }
}

#define LARGE 8

static bool covers(const struct ration_limit *large, const struct ration_limit *small)
{
    struct rn_limit a, b;

    rn_limit_init(&a, large);
    rn_limit_init(&b, small);
    return rn_envelope_settles_ns(&a, &b) != RN_NEVER;
}

static void for_each_pair(void (*see)(const struct ration_named *pair))
{
    unsigned seen = 0;

    for (unsigned s = 0; s < SMALL; s++)
        for (unsigned l = 0; l < LARGE; l++) {
            const struct ration_named pair[] = {small_one(s), large_one(l)};

            if (!covers(&pair[1].limit, &pair[0].limit))
                continue;
            assert_false(covers(&pair[0].limit, &pair[1].limit));
            see(pair);
            seen++;
        }
    assert_true(seen >= SMALL * (LARGE - 1));
}

static void describe(const struct ration_named *n, char *out, size_t size)
{
    snprintf(out, size, "%s: %u per %u s, burst %u, queue %u, steps %u, subs %u%s",
             ration_algorithm_name(n->limit.algorithm), (unsigned)n->limit.amount,
             (unsigned)(n->limit.period_ns / SECOND), (unsigned)n->limit.burst,
             (unsigned)n->limit.queue, (unsigned)(n->limit.step_ns / SECOND), n->limit.sub_windows,
             n->limit.from_first ? ", from first" : "");
}

/* ---- a client with its own random numbers and clock */

struct client {
    uint64_t random;
    int64_t now_ns, retry_ns;
    char key[16];
};

static uint64_t below(struct client *c, uint64_t n)
{
    c->random ^= c->random << 13;
    c->random ^= c->random >> 7;
    c->random ^= c->random << 17;
    return (c->random >> 11) % n;
}

static struct client new_client(unsigned number)
{
    struct client c = {.random = UINT64_C(88172645463325252) + number * UINT64_C(7777777777777)};

    c.now_ns = T0 + (int64_t)below(&c, (uint64_t)MINUTE);
    snprintf(c.key, sizeof c.key, "%u", number);
    return c;
}

/* Rests for any interesting time: mostly none, often to an edge of a window or
 * until it was told to try again, at times until all is forgotten. */
static void rest(struct client *c)
{
    int64_t grid = below(c, 2) ? 10 * SECOND : MINUTE;

    switch (below(c, 16)) {
    case 0:
        c->now_ns += (int64_t)below(c, (uint64_t)(5 * MINUTE));
        break;
    case 1:
        c->now_ns += (int64_t)below(c, (uint64_t)(30 * SECOND));
        break;
    case 2:
    case 3:
        c->now_ns += (int64_t)below(c, (uint64_t)(2 * SECOND));
        break;
    case 4:
    case 5:
        c->now_ns += grid - c->now_ns % grid - (int64_t)below(c, 2);
        break;
    case 6:
    case 7:
    case 8:
        c->now_ns += c->retry_ns;
        break;
    default:
        break;
    }
    c->retry_ns = 0;
}

/* ---- moving to and fro */

/* Looks, takes, and holds the limiter to what it says: what a look admits, a take
 * does; a refused one may be had after its wait; as much is left as is said. */
static bool take_as_told(struct ration *r, struct client *c, uint32_t limit, uint64_t cost)
{
    struct ration_charge look = charge(limit, c->key, cost), got = look, next;

    assert_int_equal(ration_peek(r, &look, stopped_at(r, c->now_ns)), 0);
    assert_int_equal(ration_take(r, &got, stopped_at(r, c->now_ns)), 0);
    assert_int_equal(look.verdict.allowed, got.verdict.allowed);
    assert_int_equal(look.verdict.retry_after_ns, got.verdict.retry_after_ns);
    if (!got.verdict.allowed && got.verdict.retry_after_ns != RATION_NEVER) {
        assert_true(got.verdict.retry_after_ns > 0);
        c->retry_ns = got.verdict.retry_after_ns;
        next = charge(limit, c->key, cost);
        assert_int_equal(ration_peek(r, &next, stopped_at(r, c->now_ns + c->retry_ns)), 0);
        assert_true(next.verdict.allowed);
    }
    next = charge(limit, c->key, got.verdict.remaining);
    assert_int_equal(ration_peek(r, &next, stopped_at(r, c->now_ns)), 0);
    assert_true(next.verdict.allowed);
    assert_int_equal(next.verdict.remaining, got.verdict.remaining);
    next.cost++;
    assert_int_equal(ration_peek(r, &next, stopped_at(r, c->now_ns)), 0);
    assert_false(next.verdict.allowed);
    return got.verdict.allowed;
}

static void judge(struct model *m, const struct client *c, uint64_t cost,
                  const struct ration_named *limits, size_t n)
{
    char text[4][200] = {""};

    model_tick(m, c->now_ns);
    for (size_t i = 0; i < n; i++)
        describe(&limits[i], text[i], sizeof text[i]);
    if (!model_fits(m, cost))
        fail_msg("client %s: %u too many at %lld ns of (%s) (%s) (%s) (%s)", c->key, (unsigned)cost,
                 (long long)(c->now_ns - T0), text[0], text[1], text[2], text[3]);
    model_take(m, cost, 0);
}

/* Each client has a habit: any variant at any time; all it can get of one, then
 * of the other; long stays with one. */
static uint32_t choose(struct client *c, unsigned habit, uint32_t last, uint32_t n)
{
    if (habit == 0)
        return (uint32_t)below(c, n);
    if (habit == 1)
        return (last + 1) % n;
    return below(c, 40) == 0 ? (uint32_t)below(c, n) : last;
}

/* `n` variants, of which the last one is the larger. */
static void flap(const struct ration_named *limits, uint32_t n, const uint32_t *used,
                 uint32_t used_count, int steps)
{
    struct ration *r = open_limits(limits, n);

    for (unsigned number = 0; number < 9; number++) {
        struct client c = new_client(number);
        uint32_t at = 0;
        struct model m;

        model_init(&m, &limits[used[used_count - 1]].limit);
        for (int i = 0; i < steps; i++) {
            uint64_t cost = below(&c, 4) ? 1 : 1 + below(&c, 12);

            rest(&c);
            at = choose(&c, number % 3, at, used_count);
            for (int again = 0; again < 30; again++) {
                if (!take_as_told(r, &c, used[at], cost))
                    break;
                judge(&m, &c, cost, limits, n);
                cost = number % 2 ? 1 : cost; /* drain it */
            }
        }
        model_done(&m);
    }
    ration_close(r);
}

static void flap_pair(const struct ration_named *pair)
{
    flap(pair, 2, (const uint32_t[]){0, 1}, 2, 120);
}

static void moving_to_and_fro_admits_no_more_than_the_larger(void **state)
{
    (void)state;
    for_each_pair(flap_pair);
}

static void of_three_the_largest_in_use_is_not_exceeded(void **state)
{
    const struct ration_named limits[] = {
        with(named("v", "10 per 10s"), RATION_FIXED_WINDOW),
        with(named("v", "90 per minute"), RATION_SLIDING_LOG),
        named("v", "120 per minute burst 100"),
    };

    (void)state;
    assert_true(covers(&limits[1].limit, &limits[0].limit));
    assert_true(covers(&limits[2].limit, &limits[1].limit));
    flap(limits, 3, (const uint32_t[]){0, 1}, 2, 300);
    flap(limits, 3, (const uint32_t[]){0, 2}, 2, 300);
    flap(limits, 3, (const uint32_t[]){1, 2}, 2, 300);
    flap(limits, 3, (const uint32_t[]){0, 1, 2}, 3, 300);
}

/* Two of one shape, and one that covers only the smaller of them: a client that
 * uses all but the one that it does not cover is held to it. */
static void a_guard_counts_by_the_smallest_that_covers(void **state)
{
    const struct ration_named limits[] = {
        with(named("v", "10 per 10s"), RATION_FIXED_WINDOW),
        with(named("v", "100 per minute"), RATION_SLIDING_LOG),
        with(named("v", "5000 per minute"), RATION_SLIDING_LOG), /* of one shape */
        with(named("v", "500 per 10s"), RATION_FIXED_WINDOW),    /* and so are these */
    };

    (void)state;
    flap(limits, 4, (const uint32_t[]){0, 1}, 2, 300);
    flap(limits, 4, (const uint32_t[]){0, 3, 2}, 3, 100);
}

/* ---- staying */

#define RECEIPTS 16

struct stay {
    struct ration *r;
    struct ration_charge receipts[RECEIPTS];
    uint64_t holds[RECEIPTS]; /* 0: not reserved */
};

static void take_or_reserve(struct stay *s, const struct client *c, uint32_t limit, uint64_t cost,
                            size_t slot, bool reserve, int64_t timeout_ns)
{
    struct ration_decision d;

    s->receipts[slot] = charge(limit, c->key, cost);
    s->holds[slot] = 0;
    if (!reserve)
        assert_int_equal(ration_take(s->r, &s->receipts[slot], stopped_at(s->r, c->now_ns)), 0);
    else
        assert_int_equal(ration_reserve(s->r, &s->receipts[slot], 1, timeout_ns,
                                        stopped_at(s->r, c->now_ns), &s->holds[slot], &d),
                         0);
}

static int settle(struct stay *s, const struct client *c, size_t slot, uint64_t used)
{
    struct ration_charge *receipt = &s->receipts[slot];

    if (s->holds[slot] == 0)
        return ration_give_back(s->r, receipt, stopped_at(s->r, c->now_ns));
    used = used < receipt->taken ? used : receipt->taken;
    if (used == 0)
        return ration_refund(s->r, s->holds[slot], receipt, 1, stopped_at(s->r, c->now_ns));
    return ration_commit(s->r, s->holds[slot], receipt, 1, &used, stopped_at(s->r, c->now_ns));
}

static void assert_same(const struct ration_verdict *a, const struct ration_verdict *b)
{
    assert_int_equal(a->allowed, b->allowed);
    assert_int_equal(a->limit, b->limit);
    assert_int_equal(a->remaining, b->remaining);
    assert_int_equal(a->retry_after_ns, b->retry_after_ns);
    assert_int_equal(a->reset_after_ns, b->reset_after_ns);
    assert_int_equal(a->delay_ns, b->delay_ns);
}

/* The same life with variants and without. */
static void stay_with(const struct ration_named *pair, uint32_t which, int steps)
{
    struct stay with_others = {.r = open_limits(pair, 2)};
    struct stay alone = {.r = open_limits(&pair[which], 1)};
    struct client c = new_client(which + 100);
    char text[200];

    describe(&pair[which], text, sizeof text);
    for (int i = 0; i < steps; i++) {
        size_t slot = below(&c, RECEIPTS);
        uint64_t cost = below(&c, 3) ? below(&c, 4) : below(&c, 14);

        rest(&c);
        if (below(&c, 3) == 0) {
            uint64_t used = below(&c, 3);
            int code = settle(&with_others, &c, slot, used);

            assert_int_equal(code, settle(&alone, &c, slot, used));
            continue;
        }
        bool reserve = below(&c, 2);
        int64_t timeout_ns = SECOND / 100 + (int64_t)below(&c, (uint64_t)MINUTE);

        take_or_reserve(&with_others, &c, which, cost, slot, reserve, timeout_ns);
        take_or_reserve(&alone, &c, 0, cost, slot, reserve, timeout_ns);
        if (with_others.receipts[slot].verdict.allowed != alone.receipts[slot].verdict.allowed)
            fail_msg("step %d: %s is not what it is alone", i, text);
        assert_same(&with_others.receipts[slot].verdict, &alone.receipts[slot].verdict);
        c.retry_ns = alone.receipts[slot].verdict.retry_after_ns;
        c.retry_ns = c.retry_ns == RATION_NEVER ? 0 : c.retry_ns;
    }
    ration_close(with_others.r);
    ration_close(alone.r);
}

static void stay_with_either(const struct ration_named *pair)
{
    stay_with(pair, 0, 100000);
    stay_with(pair, 1, 10000);
}

static void a_client_that_stays_never_notices_the_other(void **state)
{
    (void)state;
    for_each_pair(stay_with_either);
}

/* What was given back is free again for the larger, too; and what was not,
 * is not: the room of a guard is not lost to charges that were given back. */
static void give_back_then_move(const struct ration_named *pair)
{
    struct ration *r = open_limits(pair, 2);
    struct ration_charge receipts[64];
    struct model m;

    if (pair[1].limit.algorithm == RATION_TOKEN_BUCKET ||
        pair[1].limit.algorithm == RATION_LEAKY_BUCKET) {
        ration_close(r);
        return; /* the model keeps no charges of these */
    }
    for (unsigned number = 0; number < 6; number++) {
        struct client c = new_client(number);

        model_init(&m, &pair[1].limit);
        for (int i = 0; i < 600; i++) {
            /* Mostly the smaller, most of which comes back; then the larger, at once. */
            bool rush = i % 50 > 44;
            int n = 0;

            rest(&c);
            for (; n < 40; n++) {
                receipts[n] = charge(rush, c.key, 1);
                assert_int_equal(ration_take(r, &receipts[n], stopped_at(r, c.now_ns)), 0);
                if (!receipts[n].verdict.allowed)
                    break;
                judge(&m, &c, 1, pair, 2);
            }
            for (int k = 0; k < n && !rush; k++)
                if (below(&c, 4)) {
                    assert_int_equal(ration_give_back(r, &receipts[k], stopped_at(r, c.now_ns)), 0);
                    model_give_back(&m, m.charge_count - (size_t)(n - k), 1);
                }
        }
        model_done(&m);
    }
    ration_close(r);
}

static void giving_back_and_moving_mints_nothing(void **state)
{
    (void)state;
    for_each_pair(give_back_then_move);
}

/* ---- what a guard does and does not do */

static void a_guard_refuses_and_nothing_has_changed(void **state)
{
    const struct ration_named limits[] = {
        with(named("v", "10 per 10s"), RATION_FIXED_WINDOW),
        with(named("v", "90 per minute"), RATION_SLIDING_LOG),
    };
    struct ration *r = open_limits(limits, 2);
    struct ration_charge before[2], after[2];
    int64_t t = T0 + 10 * SECOND;

    (void)state;
    for (int i = 0; i < 100; i++)
        take(r, 1, "k", 1, stopped_at(r, T0));
    for (uint32_t i = 0; i < 2; i++) {
        before[i] = charge(i, "k", 1);
        assert_int_equal(ration_peek(r, &before[i], stopped_at(r, t)), 0);
    }
    assert_false(take(r, 0, "k", 1, stopped_at(r, t))); /* its own window has ended */
    assert_false(before[0].verdict.allowed);
    assert_int_equal(before[0].verdict.remaining, 0);
    assert_int_equal(before[0].verdict.retry_after_ns, before[1].verdict.retry_after_ns);
    for (uint32_t i = 0; i < 2; i++) {
        after[i] = charge(i, "k", 1);
        assert_int_equal(ration_peek(r, &after[i], stopped_at(r, t)), 0);
        assert_same(&after[i].verdict, &before[i].verdict);
    }
    assert_true(take(r, 0, "k", 1, stopped_at(r, t + before[0].verdict.retry_after_ns)));
    ration_close(r);
}

/* The larger is not exceeded, so it was not in the way of the client that moved. */
static void a_client_that_moved_is_soon_on_its_own(void **state)
{
    const struct ration_named limits[] = {
        with(named("v", "10 per 10s"), RATION_FIXED_WINDOW),
        named("v", "120 per minute burst 100"),
    };
    struct ration *r = open_limits(limits, 2);
    struct ration_charge c;

    (void)state;
    take(r, 1, "k", 100, stopped_at(r, T0));
    assert_false(take(r, 0, "k", 1, stopped_at(r, T0 + 10 * SECOND - SECOND / 2)));
    assert_int_equal(left(r, 0, "k", stopped_at(r, T0 + 10 * SECOND)), 10); /* 20 have come back */
    for (int64_t t = T0 + MINUTE; t < T0 + 10 * MINUTE; t += 10 * SECOND)
        for (int i = 0; i < 10; i++)
            assert_true(take(r, 0, "k", 1, stopped_at(r, t)));
    c = charge(0, "k", 1);
    assert_int_equal(ration_reset(r, &c, stopped_at(r, T0 + 10 * MINUTE)), 0);
    take(r, 1, "k", 100, stopped_at(r, T0 + 10 * MINUTE));
    assert_int_equal(ration_reset(r, &c, stopped_at(r, T0 + 10 * MINUTE)), 0);
    assert_int_equal(left(r, 0, "k", stopped_at(r, T0 + 10 * MINUTE)), 10);
    assert_int_equal(left(r, 1, "k", stopped_at(r, T0 + 10 * MINUTE)), 100);
    ration_close(r);
}

static void a_shadow_limit_guards_nobody_and_is_not_guarded(void **state)
{
    (void)state;
    for (uint32_t shadow = 0; shadow < 2; shadow++) {
        struct ration_named limits[] = {
            with(named("v", "10 per 10s"), RATION_FIXED_WINDOW),
            with(named("v", "90 per minute"), RATION_SLIDING_LOG),
        };

        limits[shadow].flags = RATION_SHADOW;
        struct ration *r = open_limits(limits, 2);
        struct ration_charge c = charge(0, "k", 1);

        for (int i = 0; i < 100; i++)
            take(r, 1, "k", 1, stopped_at(r, T0));
        assert_int_equal(ration_take(r, &c, stopped_at(r, T0 + 10 * SECOND)), 0);
        assert_true(c.verdict.allowed);
        ration_close(r);
    }
}

static void a_peek_leaves_a_receipt_alone(void **state)
{
    const struct ration_named limits[] = {
        with(named("v", "10 per 10s"), RATION_FIXED_WINDOW),
        with(named("v", "90 per minute"), RATION_SLIDING_LOG),
    };
    struct ration *r = open_limits(limits, 2);
    struct ration_charge c = charge(0, "k", 4);

    (void)state;
    assert_int_equal(ration_take(r, &c, stopped_at(r, T0)), 0);
    assert_int_equal(ration_peek(r, &c, stopped_at(r, T0)), 0);
    assert_int_equal(ration_give_back(r, &c, stopped_at(r, T0)), 0);
    assert_int_equal(left(r, 0, "k", stopped_at(r, T0)), 10);
    assert_int_equal(left(r, 1, "k", stopped_at(r, T0)), 90);
    ration_close(r);
}

/* ---- rules */

struct plans {
    const char *rules;
    const char *plan[3];
    uint32_t count;
    struct ration_limit larger;
};

static void flap_plans(const struct plans *p)
{
    struct ration *r = open_rules(p->rules);
    char words[64];

    for (unsigned number = 0; number < 6; number++) {
        struct client c = new_client(number);
        uint32_t at = 0;
        struct model m;

        model_init(&m, &p->larger);
        for (int i = 0; i < 800; i++) {
            rest(&c);
            at = choose(&c, number % 3, at, p->count);
            snprintf(words, sizeof words, "user=%s plan=%s", c.key, p->plan[at]);
            for (int again = 0; again < 30; again++) {
                bool fits = look(r, words, stopped_at(r, c.now_ns)).decision.allowed;
                struct ration_outcome out = decide(r, words, stopped_at(r, c.now_ns));

                assert_int_equal(fits, out.decision.allowed);
                c.retry_ns = out.decision.verdict.retry_after_ns;
                if (!out.decision.allowed)
                    break;
                judge(&m, &c, 1, NULL, 0);
            }
        }
        model_done(&m);
    }
    ration_close(r);
}

#define RULE(algorithm, tiers)                                                                     \
    "limits:\n  - name: api\n    key: user\n    algorithm: " algorithm                             \
    "\n    limit:\n      by: plan\n" tiers "      default: free\n"

static void tiers_admit_no_more_than_the_largest_in_use(void **state)
{
    static const char windows[] = RULE("fixed-window", "      free: 10 per 10s\n"
                                                       "      basic: 100 per 70s\n"
                                                       "      day: 800 per calendar day\n"
                                                       "      slow: 20 per hour\n");
    static const char logs[] = RULE("sliding-log", "      free: 10 per 10s\n"
                                                   "      basic: 75 per 61s\n"
                                                   "      pro: 200 per 70s\n");
    static const char lists[] = RULE("sliding-log", "      free: [10 per 10s, 40 per 100s]\n"
                                                    "      basic: 75 per 61s\n");
    static const char places[] =
        RULE("sliding-log", "      free: 10 per 10s\n"
                            "      basic: [9999 concurrent, 75 per 61s]\n");
    const struct ration_limit log = with(named("v", "75 per 61s"), RATION_SLIDING_LOG).limit;
    const struct plans cases[] = {
        {windows, {"free", "basic"}, 2, with(named("v", "100 per 70s"), RATION_FIXED_WINDOW).limit},
        {windows, {"slow", "day"}, 2, with(named("v", "800 per 24h"), RATION_FIXED_WINDOW).limit},
        {logs, {"free", "basic"}, 2, log},
        {logs,
         {"free", "basic", "pro"},
         3,
         with(named("v", "200 per 70s"), RATION_SLIDING_LOG).limit},
        {lists, {"free", "basic"}, 2, log},
        {places, {"free", "basic"}, 2, log},
    };

    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++)
        flap_plans(&cases[i]);
}

/* A client that is with a changed limit from now on has not forgotten the larger. */
static void a_reload_leaves_nobody_unguarded(void **state)
{
    struct ration *r = open_rules(RULE("fixed-window", "      free: 10 per 10s\n"
                                                       "      pro: 100 per minute\n"));

    (void)state;
    assert_int_equal(admitted(r, "user=ann plan=pro", 200, stopped_at(r, T0)), 100);
    assert_int_equal(admitted(r, "user=bob plan=pro", 1, stopped_at(r, T0)), 1);
    assert_int_equal(admitted(r, "user=bob plan=free", 1, stopped_at(r, T0)), 1);
    rules_at(r,
             RULE("fixed-window", "      free: 5 per 5s\n"
                                  "      pro: 100 per minute\n"),
             T0);
    assert_int_equal(admitted(r, "user=bob plan=free", 200, stopped_at(r, T0)), 4); /* 2 of 10 */
    assert_int_equal(admitted(r, "user=ann plan=free", 200, stopped_at(r, T0)), 0);
    assert_int_equal(admitted(r, "user=ann plan=free", 200, stopped_at(r, T0 + 50 * SECOND)), 0);
    assert_int_equal(admitted(r, "user=ann plan=free", 200, stopped_at(r, T0 + MINUTE)), 5);
    ration_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moving_to_and_fro_admits_no_more_than_the_larger),
        cmocka_unit_test(of_three_the_largest_in_use_is_not_exceeded),
        cmocka_unit_test(a_guard_counts_by_the_smallest_that_covers),
        cmocka_unit_test(a_client_that_stays_never_notices_the_other),
        cmocka_unit_test(giving_back_and_moving_mints_nothing),
        cmocka_unit_test(a_guard_refuses_and_nothing_has_changed),
        cmocka_unit_test(a_client_that_moved_is_soon_on_its_own),
        cmocka_unit_test(a_shadow_limit_guards_nobody_and_is_not_guarded),
        cmocka_unit_test(a_peek_leaves_a_receipt_alone),
        cmocka_unit_test(tiers_admit_no_more_than_the_largest_in_use),
        cmocka_unit_test(a_reload_leaves_nobody_unguarded),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
