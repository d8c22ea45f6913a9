/* SPDX-License-Identifier: Apache-2.0 */
/* Limits that share a name: moving between them never mints, and never holds a
 * client to a limit it has left. What one that is the larger in every respect adds
 * to that is in test_guards.c. */
#include "fixture.h"

#include <stdio.h>

#include "core/envelope.h"

struct pair {
    const char *what;
    struct ration_named a, b;
};

#define PAIRS 10

static void make_pairs(struct pair *p)
{
    p[0] =
        (struct pair){"another amount", named("v", "10 per minute"), named("v", "100 per minute")};
    p[1] = (struct pair){"another burst", named("v", "60 per minute burst 5"),
                         named("v", "60 per minute burst 40")};
    p[2] =
        (struct pair){"another period", named("v", "100 per minute"), named("v", "10 per second")};
    p[3] =
        (struct pair){"a far longer period", named("v", "50 per hour"), named("v", "5 per second")};
    p[4] = (struct pair){"bucket and window", named("v", "20 per minute"),
                         with(named("v", "60 per minute"), RATION_FIXED_WINDOW)};
    p[5] = (struct pair){"log and bucket", with(named("v", "30 per 10s"), RATION_SLIDING_LOG),
                         named("v", "10 per second burst 7")};
    p[6] = (struct pair){"log and counter", with(named("v", "30 per 10s"), RATION_SLIDING_LOG),
                         with(named("v", "50 per minute"), RATION_SLIDING_WINDOW)};
    p[7] = (struct pair){"queue and bucket", named("v", "5 per second queue 20"),
                         named("v", "40 per minute")};
    p[8] = (struct pair){"windows of other lengths",
                         with(named("v", "10 per 10s"), RATION_FIXED_WINDOW),
                         with(named("v", "30 per minute"), RATION_FIXED_WINDOW)};
    p[9] = (struct pair){"a window and a larger one",
                         with(named("v", "10 per 10s"), RATION_FIXED_WINDOW),
                         with(named("v", "60 per minute"), RATION_FIXED_WINDOW)};
}

static uint64_t cap_of(const struct ration_limit *l)
{
    return l->algorithm == RATION_LEAKY_BUCKET ? l->queue + 1 : l->burst ? l->burst : l->amount;
}

static uint64_t largest_cap(const struct pair *p)
{
    uint64_t a = cap_of(&p->a.limit), b = cap_of(&p->b.limit);

    return a > b ? a : b;
}

static double rate_of(const struct ration_limit *l)
{
    return (double)l->amount / (double)l->period_ns;
}

static bool is_bucket(const struct ration_limit *l)
{
    return l->algorithm == RATION_TOKEN_BUCKET || l->algorithm == RATION_LEAKY_BUCKET;
}

/* Whether the second is the larger and not just a bucket like the first. */
static bool is_guarded(const struct pair *p)
{
    struct rn_limit a, b;

    rn_limit_init(&a, &p->a.limit);
    rn_limit_init(&b, &p->b.limit);
    return rn_envelope_settles_ns(&b, &a) != RN_NEVER &&
           !(is_bucket(&p->a.limit) && is_bucket(&p->b.limit));
}

/* What a client can get in the long run. Buckets: the larger rate; and so where
 * one limit is the larger in every respect. Else a window frees at once what it
 * refused to count while it was full, so that the other variant's rate may come
 * on top. */
static double rate_of_both(const struct pair *p)
{
    double a = rate_of(&p->a.limit), b = rate_of(&p->b.limit);

    if (!is_guarded(p) && (!is_bucket(&p->a.limit) || !is_bucket(&p->b.limit)))
        return a + b;
    return a > b ? a : b;
}

static uint64_t next_random(uint64_t *x)
{
    *x ^= *x << 13;
    *x ^= *x >> 7;
    *x ^= *x << 17;
    return *x;
}

static void for_each_pair(void (*see)(struct ration *r, const struct pair *p))
{
    struct pair pairs[PAIRS];

    make_pairs(pairs);
    for (int i = 0; i < PAIRS; i++) {
        const struct ration_named limits[] = {pairs[i].a, pairs[i].b};
        struct ration *r = open_limits(limits, 2);

        see(r, &pairs[i]);
        ration_close(r);
    }
}

static void flap_at_once(struct ration *r, const struct pair *p)
{
    uint64_t seed = 88172645463325252u;
    char key[16];

    for (unsigned client = 0; client < 100; client++) {
        uint64_t admitted = 0;

        snprintf(key, sizeof key, "%u", client);
        for (int i = 0; i < 1000; i++) {
            uint64_t x = next_random(&seed), cost = 1 + (x >> 8) % 3;

            if (take(r, (uint32_t)(x & 1), key, cost, T0))
                admitted += cost;
        }
        if (admitted > largest_cap(p))
            fail_msg("%s: %u admitted at once", p->what, (unsigned)admitted);
        assert_true(admitted > 0);
    }
}

static void flapping_at_one_instant_admits_no_more_than_the_larger(void **state)
{
    (void)state;
    for_each_pair(flap_at_once);
}

static void flap_over_time(struct ration *r, const struct pair *p)
{
    uint64_t seed = 2463534242u;
    char key[16];

    for (unsigned client = 0; client < 20; client++) {
        int64_t t = 0, most_step = client % 2 ? SECOND : SECOND / 20;
        uint64_t admitted = 0;

        snprintf(key, sizeof key, "%u", client);
        for (int i = 0; i < 3000; i++) {
            uint64_t x = next_random(&seed), cost = 1 + (x >> 8) % 2;

            t += (int64_t)((x >> 16) % (uint64_t)most_step);
            for (uint32_t half = 0; half < 2; half++) /* if not the one, then the other */
                if (take(r, (uint32_t)(x & 1) ^ half, key, cost, stopped_at(r, T0 + t)))
                    admitted += cost;
            if ((double)admitted > (double)largest_cap(p) + rate_of_both(p) * (double)t + 1e-6)
                fail_msg("%s: %u admitted in %f s", p->what, (unsigned)admitted, (double)t / 1e9);
        }
    }
}

static void flapping_over_time_stays_within_the_stated_bound(void **state)
{
    (void)state;
    for_each_pair(flap_over_time);
}

/* Drains one, and asks the other: first here, then there. The larger one of
 * another shape has its units left. */
static void drain_and_move(struct ration *r, const struct pair *p)
{
    for (uint32_t from = 0; from < 2; from++) {
        char key[] = {'k', (char)('0' + from), 0};

        for (int i = 0; i < 1000; i++)
            take(r, from, key, 1, T0);
        uint64_t unspent =
            from == 0 && is_guarded(p) ? cap_of(&p->b.limit) - cap_of(&p->a.limit) : 0;

        if (left(r, 1 - from, key, T0) != unspent)
            fail_msg("%s: a share was left behind", p->what);
    }
}

static void a_client_takes_the_share_it_has_spent_along(void **state)
{
    (void)state;
    for_each_pair(drain_and_move);
}

static void units_count_in_full_and_shares_at_least(void **state)
{
    const struct ration_named limits[] = {named("v", "100 per minute"),
                                          named("v", "10 per second")};
    struct ration *r = open_limits(limits, 2);

    (void)state;
    assert_true(take(r, 0, "k", 4, T0));
    assert_int_equal(left(r, 1, "k", T0), 6); /* 4 units are more than 4 % of 10 */
    assert_true(take(r, 1, "j", 3, T0));
    assert_int_equal(left(r, 0, "j", T0), 70); /* 30 % of 100 is more than 3 units */
    ration_close(r);
}

/* The state of a limit that was left goes on counting, but is not asked. */
static void a_client_that_moved_is_not_held_to_its_old_limit(void **state)
{
    const struct ration_named limits[] = {named("v", "10 per minute"), named("v", "10 per second")};
    struct ration *r = open_limits(limits, 2);
    int64_t t = T0;

    (void)state;
    for (int i = 0; i < 20; i++)
        take(r, 0, "k", 1, t);
    t += 2 * SECOND;
    for (int i = 0; i < 1000; i++, t += SECOND / 5)
        assert_true(take(r, 1, "k", 1, t));
    assert_int_equal(left(r, 1, "k", t + SECOND), 10);
    assert_int_equal(left(r, 0, "k", t), 0);
    ration_close(r);
}

static void a_refused_request_leaves_the_variants_alone(void **state)
{
    const struct ration_named limits[] = {named("v", "100 per minute"),
                                          named("v", "10 per second")};
    struct ration *r = open_limits(limits, 2);

    (void)state;
    assert_false(take(r, 1, "k", 11, T0));
    assert_int_equal(left(r, 0, "k", T0), 100);
    assert_int_equal(left(r, 1, "k", T0), 10);
    ration_close(r);
}

static void unlimited_and_places_are_left_out(void **state)
{
    const struct ration_named limits[] = {named("v", "10 per minute"), named("v", "unlimited"),
                                          named("v", "3 concurrent"), named("v", "0 per hour")};
    struct ration *r = open_limits(limits, 4);
    struct ration_charge c = charge(2, "k", 1);
    uint64_t lease;

    (void)state;
    assert_true(take(r, 1, "k", 5, T0));
    assert_int_equal(ration_acquire(r, &c, 0, T0, &lease), 0);
    assert_int_equal(left(r, 0, "k", T0), 10);
    assert_true(take(r, 0, "k", 10, T0));
    assert_int_equal(left(r, 2, "k", T0), 2);
    assert_true(take(r, 1, "k", 5, T0));
    ration_close(r);
}

static void a_reset_forgets_all_variants(void **state)
{
    const struct ration_named limits[] = {named("v", "100 per minute"), named("v", "10 per second"),
                                          named("v", "50 per minute")};
    struct ration *r = open_limits(limits, 3);
    struct ration_charge c = charge(2, "k", 1);

    (void)state;
    take(r, 0, "k", 100, T0);
    assert_int_equal(left(r, 2, "k", T0), 0); /* of one shape with the first */
    assert_int_equal(ration_reset(r, &c, T0), 0);
    assert_int_equal(left(r, 0, "k", T0), 100);
    assert_int_equal(left(r, 1, "k", T0), 10);
    assert_int_equal(left(r, 2, "k", T0), 50);
    ration_close(r);
}

static void a_key_hashed_beforehand_finds_its_variants(void **state)
{
    const struct ration_named limits[] = {named("v", "100 per minute"),
                                          named("v", "10 per second")};
    struct ration *r = open_limits(limits, 2);
    struct ration_charge c[] = {{.limit = 0, .hash = ration_hash(r, 0, "k", 1), .cost = 100},
                                {.limit = 1, .hash = ration_hash(r, 1, "k", 1), .cost = 1}};

    (void)state;
    ration_take_batch(r, c, 2, T0);
    assert_true(c[0].verdict.allowed);
    assert_false(c[1].verdict.allowed);
    assert_int_equal(left(r, 1, "k", T0), 0);
    ration_close(r);
}

static void a_name_may_have_more_shapes_than_fit_a_batch(void **state)
{
    struct ration_named limits[150];
    struct ration_charge c[] = {charge(0, "k", 3), charge(0, "j", 2)};
    struct ration_decision d;

    (void)state;
    for (int i = 0; i < 150; i++) {
        limits[i] = named("v", "10 per minute");
        limits[i].limit.period_ns += i * SECOND;
    }
    struct ration *r = open_limits(limits, 150);

    assert_int_equal(ration_check(r, c, 2, T0, &d), 0);
    for (uint32_t i = 0; i < 150; i++) {
        assert_int_equal(left(r, i, "k", T0), 7);
        assert_int_equal(left(r, i, "j", T0), 8);
    }
    ration_close(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flapping_at_one_instant_admits_no_more_than_the_larger),
        cmocka_unit_test(flapping_over_time_stays_within_the_stated_bound),
        cmocka_unit_test(a_client_takes_the_share_it_has_spent_along),
        cmocka_unit_test(units_count_in_full_and_shares_at_least),
        cmocka_unit_test(a_client_that_moved_is_not_held_to_its_old_limit),
        cmocka_unit_test(a_refused_request_leaves_the_variants_alone),
        cmocka_unit_test(unlimited_and_places_are_left_out),
        cmocka_unit_test(a_reset_forgets_all_variants),
        cmocka_unit_test(a_key_hashed_beforehand_finds_its_variants),
        cmocka_unit_test(a_name_may_have_more_shapes_than_fit_a_batch),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
