/* SPDX-License-Identifier: Apache-2.0 */
/* Which changes count as a step of the server's clock. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "redis/cluster/shard.h"

#define MS INT64_C(1000000)
#define START_US INT64_C(1800000000000000)

/* A reply that took `took_ms`, at `at_ms` of our clock and `store_ms` of the store's. */
static int64_t note(struct rn_shard_skew *skew, int64_t at_ms, int64_t store_ms, int64_t took_ms)
{
    return rn_shard_note_skew(skew, START_US + store_ms * 1000, at_ms * MS, (at_ms + took_ms) * MS);
}

static void steps_of_the_clock_are_reported_once(void **state)
{
    struct rn_shard_skew skew = {0};

    (void)state;
    assert_int_equal(note(&skew, 1000, 1000, 1), 0);
    assert_int_equal(note(&skew, 2000, 2000, 1), 0);
    int64_t step = note(&skew, 3000, 3000 + 3600000, 1);
    assert_in_range(step / MS, 3599990, 3600000);
    assert_int_equal(note(&skew, 4000, 4000 + 3600000, 1), 0);
    step = note(&skew, 5000, 5000, 1);
    assert_in_range(-step / MS, 3599990, 3600000);
    assert_int_equal(note(&skew, 6000, 6000, 1), 0);
}

static void small_corrections_and_drift_are_no_steps(void **state)
{
    struct rn_shard_skew skew = {0};

    (void)state;
    assert_int_equal(note(&skew, 0, 0, 1), 0);
    assert_int_equal(note(&skew, 1000, 1400, 1), 0);
    assert_int_equal(note(&skew, 3600000, 3600000 + 3600, 1), 0);
    assert_int_not_equal(note(&skew, 3601000, 3601000 + 3600 + 600, 1), 0);
}

static void a_reply_that_took_long_proves_no_step(void **state)
{
    struct rn_shard_skew skew = {0};

    (void)state;
    assert_int_equal(note(&skew, 0, 0, 1), 0);
    /* Read at its beginning, or at its end. */
    assert_int_equal(note(&skew, 1000, 1000, 30000), 0);
    assert_int_equal(note(&skew, 40000, 70000, 30000), 0);
    /* What was known before is not forgotten over it. */
    assert_int_not_equal(note(&skew, 71000, 75000, 1), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(steps_of_the_clock_are_reported_once),
        cmocka_unit_test(small_corrections_and_drift_are_no_steps),
        cmocka_unit_test(a_reply_that_took_long_proves_no_step),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
