/* SPDX-License-Identifier: Apache-2.0 */
/* Which refusals the cache keeps, for how long, and what drops them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "redis/strict/refusal_cache.h"

#define MS INT64_C(1000000)
#define SECOND (1000 * MS)

static struct rn_limit limit_of(enum ration_algorithm algorithm, uint64_t amount)
{
    struct rn_limit l;

    rn_limit_init(&l, &(struct ration_limit){
                          .algorithm = algorithm, .amount = amount, .period_ns = 60 * SECOND});
    return l;
}

static struct rn_charge take(const struct rn_limit *l, uint64_t cost)
{
    return (struct rn_charge){.limit = l, .key = 42, .ask = {.op = RN_TAKE, .cost = cost}};
}

static struct rn_refusal_cache *open_refusals(void)
{
    struct rn_refusal_cache *r = calloc(1, sizeof *r);

    assert_non_null(r);
    return r;
}

/* A take of that cost, sent at 1 s, was refused for this long. */
static void refuse(struct rn_refusal_cache *r, const struct rn_limit *l, uint64_t cost,
                   int64_t retry_ns)
{
    struct rn_charge charge = take(l, cost);

    charge.answer = (struct rn_answer){
        .remaining = cost - 1, .retry_after_ns = retry_ns, .reset_after_ns = 60 * SECOND};
    rn_refusal_cache_note(r, &charge, SECOND, rn_refusal_cache_asked(r));
}

static bool finds(struct rn_refusal_cache *r, const struct rn_limit *l, uint64_t cost,
                  int64_t at_ns)
{
    struct rn_charge charge = take(l, cost);

    return rn_refusal_cache_find(r, &charge, at_ns);
}

static void it_holds_until_the_units_are_there(void **state)
{
    struct rn_refusal_cache *r = open_refusals();
    struct rn_limit l = limit_of(RATION_TOKEN_BUCKET, 100);
    struct rn_charge charge = take(&l, 5);

    (void)state;
    refuse(r, &l, 5, 600 * MS);
    assert_true(rn_refusal_cache_find(r, &charge, SECOND + 200 * MS));
    assert_false(charge.answer.allowed);
    assert_int_equal(charge.answer.remaining, 4);
    assert_int_equal(charge.answer.retry_after_ns, 400 * MS);
    assert_int_equal(charge.answer.reset_after_ns, 60 * SECOND - 200 * MS);
    assert_true(finds(r, &l, 5, SECOND + 600 * MS - 1));
    assert_false(finds(r, &l, 5, SECOND + 600 * MS));
    free(r);
}

static void one_asked_for_before_units_came_back_elsewhere_does_not_hold(void **state)
{
    struct rn_returns *returns = calloc(1, sizeof *returns);
    struct rn_refusal_cache *r = open_refusals(), *of_another_loop = open_refusals();
    struct rn_limit l = limit_of(RATION_FIXED_WINDOW, 100);
    struct rn_charge charge = take(&l, 5);

    (void)state;
    assert_non_null(returns);
    r->returns = of_another_loop->returns = returns;
    refuse(r, &l, 5, 600 * MS);
    rn_refusal_cache_returned(of_another_loop, 42 + 1);
    assert_true(finds(r, &l, 5, SECOND));
    uint64_t asked = rn_refusal_cache_asked(r);
    rn_refusal_cache_returned(of_another_loop, 42);
    assert_false(finds(r, &l, 5, SECOND));
    charge.answer.retry_after_ns = 600 * MS;
    rn_refusal_cache_note(r, &charge, SECOND, asked);
    assert_false(finds(r, &l, 5, SECOND));
    refuse(r, &l, 5, 600 * MS);
    assert_true(finds(r, &l, 5, SECOND));
    free(of_another_loop);
    free(returns);
    free(r);
}

static void it_holds_for_a_second_at_most(void **state)
{
    struct rn_refusal_cache *r = open_refusals();
    struct rn_limit l = limit_of(RATION_FIXED_WINDOW, 100);

    (void)state;
    refuse(r, &l, 5, 50 * SECOND);
    assert_true(finds(r, &l, 5, 2 * SECOND - 1));
    assert_false(finds(r, &l, 5, 2 * SECOND));
    free(r);
}

static void larger_costs_are_refused_and_smaller_ones_are_sent(void **state)
{
    struct rn_refusal_cache *r = open_refusals();
    struct rn_limit l = limit_of(RATION_SLIDING_LOG, 100);
    struct rn_charge impossible = take(&l, 101);

    (void)state;
    refuse(r, &l, 5, 600 * MS);
    assert_true(finds(r, &l, 6, SECOND));
    assert_false(finds(r, &l, 4, SECOND));
    assert_true(rn_refusal_cache_find(r, &impossible, SECOND));
    assert_int_equal(impossible.answer.retry_after_ns, RN_NEVER);
    free(r);
}

static void refunds_resets_and_changes_end_it_and_looks_do_not(void **state)
{
    struct rn_refusal_cache *r = open_refusals();
    struct rn_limit l = limit_of(RATION_TOKEN_BUCKET, 100),
                    larger = limit_of(RATION_TOKEN_BUCKET, 200);
    const enum rn_op enders[] = {RN_GIVE_BACK, RN_CREDIT, RN_RESET},
                     others[] = {RN_PEEK, RN_OLDEST, RN_FORCE, RN_DRAIN};

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct rn_charge charge = take(&l, 1);

        charge.ask.op = enders[i];
        refuse(r, &l, 5, 600 * MS);
        assert_false(rn_refusal_cache_find(r, &charge, SECOND));
        assert_false(finds(r, &l, 5, SECOND));
    }
    refuse(r, &l, 5, 600 * MS);
    for (size_t i = 0; i < 4; i++) {
        struct rn_charge charge = take(&l, 5);

        charge.ask.op = others[i];
        assert_false(rn_refusal_cache_find(r, &charge, SECOND));
    }
    assert_false(finds(r, &larger, 5, SECOND));
    assert_true(finds(r, &l, 5, SECOND));
    free(r);
}

static void only_refused_takes_of_units_are_noted(void **state)
{
    struct rn_refusal_cache *r = open_refusals();
    struct rn_limit l = limit_of(RATION_TOKEN_BUCKET, 100), places;
    struct rn_charge charge = take(&l, 5);

    (void)state;
    rn_limit_init(&places, &(struct ration_limit){.algorithm = RATION_CONCURRENCY, .amount = 100});
    refuse(r, &places, 5, 600 * MS);
    assert_false(finds(r, &places, 5, SECOND));
    refuse(r, &l, 5, RN_NEVER);
    assert_false(finds(r, &l, 5, SECOND));
    charge.answer = (struct rn_answer){.allowed = true, .retry_after_ns = 600 * MS};
    rn_refusal_cache_note(r, &charge, SECOND, rn_refusal_cache_asked(r));
    charge.answer.allowed = false;
    charge.ask.op = RN_PEEK;
    rn_refusal_cache_note(r, &charge, SECOND, rn_refusal_cache_asked(r));
    charge.ask.op = RN_TAKE;
    charge.error = -1;
    rn_refusal_cache_note(r, &charge, SECOND, rn_refusal_cache_asked(r));
    assert_false(finds(r, &l, 5, SECOND));
    free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_holds_until_the_units_are_there),
        cmocka_unit_test(one_asked_for_before_units_came_back_elsewhere_does_not_hold),
        cmocka_unit_test(it_holds_for_a_second_at_most),
        cmocka_unit_test(larger_costs_are_refused_and_smaller_ones_are_sent),
        cmocka_unit_test(refunds_resets_and_changes_end_it_and_looks_do_not),
        cmocka_unit_test(only_refused_takes_of_units_are_noted),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
