/* SPDX-License-Identifier: Apache-2.0 */
/* A shared store that answers, parks the fiber first, or does not answer; and what holds then. */
#include "fixture.h"

#include "base/fiber.h"
#include "limiter/decide/fallback.h"

/* A store that answers as the test says, and records what it was asked. */
struct shared {
    struct rn_store store;
    bool silent;  /* fails at once */
    bool pending; /* parks the fiber that it is called on */
    struct rn_fiber *parked;
    unsigned asked, given_back;
    uint64_t left; /* of one limit for all */
    uint64_t late; /* what it is not asked in time for is known by this */
    uint64_t disowned;
};

static void answer(struct shared *s, struct rn_charge *batch, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint64_t cost = batch[i].ask.cost;
        bool fits = cost <= s->left;

        s->given_back += batch[i].ask.op == RN_GIVE_BACK;
        batch[i].error = s->silent ? RATION_ESTORE : 0;
        batch[i].late = s->silent ? s->late : 0;
        batch[i].answer = (struct rn_answer){.allowed = fits};
        if (!s->silent && batch[i].ask.op == RN_TAKE && fits)
            s->left -= cost;
        batch[i].answer.remaining = s->left;
    }
}

static void apply(struct rn_store *store, struct rn_charge *batch, size_t n)
{
    struct shared *s = (struct shared *)(void *)store;

    s->asked++;
    if (s->pending) {
        s->parked = rn_fiber_current();
        rn_fiber_wait();
    }
    answer(s, batch, n);
}

static void disown(struct rn_store *store, const struct rn_charge *charge, uint64_t late)
{
    (void)charge;
    ((struct shared *)(void *)store)->disowned += late;
}

static const struct rn_store_ops ops = {.apply = apply, .disown = disown};

struct scene {
    struct ration *r;
    struct shared shared;
    struct ration_limit limit;
};

static const char *none_is_unfit(const struct rn_limit *limit)
{
    (void)limit;
    return NULL;
}

static int set_up(void **state)
{
    static struct scene scene;
    static const struct rn_hash_key secret = {1, 2};

    scene = (struct scene){.r = open_limits(NULL, 0)};
    scene.shared = (struct shared){.store = {.ops = &ops}, .left = 3};
    scene.limit = named("x", "8 per minute").limit;
    assert_int_equal(rn_limiter_share(scene.r, &secret, none_is_unfit), 0);
    rn_fallback_use(&scene.shared.store);
    *state = &scene;
    return 0;
}

static int tear_down(void **state)
{
    struct scene *s = *state;

    rn_fallback_use(NULL);
    ration_close(s->r);
    return 0;
}

static struct ration_charge take_cost(struct scene *s, uint64_t cost)
{
    struct ration_charge c = {.ad_hoc = &s->limit, .key = "k", .key_len = 1, .cost = cost};

    assert_int_equal(ration_take(s->r, &c, RATION_NOW), 0);
    return c;
}

static unsigned admitted(struct scene *s, unsigned of)
{
    unsigned n = 0;

    for (unsigned i = 0; i < of; i++)
        n += take_cost(s, 1).verdict.allowed;
    return n;
}

static void what_the_shared_store_says_holds(void **state)
{
    struct scene *s = *state;

    assert_int_equal(admitted(s, 10), 3);
    assert_int_equal(s->shared.asked, 10);
    assert_int_equal(s->r->fallback->counts.local, 0);
}

static void work(void *arg)
{
    struct scene *s = arg;

    assert_int_equal(admitted(s, 4), 3);
}

static void count_end(void *arg)
{
    struct scene *s = arg;

    s->shared.pending = false;
}

static void a_fiber_waits_for_an_answer_that_comes_later(void **state)
{
    struct scene *s = *state;
    struct rn_fiber *fiber = rn_fiber_new((size_t)1 << 20);

    s->shared.pending = true;
    assert_false(rn_fiber_run(fiber, work, count_end, s));
    for (unsigned i = 0; i < 4; i++) {
        assert_true(s->shared.pending);
        assert_int_equal(s->shared.asked, i + 1);
        rn_fiber_wake(s->shared.parked);
    }
    assert_false(s->shared.pending);
    rn_fiber_free(fiber);
}

/* Eight among four nodes are two for each. */
static void without_an_answer_a_node_has_its_share(void **state)
{
    struct scene *s = *state;

    s->shared.silent = true;
    s->r->fallback->nodes = 4;
    assert_int_equal(take_cost(s, 1).verdict.remaining, 1);
    assert_int_equal(admitted(s, 10), 1);
    assert_int_equal(s->r->fallback->counts.local, 11);
}

static void alone_a_node_has_all_of_it(void **state)
{
    struct scene *s = *state;

    s->shared.silent = true;
    assert_int_equal(admitted(s, 20), 8);
}

static void a_share_of_less_than_one_is_one(void **state)
{
    struct scene *s = *state;

    s->shared.silent = true;
    s->r->fallback->nodes = 100;
    assert_int_equal(admitted(s, 20), 1);
}

static void a_cost_above_the_share_is_refused(void **state)
{
    struct scene *s = *state;

    s->shared.silent = true;
    s->r->fallback->nodes = 4;
    assert_false(take_cost(s, 3).verdict.allowed);
    assert_true(take_cost(s, 2).verdict.allowed);
    assert_false(take_cost(s, 1).verdict.allowed);
}

static void the_share_refills_at_its_part_of_the_rate(void **state)
{
    struct scene *s = *state;
    struct ration_charge c = {.ad_hoc = &s->limit, .key = "k", .key_len = 1, .cost = 1};
    int64_t now = ration_now(s->r);
    unsigned n = 0;

    s->shared.silent = true;
    s->r->fallback->nodes = 4;
    for (int second = 0; second <= 120; second++) {
        assert_int_equal(ration_take(s->r, &c, now + second * SECOND), 0);
        n += c.verdict.allowed;
    }
    assert_int_equal(n, 2 + 4); /* two, and two a minute */
}

/* The shared store never had it: to give it one back would be to mint. */
static void what_was_decided_here_is_not_given_back_there(void **state)
{
    struct scene *s = *state;
    struct ration_charge here, there = take_cost(s, 1);

    s->shared.silent = true;
    here = take_cost(s, 1);
    s->shared.silent = false;
    s->shared.asked = 0;
    assert_int_equal(ration_give_back(s->r, &here, RATION_NOW), 0);
    assert_int_equal(s->shared.asked, 0);
    assert_int_equal(ration_give_back(s->r, &there, RATION_NOW), 0);
    assert_int_equal(s->shared.given_back, 1);
}

/* A larger variant counts what its smaller one admits, wherever that was decided. */
static void nor_is_it_to_a_guard(void **state)
{
    struct scene *s = *state;
    const struct ration_named variants[] = {
        with(named("v", "10 per 2m"), RATION_SLIDING_LOG),
        with(named("v", "20 per minute"), RATION_SLIDING_LOG),
    };
    struct ration *no_server = s->r;
    struct ration_charge here = charge(0, "k", 1), there = here;

    s->r = open_limits(variants, 2);
    ration_close(no_server);
    assert_int_equal(rn_limiter_share(s->r, &(struct rn_hash_key){1, 2}, none_is_unfit), 0);
    assert_int_equal(ration_take(s->r, &there, RATION_NOW), 0);
    s->shared.silent = true;
    assert_int_equal(ration_take(s->r, &here, RATION_NOW), 0);
    s->shared.silent = false;
    s->shared.given_back = 0;
    assert_int_equal(ration_give_back(s->r, &here, RATION_NOW), 0);
    assert_int_equal(s->shared.given_back, 0);
    assert_int_equal(ration_give_back(s->r, &there, RATION_NOW), 0);
    assert_int_equal(s->shared.given_back, 2); /* to both */
}

static void changes_need_the_shared_store(void **state)
{
    struct scene *s = *state;
    struct ration_charge c = take_cost(s, 1);

    s->shared.silent = true;
    assert_int_equal(ration_give_back(s->r, &c, RATION_NOW), RATION_ESTORE);
    c = (struct ration_charge){.ad_hoc = &s->limit, .key = "k", .key_len = 1};
    assert_int_equal(ration_reset(s->r, &c, RATION_NOW), RATION_ESTORE);
    assert_int_equal(s->r->fallback->counts.lost, 2);
}

/* One charge with these flags, as rules make them. */
static struct rn_charge charge_with(struct scene *s, unsigned flags, enum rn_op op)
{
    static struct rn_limit limit;
    struct rn_charge c = {.limit = &limit,
                          .key = 7,
                          .flags = flags,
                          .ask = {.op = op, .now_ns = ration_now(s->r), .cost = 1}};

    rn_limit_init(&limit, &s->limit);
    rn_store_apply(s->r->store, &c, 1);
    return c;
}

static void a_rule_may_allow_or_refuse_instead(void **state)
{
    struct scene *s = *state;
    struct rn_charge c;

    s->shared.silent = true;
    for (unsigned i = 0; i < 20; i++) {
        c = charge_with(s, RN_CHARGE_ELSE_ALLOW, RN_TAKE);
        assert_int_equal(c.error, 0);
        assert_true(c.answer.allowed);
    }
    c = charge_with(s, RN_CHARGE_ELSE_REFUSE, RN_TAKE);
    assert_int_equal(c.error, 0);
    assert_false(c.answer.allowed);
    assert_int_equal(c.answer.retry_after_ns, SECOND);
    assert_int_equal(s->r->fallback->counts.allowed, 20);
    assert_int_equal(s->r->fallback->counts.refused, 1);
    assert_int_equal(s->r->fallback->counts.local, 0);
}

static void a_late_charge_is_unwanted_if_the_request_is_refused_at_once(void **state)
{
    struct scene *s = *state;

    s->shared.silent = true;
    s->shared.late = 5;
    assert_false(charge_with(s, RN_CHARGE_ELSE_REFUSE, RN_TAKE).answer.allowed);
    assert_int_equal(s->shared.disowned, 5);
    assert_int_equal(admitted(s, 10), 8); /* the node's own table says no to two more */
    assert_int_equal(s->shared.disowned, 5 + 2 * 5);
}

static void or_if_it_is_refused_by_another_limit_after_all(void **state)
{
    struct scene *s = *state;
    struct rn_charge c;

    s->shared.silent = true;
    s->shared.late = RN_CHARGE_LATE_MAX;
    c = charge_with(s, RN_CHARGE_ELSE_ALLOW, RN_TAKE);
    assert_true(c.answer.allowed && rn_fallback_has_decided(c.answer.mark));
    assert_int_equal(s->shared.disowned, 0); /* it was admitted: the charge stands */
    c.ask.op = RN_GIVE_BACK;
    c.ask.mark = c.answer.mark;
    s->shared.asked = 0;
    rn_store_apply(s->r->store, &c, 1);
    assert_int_equal(s->shared.asked, 0);
    assert_true(s->shared.disowned == RN_CHARGE_LATE_MAX);
}

static void without_a_shared_store_the_policy_answers(void **state)
{
    struct scene *s = *state;

    rn_fallback_use(NULL);
    assert_int_equal(admitted(s, 20), 8);
}

#define test(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        test(what_the_shared_store_says_holds),
        test(a_fiber_waits_for_an_answer_that_comes_later),
        test(without_an_answer_a_node_has_its_share),
        test(alone_a_node_has_all_of_it),
        test(a_share_of_less_than_one_is_one),
        test(a_cost_above_the_share_is_refused),
        test(the_share_refills_at_its_part_of_the_rate),
        test(what_was_decided_here_is_not_given_back_there),
        test(nor_is_it_to_a_guard),
        test(changes_need_the_shared_store),
        test(a_rule_may_allow_or_refuse_instead),
        test(a_late_charge_is_unwanted_if_the_request_is_refused_at_once),
        test(or_if_it_is_refused_by_another_limit_after_all),
        test(without_a_shared_store_the_policy_answers),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
