/* SPDX-License-Identifier: Apache-2.0 */
/* The keys that a worker decides itself: found, kept in the order of use, and evicted only where
 * nothing is lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "redis/async/reports.h"

#define SECOND INT64_C(1000000000)

static struct rn_limit limit;

static int make_limit(void **state)
{
    (void)state;
    rn_limit_init(&limit, &(struct ration_limit){.algorithm = RATION_TOKEN_BUCKET,
                                                 .amount = 100,
                                                 .period_ns = 60 * SECOND});
    return 0;
}

static struct rn_async_key *find(struct rn_local_keys *keys, uint64_t key)
{
    return rn_local_keys_find(keys, key);
}

static struct rn_async_key *add(struct rn_local_keys *keys, uint64_t key)
{
    struct rn_charge charge = {.limit = &limit, .key = key, .ask = {.op = RN_TAKE, .cost = 1}};
    struct rn_async_key *k = rn_local_keys_add(keys, key, 0);

    if (k) {
        rn_local_budget_init(&k->budget, &charge, RN_LOCAL_BUDGET_FRESH, 1000, 0);
        k->most = 5;
    }
    return k;
}

static struct rn_local_keys open_keys(uint32_t capacity)
{
    struct rn_local_keys keys;

    assert_true(
        rn_local_keys_init(&keys, capacity, sizeof(struct rn_async_key), rn_reports_spares));
    for (uint64_t i = 0; i < capacity; i++)
        assert_non_null(add(&keys, i << 40)); /* all in one chain */
    return keys;
}

static void the_key_not_used_for_the_longest_time_is_evicted(void **state)
{
    struct rn_local_keys keys = open_keys(100);

    (void)state;
    for (uint64_t i = 0; i < 50; i++)
        assert_non_null(find(&keys, i << 40));
    for (uint64_t i = 0; i < 50; i++)
        assert_non_null(add(&keys, (1000 + i) << 40));
    for (uint64_t i = 0; i < 100; i++)
        assert_int_equal(find(&keys, i << 40) != NULL, i < 50);
    rn_local_keys_done(&keys);
}

static void a_key_that_is_unreported_or_nearly_spent_is_not_evicted(void **state)
{
    struct rn_local_keys keys = open_keys(4);
    const long long spent[] = {59000000, 0, 0}; /* one of 100 is left */

    (void)state;
    find(&keys, 0)->budget.unsent = 1;
    rn_local_budget_send(&find(&keys, UINT64_C(1) << 40)->budget);
    find(&keys, UINT64_C(2) << 40)->budget.stage = RN_LOCAL_BUDGET_UNKNOWN;
    struct rn_async_key *low = find(&keys, UINT64_C(3) << 40);
    rn_local_budget_learn(&low->budget, spent, 1000, 0);
    assert_null(add(&keys, 99));
    assert_null(add(&keys, 99));
    assert_non_null(rn_local_keys_add(&keys, 99, 3 * SECOND)); /* five more have come back */
    assert_null(find(&keys, UINT64_C(3) << 40));
    for (uint64_t i = 0; i < 3; i++)
        assert_non_null(find(&keys, i << 40));
    rn_local_keys_done(&keys);
}

static void keys_that_must_stay_do_not_block_the_eviction_of_others(void **state)
{
    struct rn_local_keys keys = open_keys(40);
    unsigned tries = 0;

    (void)state;
    for (uint64_t i = 0; i < 39; i++)
        find(&keys, i << 40)->budget.unsent = 1;
    while (!add(&keys, 99))
        assert_true(++tries < 40);
    assert_null(find(&keys, UINT64_C(39) << 40));
    rn_local_keys_done(&keys);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_key_not_used_for_the_longest_time_is_evicted),
        cmocka_unit_test(a_key_that_is_unreported_or_nearly_spent_is_not_evicted),
        cmocka_unit_test(keys_that_must_stay_do_not_block_the_eviction_of_others),
    };

    return cmocka_run_group_tests(tests, make_limit, NULL);
}
