/* SPDX-License-Identifier: Apache-2.0 */
/* Overrides that come and go while time passes, judged by the naive model: of the
 * rule's limit where that is the larger, else of each by itself. */
#include "clients_fixture.h"
#include "guards_fixture.h"
#include "ticket_fixture.h"

/* A client has one limit or the other. */
struct change {
    const char *algorithm, *limit; /* of the rule */
    const char *plan;              /* the tier that the client is with */
    const char *instead;
};

#define TIERS "{ by: plan, free: 10 per 10s, pro: 90 per minute, gold: 200 per 70s, default: free }"

/* The rule's is the larger. */
static const struct change smaller[] = {
    {"fixed-window", "81 per minute", "free", "10 per 10s"},
    {"fixed-window", "60 per minute", "free", "10 per 10s"},
    {"fixed-window", "81 per minute", "free", "10 per 10s burst 4"},
    {"fixed-window", "81 per minute", "free", "10 per 10s queue 7"},
    {"sliding-log", "72 per minute", "free", "10 per 10s"},
    {"sliding-log", "72 per minute", "free", "10 per 10s burst 4"},
    {"sliding-log", "75 per minute", "free", "10 per 10s in steps of 2s"},
    {"sliding-window", "81 per minute", "free", "10 per 10s"},
    {"token-bucket", "90 per minute burst 40", "free", "10 per 10s"},
    {"token-bucket", "90 per minute burst 40", "free", "10 per 10s queue 7"},
    {"sliding-log", TIERS, "pro", "10 per 11s"},
    {"sliding-log", TIERS, "gold", "10 per 11s"},
    {"sliding-log", TIERS, "gold", "90 per 61s"},
};

/* The override's is the larger, or neither. */
static const struct change larger[] = {
    {"fixed-window", "10 per 10s", "free", "81 per minute"},
    {"fixed-window", "10 per 10s", "free", "120 per minute burst 30"},
    {"sliding-log", "10 per 10s", "free", "72 per minute"},
    {"sliding-window", "10 per 10s", "free", "81 per minute"},
    {"sliding-log", "30 per minute", "free", "10 per 10s"},
    {"sliding-log", TIERS, "free", "300 per 80s"},
    {"sliding-log", TIERS, "free", "20 per 15s"},
};

static struct ration *open_change(const struct change *c)
{
    char text[300];

    snprintf(text, sizeof text, "limits:\n  - { name: a, key: user, algorithm: %s, limit: %s }\n",
             c->algorithm, c->limit);
    return open_rules(text);
}

static void set_at(struct ration *r, const char *words, const char *limit, int64_t now_ns)
{
    struct words w;
    struct ration_override o = override_of("a", &w, words, limit);
    struct ration_error error;

    if (rn_clients_set(r, &o, false, now_ns, &error) != 0)
        fail_msg("%s", error.text);
}

/* As the client has it now. */
static struct ration_limit spec_of(struct ration *r, const char *words, bool instead)
{
    const struct rn_book *book = r->shelf.book;
    uint64_t limit = look(r, words, T0).decision.verdict.limit, at = 0;
    const struct rn_override *o =
        instead ? rn_map_next(&rn_book_client_index(book)->overrides, &at) : NULL;

    for (uint32_t t = 0; t < book->ruleset->rules[0].tier_count && !o; t++) {
        const struct rn_rule_limit *l = book->ruleset->rules[0].tiers[t].limits[0];

        if (l->limit.cap == limit)
            return l->spec;
    }
    assert_non_null(o);
    return o->plan->limit->spec;
}

static void read_specs(const struct change *x, struct ration_limit *rule,
                       struct ration_limit *instead)
{
    struct ration *r = open_change(x);
    char words[64];

    snprintf(words, sizeof words, "user=ann plan=%s", x->plan);
    *rule = spec_of(r, words, false);
    set_at(r, "user=ann", x->instead, T0);
    *instead = spec_of(r, words, true);
    ration_close(r);
}

/* ---- coming and going */

struct flap {
    struct ration *r;
    char user[32], words[64];
    const char *limit;
    bool set;
    struct ration_named both[2]; /* the rule's, and the override's */
};

static void change_over(struct flap *f, bool set, int64_t now_ns)
{
    if (set && !f->set)
        set_at(f->r, f->user, f->limit, stopped_at(f->r, now_ns));
    if (!set && f->set)
        delete_limit(f->r, "a", f->user);
    f->set = set;
}

/* All that can be had, mostly by itself, at times reserved and given back. The
 * models keep charges one by one, or it is not given back. */
static unsigned drain(struct flap *f, struct client *c, struct model *m, bool undo)
{
    unsigned sum = 0;

    for (; sum < 150; sum++) {
        struct slip slip;
        bool back = undo && below(c, 8) == 0;

        if (back)
            reserve(f->r, f->words, 1, stopped_at(f->r, c->now_ns), &slip);
        else
            slip.out = decide(f->r, f->words, stopped_at(f->r, c->now_ns));
        c->retry_ns = slip.out.decision.verdict.retry_after_ns;
        if (!slip.out.decision.allowed)
            break;
        judge(m, c, 1, f->both, 2);
        if (back) {
            assert_int_equal(refund(f->r, &slip, c->now_ns), 0);
            model_give_back(m, m->charge_count - 1, 1);
        }
        if (below(c, 20) == 0)
            break;
    }
    return sum;
}

static bool counts_charges(const struct ration_limit *l)
{
    return l->algorithm != RATION_TOKEN_BUCKET && l->algorithm != RATION_LEAKY_BUCKET;
}

/* `apart`: each by its own model; else both by the rule's. */
static void come_and_go(const struct change *x, bool apart)
{
    struct ration_limit rule, instead;
    struct flap f = {.r = open_change(x), .limit = x->instead};
    struct ration_memory memory;
    unsigned sums[2] = {0};

    read_specs(x, &rule, &instead);
    if (covers(&rule, &instead) == apart)
        fail_msg("%s of %s, instead of it %s", x->plan, x->limit, x->instead);
    f.both[0].limit = rule;
    f.both[1].limit = instead;
    bool undo = counts_charges(&rule) && counts_charges(&instead);

    for (unsigned number = 0; number < 9; number++) {
        struct client c = new_client(number);
        struct model models[2];
        uint32_t at = 0;

        f.set = false;
        snprintf(f.user, sizeof f.user, "user=%s", c.key);
        snprintf(f.words, sizeof f.words, "user=%s plan=%s", c.key, x->plan);
        model_init(&models[0], &rule);
        model_init(&models[1], &instead);
        for (int i = 0; i < STEPS(400); i++) {
            rest(&c);
            at = choose(&c, number % 3, at, 2);
            change_over(&f, at == 1, c.now_ns);
            sums[at] += drain(&f, &c, &models[apart ? at : 0], undo);
        }
        model_done(&models[0]);
        model_done(&models[1]);
    }
    assert_true(sums[0] > 100 && sums[1] > 100);
    ration_memory(f.r, T0, &memory);
    assert_int_equal(memory.evictions, 0);
    ration_close(f.r);
}

static void one_that_is_smaller_than_the_rules_adds_nothing(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(smaller); i++)
        come_and_go(&smaller[i], false);
}

static void otherwise_each_admits_what_it_does_by_itself(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(larger); i++)
        come_and_go(&larger[i], true);
}

/* ---- at one instant */

static void at_one_instant_the_larger_of_both_is_not_exceeded(void **state)
{
    struct ration_limit rule, instead;

    (void)state;
    for (size_t i = 0; i < COUNT(smaller) + COUNT(larger); i++) {
        const struct change *x = i < COUNT(smaller) ? &smaller[i] : &larger[i - COUNT(smaller)];
        struct flap f = {.r = open_change(x), .limit = x->instead, .user = "user=ann"};
        struct rn_limit a, b;

        read_specs(x, &rule, &instead);
        rn_limit_init(&a, &rule);
        rn_limit_init(&b, &instead);
        snprintf(f.words, sizeof f.words, "user=ann plan=%s", x->plan);
        for (unsigned number = 0; number < 20; number++) {
            struct client c = new_client(number);
            unsigned sum = 0;

            snprintf(f.user, sizeof f.user, "user=%u", number);
            snprintf(f.words, sizeof f.words, "user=%u plan=%s", number, x->plan);
            f.set = false;
            for (unsigned turn = 0; turn < 60; turn++) {
                change_over(&f, below(&c, 2), c.now_ns);
                sum += admitted(f.r, f.words, (unsigned)below(&c, 12), stopped_at(f.r, c.now_ns));
            }
            assert_true(sum != 0 && sum <= (a.cap > b.cap ? a.cap : b.cap));
        }
        ration_close(f.r);
    }
}

/* ---- staying */

/* A client that keeps its override, and one whose rule says the same, alone. */
static void keep(const struct change *x, int steps)
{
    struct ration *r = open_change(x), *no_server;
    struct change own = {x->algorithm, x->instead, x->plan, NULL};
    struct slip slips[2][8] = {0};
    struct client c = new_client(7);

    if (strstr(x->instead, "queue"))
        own.algorithm = "leaky-bucket";
    else if (strstr(x->instead, "burst") || strstr(x->instead, "steps"))
        own.algorithm = "token-bucket";
    no_server = open_change(&own);
    set_at(r, "user=ann", x->instead, T0);
    for (int i = 0; i < steps; i++) {
        const char *const plans[] = {"user=ann plan=free", "user=ann plan=pro"};
        const char *words = plans[below(&c, 2)];
        uint64_t cost = 1 + (below(&c, 3) ? 0 : below(&c, 12));
        size_t at = below(&c, 8);

        rest(&c);
        if (below(&c, 4) == 0 && slips[0][at].text[0] != '\0') {
            assert_int_equal(refund(r, &slips[0][at], stopped_at(r, c.now_ns)),
                             refund(no_server, &slips[1][at], stopped_at(no_server, c.now_ns)));
            continue;
        }
        reserve(r, words, cost, stopped_at(r, c.now_ns), &slips[0][at]);
        reserve(no_server, words, cost, stopped_at(no_server, c.now_ns), &slips[1][at]);
        assert_same(&slips[0][at].out.decision.verdict, &slips[1][at].out.decision.verdict);
        c.retry_ns = slips[1][at].out.decision.verdict.retry_after_ns;
        c.retry_ns = c.retry_ns == RATION_NEVER ? 0 : c.retry_ns;
    }
    ration_close(r);
    ration_close(no_server);
}

static void a_client_that_keeps_it_never_notices_the_rule(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(smaller); i++)
        keep(&smaller[i], STEPS(8000));
    for (size_t i = 0; i < COUNT(larger); i++)
        keep(&larger[i], STEPS(8000));
}

/* ---- single steps */

/* What the rule's tiers have noted about each other says nothing of a share. */
static void having_moved_between_tiers_is_not_carried_over(void **state)
{
    struct ration *r = open_change(&(struct change){"sliding-log", TIERS, "pro", NULL});

    (void)state;
    assert_int_equal(admitted(r, "user=ann plan=gold", 2, stopped_at(r, T0)), 2);
    assert_int_equal(left_of(r, "a", "user=ann plan=free", T0), 8);
    set_at(r, "user=ann", "1000 per 5 minutes", T0);
    assert_int_equal(left_of(r, "a", "user=ann", T0), 800); /* 2 of 10 */
    ration_close(r);
}

/* All of a small limit is not all of a larger one. */
static void a_client_that_gets_the_rule_back_has_spent_its_units(void **state)
{
    struct ration *r = open_change(&(struct change){"sliding-log", TIERS, "pro", NULL});

    (void)state;
    set_at(r, "user=ann", "5 per 20s", T0);
    assert_int_equal(admitted(r, "user=ann plan=pro", 9, stopped_at(r, T0)), 5);
    delete_limit(r, "a", "user=ann");
    assert_int_equal(left_of(r, "a", "user=ann plan=pro", T0), 85);
    assert_int_equal(left_of(r, "a", "user=ann plan=gold", T0), 195);
    ration_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_that_is_smaller_than_the_rules_adds_nothing),
        cmocka_unit_test(otherwise_each_admits_what_it_does_by_itself),
        cmocka_unit_test(at_one_instant_the_larger_of_both_is_not_exceeded),
        cmocka_unit_test(a_client_that_keeps_it_never_notices_the_rule),
        cmocka_unit_test(having_moved_between_tiers_is_not_carried_over),
        cmocka_unit_test(a_client_that_gets_the_rule_back_has_spent_its_units),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
