/* SPDX-License-Identifier: Apache-2.0 */
/* About how many different keys there were. */
#include "fixture.h"

#include "base/siphash.h"
#include "limiter/effect/sketch.h"

static uint64_t hash_of(uint64_t key)
{
    return rn_siphash(&(struct rn_hash_key){7, 11}, &key, sizeof key);
}

static uint64_t error_permille(uint64_t estimate, uint64_t count)
{
    return (estimate > count ? estimate - count : count - estimate) * 1000 / count;
}

static void none_are_none_and_one_is_one(void **state)
{
    struct rn_sketch d = {{0}};

    (void)state;
    assert_int_equal(rn_sketch_estimate(&d), 0);
    assert_true(rn_sketch_add(&d, hash_of(1)));
    for (int i = 0; i < 1000; i++)
        assert_false(rn_sketch_add(&d, hash_of(1)));
    assert_int_equal(rn_sketch_estimate(&d), 1);
}

/* The standard error is 4.6 %; four of them are exceeded once in 16,000 times, and these hashes are
 * always the same. */
static void estimates_are_close_from_ten_to_a_million(void **state)
{
    struct rn_sketch d = {{0}};
    uint64_t key = 0;

    (void)state;
    for (uint64_t count = 10; count <= 1000000; count *= 10) {
        while (key < count)
            rn_sketch_add(&d, hash_of(key++));
        assert_in_range(error_permille(rn_sketch_estimate(&d), count), 0, 184);
    }
}

static void a_merged_estimate_is_that_of_all_keys(void **state)
{
    struct rn_sketch all = {{0}}, even = {{0}}, odd = {{0}};

    (void)state;
    for (uint64_t key = 0; key < 5000; key++) {
        rn_sketch_add(&all, hash_of(key));
        rn_sketch_add(key % 2 == 0 ? &even : &odd, hash_of(key));
    }
    rn_sketch_merge(&even, &odd);
    assert_memory_equal(&even, &all, sizeof all);
}

/* The longest possible run of zeros fits a register. */
static void a_hash_of_zeros_counts(void **state)
{
    struct rn_sketch d = {{0}};

    (void)state;
    assert_true(rn_sketch_add(&d, 0));
    assert_false(rn_sketch_add(&d, 0));
    assert_int_equal(rn_sketch_estimate(&d), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(none_are_none_and_one_is_one),
        cmocka_unit_test(estimates_are_close_from_ten_to_a_million),
        cmocka_unit_test(a_merged_estimate_is_that_of_all_keys),
        cmocka_unit_test(a_hash_of_zeros_counts),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
