/* SPDX-License-Identifier: Apache-2.0 */
/* Variants of which one is the larger: however a client moves between them, the
 * naive model of the larger admits all it got. */
#include "guards_fixture.h"

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

static void a_shadow_limit_neither_guards_nor_is_guarded(void **state)
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(moving_to_and_fro_admits_no_more_than_the_larger),
        cmocka_unit_test(of_three_the_largest_in_use_is_not_exceeded),
        cmocka_unit_test(a_guard_counts_by_the_smallest_that_covers),
        cmocka_unit_test(a_guard_refuses_and_nothing_has_changed),
        cmocka_unit_test(a_client_that_moved_is_soon_on_its_own),
        cmocka_unit_test(a_shadow_limit_neither_guards_nor_is_guarded),
        cmocka_unit_test(a_peek_leaves_a_receipt_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
