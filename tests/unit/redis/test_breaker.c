/* SPDX-License-Identifier: Apache-2.0 */
/* The breaker opens, probes and closes; the wait before a reconnect. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "redis/cluster/breaker.h"
#include "redis/conn/link.h"

#define MS INT64_C(1000000)

static void only_failures_on_end_open_it(void **state)
{
    struct rn_breaker b = {0};

    (void)state;
    for (int round = 0; round < 3; round++) {
        for (int i = 1; i < RN_BREAKER_FAILURES; i++)
            assert_false(rn_breaker_fail(&b, 0, 0));
        assert_false(rn_breaker_succeed(&b));
    }
    for (int i = 1; i < RN_BREAKER_FAILURES; i++)
        assert_false(rn_breaker_fail(&b, 0, 0));
    assert_true(rn_breaker_fail(&b, 0, 0));
    assert_true(b.open);
    assert_false(rn_breaker_fail(&b, 0, 0)); /* said once */
    assert_int_equal(b.opened, 1);
}

static void probes_go_one_at_a_time_and_not_at_once(void **state)
{
    struct rn_breaker b = {0};

    (void)state;
    assert_false(rn_breaker_probe(&b, 1000 * MS)); /* it is closed */
    assert_true(rn_breaker_trip(&b, 0, 0));
    assert_false(rn_breaker_probe(&b, RN_BREAKER_PROBE_NS / 2 - 1));
    assert_true(rn_breaker_probe(&b, RN_BREAKER_PROBE_NS / 2));
    assert_false(rn_breaker_probe(&b, 1000 * MS));
    rn_breaker_probe_failed(&b, 1000 * MS, 0);
    assert_false(rn_breaker_probe(&b, 1000 * MS));
    assert_true(rn_breaker_probe(&b, 1000 * MS + RN_BREAKER_PROBE_NS / 2));
    assert_true(rn_breaker_succeed(&b));
    assert_false(b.open);
    assert_true(rn_breaker_trip(&b, 0, 0)); /* and can open again */
}

static void probes_of_many_nodes_are_spread(void **state)
{
    (void)state;
    for (uint64_t random = 0; random < 1000; random++) {
        struct rn_breaker b = {0};

        rn_breaker_trip(&b, 0, random * UINT64_C(0x9E3779B97F4A7C15));
        assert_in_range(b.probe_at_ns, RN_BREAKER_PROBE_NS / 2, RN_BREAKER_PROBE_NS * 3 / 2);
    }
}

static void waits_grow_at_random_within_bounds(void **state)
{
    int64_t shortest = INT64_MAX, longest = 0;

    (void)state;
    for (uint64_t run = 0; run < 100; run++) {
        int64_t wait = 0;

        for (uint64_t i = 0; i < 50; i++) {
            int64_t next =
                rn_link_next_wait(wait, (run * 50 + i + 1) * UINT64_C(0x9E3779B97F4A7C15));
            int64_t most = 3 * (wait > RN_LINK_WAIT_MIN_NS ? wait : RN_LINK_WAIT_MIN_NS);

            assert_in_range(next, RN_LINK_WAIT_MIN_NS, RN_LINK_WAIT_MAX_NS);
            assert_true(next <= most);
            wait = next;
            shortest = next < shortest ? next : shortest;
            longest = next > longest ? next : longest;
        }
    }
    assert_true(shortest < 2 * RN_LINK_WAIT_MIN_NS && longest > RN_LINK_WAIT_MAX_NS / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_failures_on_end_open_it),
        cmocka_unit_test(probes_go_one_at_a_time_and_not_at_once),
        cmocka_unit_test(probes_of_many_nodes_are_spread),
        cmocka_unit_test(waits_grow_at_random_within_bounds),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
